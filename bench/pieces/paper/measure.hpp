// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a workload takes in memory and time under a plan: the figures that the paper's tables are made of. Nothing
/// runs; times are those of the time model (analysis/plan/decision/cost.hpp).
#pragma once

#include "engine/graph_traits.hpp"
#include "workloads.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/profile.hpp>
#include <echo/graph/read.hpp>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace paper {

/// Bytes outside the arena, by what they are for.
struct resident_bytes {
    std::uint64_t parameters = 0, gradients = 0, states = 0, data = 0;
    std::uint64_t sum() const { return parameters + gradients + states + data; }
};

/// A training graph and what is known of it before any plan.
struct subject {
    echo::snapshot graph;
    resident_bytes resident;
    std::size_t forward_nodes = 0;
    double total_us = 0;
    std::map<std::string, double> us_by_op;
    std::map<std::string, std::uint64_t> resident_by_layer;
};

inline subject make_subject(const workload& w) {
    engine::graph g(w.habits);
    build(g, w);
    subject made;
    made.graph = echo::read(g);
    const echo::snapshot& s = made.graph;
    const auto times = echo::times_of(s);
    auto host = g.nodes().begin();
    for (const auto n : s.nodes()) {
        const engine::node& node = **host;
        ++host;
        made.forward_nodes += s[n].phase == echo::phase::forward || s[n].phase == echo::phase::input;
        const double us = times.microseconds(times.of_node[n]);
        made.total_us += us;
        made.us_by_op[std::string(s.op_name(s[n].op))] += us;
        for (const auto v : s.outputs(n)) {
            if (!s[v].resident) continue;
            std::uint64_t* sum = nullptr;
            if (node.role == engine::role::parameter) sum = &made.resident.parameters;
            if (node.role == engine::role::state) sum = &made.resident.states;
            if (node.role == engine::role::data) sum = &made.resident.data;
            if (s[n].phase == echo::phase::backward) sum = &made.resident.gradients;
            if (!sum) continue;
            *sum += s[v].bytes;
            made.resident_by_layer[std::string(s.layer_name(s[n].layer))] += s[v].bytes;
        }
    }
    return made;
}

/// What to plan. `everything` runs all light ops again, without estimating what that saves.
struct plan_query {
    std::string how = "baseline"; ///< a strategy, or `everything`
    bool encode = true;
    std::uint64_t bytes = echo::any_peak; ///< of the strategy `budget`: the peak at most
    double overhead = 0; ///< of the strategy `budget`: recomputation at most, as a part of the graph's time
};

/// All in bytes, but for times.
struct figures {
    std::uint64_t peak = 0, stash = 0, bound = 0;
    std::uint64_t arena = 0;               ///< by Echo's own planner, aligned to 256 bytes
    std::uint64_t pool = 0, pool_of_2 = 0; ///< by NNVM's, match range 16 and 2
    double recompute = 0;                  ///< time of what runs again, as a part of the graph's
    double milliseconds = 0;               ///< that planning took
    std::size_t again = 0, encoded = 0, subgraphs = 0, largest_subgraph = 0;
    echo::memory_profile profile;
};

namespace detail {

inline echo::schedule everything_again(const echo::snapshot& s) {
    const auto c = echo::detail::find_candidates(s);
    auto all = echo::detail::decision::nothing(s);
    all.again = c.rerunnable;
    echo::detail::evaluator evaluate(s, c);
    return evaluate(all).steps();
}

inline echo::strategy strategy_of(std::string_view name) {
    for (const auto how : {echo::strategy::baseline, echo::strategy::mirror, echo::strategy::echo,
                           echo::strategy::echo_printed, echo::strategy::min_cut, echo::strategy::budget})
        if (echo::name_of(how) == name) return how;
    throw echo::error({}, "how", "there is no strategy '" + std::string(name) + "'",
                      "give one, or everything");
}

} // namespace detail

/// Errors: no such strategy.
inline figures measure(const subject& of, const plan_query& query) {
    const echo::snapshot& s = of.graph;
    figures f;
    echo::schedule steps;
    const auto begun = std::chrono::steady_clock::now();
    if (query.how == "everything") {
        steps = detail::everything_again(s);
    } else {
        echo::plan_options options{.how = detail::strategy_of(query.how), .encode = query.encode};
        options.budget = query.bytes, options.max_overhead = query.overhead;
        const echo::plan made = echo::make_plan(s, options);
        const echo::plan_report& report = made.report();
        steps = made.steps();
        f.bound = report.lower_bound_bytes;
        f.subgraphs = report.subgraphs, f.largest_subgraph = report.largest_subgraph;
    }
    f.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
    const auto times = echo::times_of(s);
    for (const auto t : steps.steps()) {
        f.encoded += steps[t].kind == echo::step_kind::encode;
        if (steps[t].kind != echo::step_kind::recompute) continue;
        ++f.again;
        f.recompute += times.microseconds(times.of_node[steps[t].node]) / of.total_us;
    }
    const auto replayed = echo::footprint(s, steps);
    f.peak = replayed.peak_bytes, f.stash = replayed.stash_bytes;
    f.arena = echo::plan_memory(s, steps, {.align = 256}).bytes();
    f.pool = echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{}}).bytes();
    f.pool_of_2 = echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{.match_range = 2}}).bytes();
    f.profile = echo::profile(s, steps);
    return f;
}

} // namespace paper
