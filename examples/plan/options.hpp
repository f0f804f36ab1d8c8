// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-plan` as a value.
#pragma once

#include "command_line/parse.hpp"
#include "command_line/same_file.hpp"
#include "plan/budget_text.hpp"
#include "plan/help.hpp"
#include "plan/strategy_text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
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
    std::optional<std::uint64_t> max_bytes{};          ///< of the graph's file, unpacked
    std::vector<std::string> keep{};                   ///< patterns of names and layers
    std::string plan_file{}, dot_file{}, trace_file{}; ///< empty: none
    std::string print{};                               ///< not empty: print this and do nothing else
};

/// Errors: `usage_error` where a file would be written over the graph, or over another one.
inline void check_files(const options& chosen) {
    const std::pair<std::string_view, const std::string*> files[] = {
        {"--emit-plan", &chosen.plan_file}, {"--dot", &chosen.dot_file}, {"--trace", &chosen.trace_file}};
    for (std::size_t i = 0; i < std::size(files); ++i) {
        const auto& [option, file] = files[i];
        if (file->empty()) continue;
        if (same_file(*file, chosen.graph))
            throw usage_error(fmt::format("{} would overwrite the graph", option));
        for (std::size_t k = 0; k < i; ++k)
            if (!files[k].second->empty() && same_file(*file, *files[k].second))
                throw usage_error(fmt::format("{} and {} name the same file", files[k].first, option));
    }
}

/// Errors: `usage_error`.
inline options parse_options(int count, const char* const* arguments) {
    options chosen;
    std::string named, budget, overhead, report, max_bytes;
    bool no_encode = false;
    CLI::App app;
    app.add_option("GRAPH", chosen.graph)->required();
    app.add_option("--strategy", named);
    app.add_option("--budget", budget);
    app.add_option("--max-overhead", overhead);
    app.add_option("--keep", chosen.keep)->allow_extra_args(false)->expected(1)->take_all();
    app.add_flag("--fuse", chosen.fuse);
    app.add_flag("--no-encode", no_encode);
    app.add_flag("--json", chosen.json);
    auto* const plan_file = app.add_option("--emit-plan", chosen.plan_file);
    auto* const dot_file = app.add_option("--dot", chosen.dot_file);
    auto* const trace_file = app.add_option("--trace", chosen.trace_file);
    app.add_option("--report", report);
    app.add_option("--max-bytes", max_bytes);
    app.add_flag("--compare", chosen.compare);
    app.add_flag("--pareto", chosen.pareto);
    app.add_flag("--knee", chosen.knee);
    chosen.print = parse(app, count, arguments, "echo-plan", help_text());
    if (!chosen.print.empty()) return chosen;

    const auto not_yet = [](bool asked, std::string_view what) {
        if (asked) throw usage_error(fmt::format("{} is not available yet", what));
    };
    not_yet(app.count("--report") > 0, "--report");

    if (app.count("--budget") > 0) chosen.budget = parse_budget(budget);
    if (app.count("--max-overhead") > 0) chosen.max_overhead = parse_overhead(overhead);
    if (app.count("--max-bytes") > 0) chosen.max_bytes = parse_bytes("--max-bytes", max_bytes);
    const bool asks_budget = chosen.budget || chosen.max_overhead;
    if (app.count("--strategy") > 0) chosen.how = parse_strategy(named);
    if (chosen.budget && chosen.max_overhead) throw usage_error("give one of --budget and --max-overhead");
    if (chosen.pareto && chosen.knee) throw usage_error("give one of --pareto and --knee");
    const bool many = chosen.pareto || chosen.knee;
    const bool writes = plan_file->count() > 0 || dot_file->count() > 0 || trace_file->count() > 0;
    if (many && (asks_budget || chosen.compare || writes))
        throw usage_error(fmt::format(
            "{} goes with none of --budget, --max-overhead, --compare, --emit-plan, --dot and --trace",
            chosen.pareto ? "--pareto" : "--knee"));
    if (many && chosen.how != strategy::budget)
        throw usage_error(
            fmt::format("{} goes with --strategy budget only", chosen.pareto ? "--pareto" : "--knee"));
    if (chosen.max_overhead && chosen.how != strategy::budget)
        throw usage_error("--max-overhead goes with --strategy budget only");
    chosen.encode = !no_encode;
    if (plan_file->count() > 0 && chosen.plan_file.empty()) throw usage_error("--emit-plan names no file");
    if (dot_file->count() > 0 && chosen.dot_file.empty()) throw usage_error("--dot names no file");
    if (trace_file->count() > 0 && chosen.trace_file.empty()) throw usage_error("--trace names no file");
    check_files(chosen);
    return chosen;
}

} // namespace echo::format
