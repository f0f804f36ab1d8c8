// SPDX-License-Identifier: BSL-1.0
/// @file
/// Minimum cuts, weighed anew: bytes count where the plan's peak stands.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/strategies/anchors.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace echo::detail {

/// The backward node that runs at the step, or first after it. The last of all nodes if there is none.
inline node_id backward_node_at(const snapshot& s, const schedule& steps, step_id from) {
    for (std::size_t i = from.index(); i < steps.size(); ++i) {
        const step_record& step = steps[step_id(i)];
        if (step.kind == step_kind::run && runs_after_forward(s[step.node].phase)) return step.node;
    }
    return node_id(s.node_count() - 1);
}

/// `best`, or a plan that is better. The cut counts bytes where the backward pass begins; the peak may stand elsewhere,
/// and what is made again is held there too. So bytes are weighed by when they are live, and each replay moves weight
/// to its peak: the subgradient method on the largest load over all steps. At most so many `rounds`, each a cut and a
/// replay.
inline evaluated_plan reweigh(evaluator& evaluate, min_cut& solve, const backward_needs& when,
                              evaluated_plan best, std::size_t rounds, bool encode) {
    const snapshot& s = evaluate.graph();
    if (s.node_count() == 0) return best;
    constexpr std::uint64_t whole = cut_options::whole_weight;
    id_vector<node_id, std::uint64_t> weight(s.node_count(), 0);
    std::vector<std::uint64_t> sums(s.node_count() + 1, 0);
    const auto node_at = [&](const evaluated_plan& plan, step_id t) {
        return backward_node_at(s, plan.steps(), t);
    };
    weight[node_at(best, first_backward_step(s, best.steps()))] = whole / 2;
    weight[node_at(best, best.footprint().peak_step)] += whole / 2;
    decision before;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::partial_sum(weight.values().begin(), weight.values().end(), sums.begin() + 1);
        decision decided = decision::nothing(s);
        solve(when, {.weight_sums = sums, .encode = encode}, decided);
        if (decided == before) break;
        before = decided;
        auto plan = evaluate(decided);
        for (std::uint64_t& w : weight.values()) w -= w / (round + 3);
        weight[node_at(plan, plan.footprint().peak_step)] += whole / (round + 3);
        if (plan.better_than(best)) best = std::move(plan);
    }
    return best;
}

} // namespace echo::detail
