// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-plan` as a value.
#pragma once

#include "command_line/parse.hpp"
#include "command_line/same_file.hpp"
#include "plan/budget_text.hpp"
#include "plan/help.hpp"
#include "plan/strategy_text.hpp"
#include "report/page.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace echo::format {

struct options {
    std::string graph{};
    strategy how = strategy::budget;
    bool encode = true;
    bool fuse = false;
    bool json = false;
    bool compare = false;
    bool pareto = false;
    bool knee = false;
    std::optional<budget_text> budget{};  ///< of the peak
    std::optional<double> max_overhead{}; ///< part of the graph's time; without it, that of `plan_options`
    std::optional<std::uint64_t> max_bytes{};                       ///< of the graph's file, unpacked
    std::vector<std::string> keep{};                                ///< patterns of names and layers
    std::vector<std::pair<std::string, std::int64_t>> dims{};       ///< of an ONNX model
    std::string first_backward{};                                   ///< likewise; empty: found by names
    std::string plan_file{}, dot_file{}, onnx_file{}, trace_file{}; ///< empty: none
    std::string report_dir{};                                       ///< likewise
    std::string print{};     ///< not empty: print this and do nothing else
    bool names_goal = false; ///< a strategy, a budget or an overhead was asked for

    bool is_onnx() const { return graph.ends_with(".onnx") || graph.ends_with(".onnx.gz"); }
};

/// Errors: `usage_error` where a file would be written over the graph, or over another one.
inline void check_files(const options& chosen) {
    const std::string page = chosen.report_dir.empty() ? "" : chosen.report_dir + "/index.html";
    const std::pair<std::string_view, const std::string*> files[] = {{"--emit-plan", &chosen.plan_file},
                                                                     {"--emit-onnx", &chosen.onnx_file},
                                                                     {"--dot", &chosen.dot_file},
                                                                     {"--trace", &chosen.trace_file},
                                                                     {"--report", &page}};
    for (std::size_t i = 0; i < std::size(files); ++i) {
        const auto& [option, file] = files[i];
        if (file->empty()) continue;
        if (same_file(*file, chosen.graph))
            throw usage_error(fmt::format("{} would overwrite the graph", option));
        for (std::size_t j = 0; j < i; ++j)
            if (!files[j].second->empty() && same_file(*file, *files[j].second))
                throw usage_error(fmt::format("{} and {} name the same file", files[j].first, option));
    }
}

/// `NAME=VALUE`. Errors: `usage_error`.
inline std::pair<std::string, std::int64_t> parse_dim(const std::string& text) {
    const auto sign = text.rfind('=');
    std::int64_t value = 0;
    const char *first = text.data() + std::min(sign + 1, text.size()), *last = text.data() + text.size();
    const auto [end, failure] = std::from_chars(first, last, value);
    if (sign == std::string::npos || sign == 0 || failure != std::errc{} || end != last || value < 1)
        throw usage_error(
            fmt::format("--dim {}: must be the name of a dimension and its extent, such as batch=32", text));
    return {text.substr(0, sign), value};
}

/// Errors: `usage_error` where what is asked of a model is asked of another file, or a name stands twice.
inline void check_onnx(const options& chosen) {
    const bool asks_onnx =
        !chosen.dims.empty() || !chosen.first_backward.empty() || !chosen.onnx_file.empty();
    if (asks_onnx && !chosen.is_onnx())
        throw usage_error("--dim, --first-backward and --emit-onnx go with an ONNX model only (.onnx)");
    if (!chosen.onnx_file.empty() && chosen.fuse)
        throw usage_error("--emit-onnx goes without --fuse: an ONNX node cannot run inside another");
    for (std::size_t i = 0; i < chosen.dims.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (chosen.dims[i].first == chosen.dims[j].first)
                throw usage_error(fmt::format("--dim {} is given twice", chosen.dims[i].first));
}

/// Errors: `usage_error`.
inline options parse_options(int count, const char* const* arguments) {
    options chosen;
    std::string named, budget, overhead, max_bytes;
    std::vector<std::string> dims;
    bool no_encode = false;
    CLI::App app;
    app.add_option("GRAPH", chosen.graph)->required();
    app.add_option("--strategy", named);
    app.add_option("--budget", budget);
    app.add_option("--max-overhead", overhead);
    app.add_option("--keep", chosen.keep)->allow_extra_args(false)->expected(1)->take_all();
    app.add_option("--dim", dims)->allow_extra_args(false)->expected(1)->take_all();
    auto* const first_backward = app.add_option("--first-backward", chosen.first_backward);
    app.add_flag("--fuse", chosen.fuse);
    app.add_flag("--no-encode", no_encode);
    app.add_flag("--json", chosen.json);
    auto* const plan_file = app.add_option("--emit-plan", chosen.plan_file);
    auto* const onnx_file = app.add_option("--emit-onnx", chosen.onnx_file);
    auto* const dot_file = app.add_option("--dot", chosen.dot_file);
    auto* const trace_file = app.add_option("--trace", chosen.trace_file);
    auto* const report_dir = app.add_option("--report", chosen.report_dir);
    app.add_option("--max-bytes", max_bytes);
    app.add_flag("--compare", chosen.compare);
    app.add_flag("--pareto", chosen.pareto);
    app.add_flag("--knee", chosen.knee);
    chosen.print = parse(app, count, arguments, "echo-plan", help_text());
    if (!chosen.print.empty()) return chosen;

    if (app.count("--budget") > 0) chosen.budget = parse_budget(budget);
    if (app.count("--max-overhead") > 0) chosen.max_overhead = parse_overhead(overhead);
    if (app.count("--max-bytes") > 0) chosen.max_bytes = parse_bytes("--max-bytes", max_bytes);
    const bool asks_budget = chosen.budget || chosen.max_overhead;
    if (app.count("--strategy") > 0) chosen.how = parse_strategy(named);
    if (chosen.budget && chosen.max_overhead) throw usage_error("give one of --budget and --max-overhead");
    if (chosen.pareto && chosen.knee) throw usage_error("give one of --pareto and --knee");
    chosen.names_goal = asks_budget || app.count("--strategy") > 0;
    const bool many = chosen.pareto || chosen.knee;
    const bool writes =
        plan_file->count() > 0 || onnx_file->count() > 0 || dot_file->count() > 0 || trace_file->count() > 0 ||
        report_dir->count() > 0;
    if (many && (asks_budget || chosen.compare || writes))
        throw usage_error(fmt::format("{} goes with none of --budget, --max-overhead, --compare, "
                                      "--emit-plan, --emit-onnx, --dot, --trace and --report",
                                      chosen.pareto ? "--pareto" : "--knee"));
    if (many && chosen.how != strategy::budget)
        throw usage_error(
            fmt::format("{} goes with --strategy budget only", chosen.pareto ? "--pareto" : "--knee"));
    if (chosen.max_overhead && chosen.how != strategy::budget)
        throw usage_error("--max-overhead goes with --strategy budget only");
    chosen.encode = !no_encode;
    if (plan_file->count() > 0 && chosen.plan_file.empty()) throw usage_error("--emit-plan names no file");
    if (onnx_file->count() > 0 && chosen.onnx_file.empty()) throw usage_error("--emit-onnx names no file");
    if (dot_file->count() > 0 && chosen.dot_file.empty()) throw usage_error("--dot names no file");
    if (trace_file->count() > 0 && chosen.trace_file.empty()) throw usage_error("--trace names no file");
    if (report_dir->count() > 0 && chosen.report_dir.empty()) throw usage_error("--report names no folder");
    if (report_dir->count() > 0 && !report::can_draw())
        throw usage_error(fmt::format("--report needs uPlot, which this program was built without: {}",
                                      report::how_to_draw()));
    if (first_backward->count() > 0 && chosen.first_backward.empty())
        throw usage_error("--first-backward names nothing");
    for (const auto& text : dims) chosen.dims.push_back(parse_dim(text));
    check_onnx(chosen);
    check_files(chosen);
    return chosen;
}

} // namespace echo::format
