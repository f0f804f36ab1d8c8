// SPDX-License-Identifier: BSL-1.0
/// @file
/// What is asked of `echo-plan` as a value, and the options that say how to plan: `echo-plan GRAPH` and `echo-plan
/// diff` have them in common.
#pragma once

#include "command_line/amount.hpp"
#include "onnx/element_type.hpp"
#include "onnx/model.hpp"
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
    link_model link{};                                              ///< to the host's memory, if there is one
    std::vector<std::string> keep{};                                ///< patterns of names and layers
    std::vector<std::pair<std::string, std::int64_t>> dims{};       ///< of an ONNX model
    std::vector<stated_shape> shapes{};                             ///< likewise
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

/// `VALUE=4x8`, `VALUE=scalar`, `VALUE=float32:4x8`. Errors: `usage_error`.
inline stated_shape parse_shape(const std::string& text) {
    const auto refuse = [&] {
        return usage_error(
            fmt::format("--shape {}: must be the name of a value and its extents, such as y=4x8, "
                        "y=scalar or, with a type, y=float32:4x8",
                        text));
    };
    const auto sign = text.rfind('=');
    if (sign == std::string::npos || sign == 0) throw refuse();
    stated_shape made{.value = text.substr(0, sign)};
    std::string_view rest = std::string_view(text).substr(sign + 1);
    if (const auto colon = rest.find(':'); colon != rest.npos) {
        made.element = onnx_element_number(rest.substr(0, colon));
        if (made.element == 0) throw refuse();
        rest.remove_prefix(colon + 1);
    }
    if (rest == "scalar") return made;
    for (;;) {
        std::int64_t extent = 0;
        const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
        if (failure != std::errc{} || extent < 0) throw refuse();
        made.extents.push_back(extent);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        if (rest.empty()) return made;
        if (rest[0] != 'x') throw refuse();
        rest.remove_prefix(1);
    }
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
        app.add_option("--shape", shapes_)->allow_extra_args(false)->expected(1)->take_all();
        app.add_option("--first-backward", chosen.first_backward);
        app.add_flag("--fuse", chosen.fuse);
        app.add_flag("--no-encode", no_encode_);
        app.add_option("--offload", offload_);
        app.add_option("--host-budget", host_budget_);
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
        if (given("--offload")) {
            const double rate = parse_rate("--offload", offload_);
            chosen.link = {.out_bytes_per_us = rate, .in_bytes_per_us = rate};
            if (chosen.how != strategy::budget)
                throw usage_error("--offload goes with --strategy budget only");
        }
        if (given("--host-budget")) {
            if (!chosen.link) throw usage_error("--host-budget goes with --offload only");
            chosen.link.host_bytes = parse_bytes("--host-budget", host_budget_);
        }
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
        for (const auto& text : shapes_) chosen.shapes.push_back(parse_shape(text));
        for (std::size_t i = 0; i < chosen.shapes.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (chosen.shapes[i].value == chosen.shapes[j].value)
                    throw usage_error(fmt::format("--shape {} is given twice", chosen.shapes[i].value));
    }

private:
    CLI::App& app_;
    std::string named_, budget_, overhead_, max_bytes_, offload_, host_budget_;
    std::vector<std::string> dims_, shapes_;
    bool no_encode_ = false;
};

} // namespace echo::format
