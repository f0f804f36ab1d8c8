// SPDX-License-Identifier: BSL-1.0
/// @file
/// The promise: a plan's replayed peak is never above the baseline's. A decision that breaks it is taken back
/// subgraph by subgraph, those that hold most at the peak first, until it keeps it.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/strategies/partition.hpp>
#include <echo/graph/ranking.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// By subgraph: bytes live at the peak that would not be there had the subgraph been left alone, namely
/// copies made again, and kept values that only runs after the peak read. O(steps + copies).
inline std::vector<std::uint64_t> blame(const snapshot& s, const evaluated_plan& plan,
                                        const node_groups& groups) {
    const schedule& steps = plan.steps();
    const liveness& live = plan.live();
    std::vector<std::uint64_t> sum(groups.size(), 0);
    const step_id peak = plan.footprint().peak_step;
    id_set<storage_id> seen(live.storage_count());
    const auto charge = [&](storage_id i, node_id n) {
        if (!i.valid()) return; // fused
        const storage_record& storage = live[i];
        if (seen[i] || storage.resident || storage.first > peak || storage.last < peak) return;
        seen[i] = 1;
        sum[groups.of(n)] += storage.bytes;
    };
    const step_id boundary = first_backward_step(s, steps);
    for (const auto step : steps.steps()) {
        const step_record& record = steps[step];
        if (record.kind == step_kind::encode || step < boundary || !plan.decided().again[record.node])
            continue;
        for (std::uint32_t k = 0; k < s.outputs(record.node).size(); ++k)
            charge(live.storage({step, k}), record.node);
        if (step <= peak) continue;
        for (const auto c : steps.inputs(step)) charge(live.storage(c), record.node);
    }
    return sum;
}

/// What a roll-back leaves, and how many subgraphs it has taken back.
struct rolled_back {
    /// The plan that is left.
    evaluated_plan plan;
    /// How many were taken back.
    std::size_t subgraphs = 0;
};

/// Takes subgraphs of the plan back until its peak is at most `limit`. With nothing left it is the baseline without its
/// dead nodes, which the caller still compares. Every round takes back at least twice as many as the one before, so
/// there are
/// O(log subgraphs) replays. Errors: as `replay`.
[[nodiscard]] inline rolled_back roll_back(evaluator& evaluate, evaluated_plan plan, std::uint64_t limit) {
    const snapshot& s = evaluate.graph();
    std::size_t taken_back = 0;
    for (std::size_t batch = 1; plan.peak_bytes() > limit; batch *= 2) {
        decision next = plan.decided();
        const node_groups groups = node_groups::connected(s, [&](node_id n) { return next.again[n] != 0; });
        const auto blames = detail::blame(s, plan, groups);
        ranking by_blame;
        for (std::uint32_t g = 0; g < groups.size(); ++g) by_blame.add(g, blames[g]);
        const auto order = by_blame.descending();
        if (order.empty() || blames[order[0]] == 0)
            return {evaluate(decision::nothing(s)), taken_back + groups.size()};
        std::uint64_t relieved = 0;
        const std::uint64_t excess = plan.peak_bytes() - limit;
        for (std::size_t i = 0; i < order.size() && (i < batch || relieved < excess); ++i) {
            if (blames[order[i]] == 0) break;
            relieved += blames[order[i]];
            for (const auto n : groups.members(order[i])) next.again[n] = 0;
            ++taken_back;
        }
        plan = evaluate(next);
    }
    return {std::move(plan), taken_back};
}

} // namespace echo::detail
