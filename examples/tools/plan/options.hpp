// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line `echo-plan GRAPH` as a value.
#pragma once

#include "command_line/parse.hpp"
#include "command_line/place.hpp"
#include "plan/asked.hpp"
#include "plan/help.hpp"
#include "report/page.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace echo::format {

/// Errors: `usage_error` where a file would be written over one that is read, or over another one.
inline void check_files(const options& chosen) {
    const std::string page = chosen.report_dir.empty() ? "" : chosen.report_dir + "/index.html";
    const std::pair<std::string_view, const std::string*> files[] = {
        {"--emit-plan", &chosen.plan_file},
        {"--emit-onnx", &chosen.onnx_file},
        {"--dot", &chosen.dot_file},
        {"--trace", &chosen.trace_file},
        {"--memory-snapshot", &chosen.snapshot_file},
        {"--report", &page}};
    for (std::size_t i = 0; i < std::size(files); ++i) {
        const auto& [option, file] = files[i];
        if (file->empty()) continue;
        const place there = place::of_output(*file);
        if (there == place::of_input(chosen.graph))
            throw usage_error(fmt::format("{} would overwrite the graph", option));
        if (!chosen.given_plan.empty() && there == place::of_input(chosen.given_plan))
            throw usage_error(fmt::format("{} would overwrite the plan that is read", option));
        for (std::size_t j = 0; j < i; ++j)
            if (!files[j].second->empty() && there == place::of_output(*files[j].second))
                throw usage_error(fmt::format("{} and {} name the same file", files[j].first, option));
    }
}

/// What of an ONNX model only can be asked is asked.
inline bool asks_onnx(const options& chosen) {
    return !chosen.dims.empty() || !chosen.shapes.empty() || !chosen.first_backward.empty() ||
           !chosen.onnx_file.empty();
}

/// Errors: `usage_error` where what is asked of a model is asked of another file. What comes from standard input is not
/// known yet.
inline void check_onnx(const options& chosen) {
    if (asks_onnx(chosen) && !chosen.is_onnx() && !is_stream(chosen.graph))
        throw usage_error(
            "--dim, --shape, --first-backward and --emit-onnx go with an ONNX model only (.onnx)");
    if (!chosen.onnx_file.empty() && chosen.link)
        throw usage_error("--emit-onnx goes without --offload: an ONNX model has no second memory");
    if (!chosen.onnx_file.empty() && chosen.fuse)
        throw usage_error("--emit-onnx goes without --fuse: an ONNX node cannot run inside another");
}

/// Errors: `usage_error` where a report is asked for that this program cannot draw, or one without a name.
inline void check_report(const CLI::App& app, const options& chosen) {
    if (app.count("--report") == 0) return;
    if (chosen.report_dir.empty()) throw usage_error("--report names no folder");
    if (is_stream(chosen.report_dir))
        throw usage_error(
            "--report writes a folder, and standard output is none (a folder of that name: ./-)");
    if (!report::can_draw())
        throw usage_error(fmt::format("--report needs uPlot, which this program was built without: {}",
                                      report::how_to_draw()));
}

/// Options that name a file to be written.
inline constexpr std::string_view file_options[] = {"--emit-plan", "--emit-onnx", "--dot", "--trace",
                                                    "--memory-snapshot"};

/// Errors: `usage_error` where a file has no name; where standard output would take two things, or standard input give
/// two.
inline void check_names(const CLI::App& app, options& chosen) {
    std::string* const names[] = {&chosen.plan_file, &chosen.onnx_file, &chosen.dot_file, &chosen.trace_file,
                                  &chosen.snapshot_file};
    for (std::size_t i = 0; i < std::size(file_options); ++i) {
        if (app.count(std::string(file_options[i])) > 0 && names[i]->empty())
            throw usage_error(fmt::format("{} names no file", file_options[i]));
        name_standard_output(*names[i]);
        if (!is_stream(*names[i])) continue;
        if (chosen.json || chosen.compare)
            throw usage_error(fmt::format("{} and {} both write to standard output", file_options[i],
                                          chosen.json ? "--json" : "--compare"));
        chosen.prints = false;
    }
    if (is_stream(chosen.graph) && is_stream(chosen.given_plan))
        throw usage_error("GRAPH and --plan cannot both be read from standard input");
}

/// Errors: `usage_error` where a plan is given and one is to be made.
inline void check_given(const CLI::App& app, const options& chosen) {
    if (app.count("--plan") == 0) return;
    if (chosen.given_plan.empty()) throw usage_error("--plan names no file");
    if (chosen.names_goal || chosen.compare || chosen.pareto || chosen.knee || !chosen.encode ||
        chosen.fuse || chosen.link || !chosen.keep.empty())
        throw usage_error("--plan goes with none of the options that say how to plan");
}

/// Errors: `usage_error` where --pareto or --knee stands beside what asks for one plan.
inline void check_many(const CLI::App& app, const options& chosen) {
    if (chosen.pareto && chosen.knee) throw usage_error("give one of --pareto and --knee");
    if (!chosen.pareto && !chosen.knee) return;
    const std::string_view which = chosen.pareto ? "--pareto" : "--knee";
    bool writes = app.count("--report") > 0;
    for (const auto option : file_options) writes = writes || app.count(std::string(option)) > 0;
    if (chosen.budget || chosen.max_overhead || chosen.compare || writes)
        throw usage_error(
            fmt::format("{} goes with none of --budget, --max-overhead, --compare, --emit-plan, "
                        "--emit-onnx, --dot, --trace, --memory-snapshot and --report",
                        which));
    if (chosen.how != strategy::budget)
        throw usage_error(fmt::format("{} goes with --strategy budget only", which));
}

/// The options of `echo-plan GRAPH` that do not say how to plan.
inline void add_options(CLI::App& app, options& chosen) {
    app.add_option("GRAPH", chosen.graph)->required();
    app.add_option("--plan", chosen.given_plan);
    app.add_option("--emit-plan", chosen.plan_file);
    app.add_option("--emit-onnx", chosen.onnx_file);
    app.add_option("--dot", chosen.dot_file);
    app.add_option("--trace", chosen.trace_file);
    app.add_option("--memory-snapshot", chosen.snapshot_file);
    app.add_option("--report", chosen.report_dir);
    app.add_flag("--compare", chosen.compare);
    app.add_flag("--pareto", chosen.pareto);
    app.add_flag("--knee", chosen.knee);
}

/// Errors: `usage_error`.
inline options parse_options(int count, const char* const* arguments, const completer& complete) {
    options chosen;
    CLI::App app;
    const planning_options planning(app, chosen);
    add_options(app, chosen);
    chosen.print = parse(app, count, arguments, "echo-plan", help_text(), complete);
    if (!chosen.print.empty()) return chosen;

    planning.read(chosen);
    check_given(app, chosen);
    check_many(app, chosen);
    check_names(app, chosen);
    check_report(app, chosen);
    check_onnx(chosen);
    check_files(chosen);
    return chosen;
}

} // namespace echo::format
