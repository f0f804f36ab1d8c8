// SPDX-License-Identifier: BSL-1.0
/// @file
/// What is asked of `echo-plan` as a value, and the options that say how to plan: `echo-plan GRAPH` and `echo-plan
/// diff` have them in common.
#pragma once

#include "command_line/amount.hpp"
#include "plan/strategy_text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
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
    std::optional<peak_budget> budget{};  ///< of the peak
    std::optional<double> max_overhead{}; ///< part of the graph's time; without it, that of `plan_options`
    std::optional<std::uint64_t> max_bytes{};                       ///< of the graph's file, unpacked
    std::vector<std::string> keep{};                                ///< patterns of names and layers
    std::vector<std::pair<std::string, std::int64_t>> dims{};       ///< of an ONNX model
    std::string first_backward{};                                   ///< likewise; empty: found by names
    std::string plan_file{}, dot_file{}, onnx_file{}, trace_file{}; ///< empty: none
    std::string snapshot_file{};                                    ///< likewise
    std::string given_plan{};                                       ///< likewise: the plan is made here
    std::string report_dir{};                                       ///< likewise
    std::string print{};     ///< not empty: print this and do nothing else
    bool names_goal = false; ///< a strategy, a budget or an overhead was asked for
    bool quiet = false;      ///< no progress is shown
    bool prints = true;      ///< not so where a file goes to standard output

    bool is_onnx() const { return graph.ends_with(".onnx") || graph.ends_with(".onnx.gz"); }
};

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

/// The options that say how to plan, as they stand on a command line.
class planning_options {
public:
    planning_options(CLI::App& app, options& chosen) : app_(app) {
        app.add_option("--strategy", named_);
        app.add_option("--budget", budget_);
        app.add_option("--max-overhead", overhead_);
        app.add_option("--keep", chosen.keep)->allow_extra_args(false)->expected(1)->take_all();
        app.add_option("--dim", dims_)->allow_extra_args(false)->expected(1)->take_all();
        app.add_option("--first-backward", chosen.first_backward);
        app.add_flag("--fuse", chosen.fuse);
        app.add_flag("--no-encode", no_encode_);
        app.add_flag("--json", chosen.json);
        app.add_flag("--quiet", chosen.quiet);
        app.add_option("--max-bytes", max_bytes_);
    }

    /// Call behind `parse`. Errors: `usage_error`.
    void read(options& chosen) const {
        const auto given = [&](const char* option) { return app_.count(option) > 0; };
        if (given("--budget")) chosen.budget = parse_budget(budget_);
        if (given("--max-overhead")) chosen.max_overhead = parse_part("--max-overhead", overhead_);
        if (given("--max-bytes")) chosen.max_bytes = parse_bytes("--max-bytes", max_bytes_);
        if (given("--strategy")) chosen.how = parse_strategy(named_);
        if (chosen.budget && chosen.max_overhead)
            throw usage_error("give one of --budget and --max-overhead");
        if (chosen.max_overhead && chosen.how != strategy::budget)
            throw usage_error("--max-overhead goes with --strategy budget only");
        if (given("--first-backward") && chosen.first_backward.empty())
            throw usage_error("--first-backward names nothing");
        for (const auto& pattern : chosen.keep)
            if (pattern.empty()) throw usage_error("--keep names nothing");
        chosen.names_goal = chosen.budget || chosen.max_overhead || given("--strategy");
        chosen.encode = !no_encode_;
        for (const auto& text : dims_) chosen.dims.push_back(parse_dim(text));
        for (std::size_t i = 0; i < chosen.dims.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (chosen.dims[i].first == chosen.dims[j].first)
                    throw usage_error(fmt::format("--dim {} is given twice", chosen.dims[i].first));
    }

private:
    CLI::App& app_;
    std::string named_, budget_, overhead_, max_bytes_;
    std::vector<std::string> dims_;
    bool no_encode_ = false;
};

} // namespace echo::format
