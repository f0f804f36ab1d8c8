// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where the figures of a plan's report come from: the replays of the graph's own order and of the plan.
#pragma once

#include <echo/analysis/plan/bound/loaded_places.hpp>
#include <echo/analysis/plan/bound_of_plan.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/offload_choice.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/plan/plan_options.hpp>
#include <echo/analysis/plan/plan_outcome.hpp>
#include <echo/analysis/plan/strategies/partition.hpp>
#include <echo/graph/live_nodes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echo::detail {

/// What the graph's own order says. O(storages).
inline plan_report report_baseline(const replayed& before, std::uint64_t allocated_bytes) {
    plan_report report;
    report.baseline_peak_bytes = before.footprint.peak_bytes;
    report.baseline_stash_bytes = before.footprint.stash_bytes;
    report.baseline_allocated_bytes = allocated_bytes;
    for (const auto i : before.live.storages())
        if (before.live[i].resident) report.resident_bytes += before.live[i].bytes;
    return report;
}

/// What is largest at the peak of the plan: a live value, or the workspace of what runs. `found`: its replay.
inline void report_blocker(const snapshot& s, const plan_outcome& made, const replayed& found,
                           plan_report& report) {
    const step_id peak = made.figures.footprint.peak_step;
    if (!peak.valid()) return;
    report.blocker = made.steps[peak].node;
    report.blocker_bytes = s[report.blocker].workspace;
    for (const auto i : found.live.storages()) {
        const storage_record& storage = found.live[i];
        if (storage.resident || storage.first > peak || storage.last < peak) continue;
        if (storage.bytes <= report.blocker_bytes) continue;
        report.blocker_bytes = storage.bytes;
        report.blocker = made.steps[storage.maker.step].node;
    }
}

inline void report_unknown_ops(const snapshot& s, plan_report& report) {
    std::vector<bool> unknown(s.op_count(), false);
    for (const auto n : s.nodes())
        if (s[n].unknown_op) unknown[s[n].op] = true;
    for (std::uint32_t op = 0; op < unknown.size(); ++op)
        if (unknown[op]) report.unknown_ops.emplace_back(s.op_name(op));
}

/// What a host loses that leaves its gradients out of the results: backward nodes that nothing needs. A note comes
/// first where they are more than a tenth, or where ops that read some input have no gradient that anything needs.
inline void report_dead_nodes(const snapshot& s, plan_report& report) {
    const auto live = live_nodes(s);
    id_set<node_id> read(s.node_count()), needed(s.node_count());
    for (const auto n : s.nodes()) {
        if (s[n].phase != phase::backward) continue;
        ++report.backward_nodes;
        report.dead_backward_nodes += !live[n];
        for (const auto v : s.inputs(n)) (live[n] ? needed : read)[s[v].producer] = 1;
    }
    // Where a gradient reads the other input of an op, this input's own gradient may be it: that of the data is often
    // left out.
    for (const auto n : s.nodes()) {
        if (s[n].phase != phase::forward) continue;
        const auto inputs = s.inputs(n);
        if (std::none_of(inputs.begin(), inputs.end(), [&](value_id v) { return needed[s[v].producer]; }))
            continue;
        for (const auto v : inputs) read[s[v].producer] = 0;
    }
    for (const auto n : s.nodes())
        if (s[n].phase == phase::input && read[n] && !needed[n]) report.inputs_of_dead_nodes.push_back(n);
    const std::size_t inputs = report.inputs_of_dead_nodes.size();
    if (10 * report.dead_backward_nodes <= report.backward_nodes && inputs == 0) return;
    std::string note = std::to_string(report.dead_backward_nodes) + " of " +
                       std::to_string(report.backward_nodes) +
                       " backward nodes are left out: no result needs them";
    if (inputs > 0) {
        note += "; among them all that read '" + s.name(report.inputs_of_dead_nodes[0]) + "'";
        if (inputs > 1) note += " and " + std::to_string(inputs - 1) + " more inputs";
    }
    report.notes.insert(report.notes.begin(),
                        note + "; gradients that the step must give belong to the results");
}

/// Of a plan that keeps a budget in bytes: no other that keeps it recomputes for less. `found`: its replay.
inline void report_time_bound(const snapshot& s, const candidates& c, const plan_options& options,
                              const plan_outcome& made, const replayed& found, plan_report& report) {
    const bool is_budget = options.how == strategy::budget && options.budget != any_peak &&
                           !options.allocator && !may_offload(options);
    if (!is_budget || report.peak_bytes > options.budget || report.recompute_time_ratio <= 0) return;
    const auto at = most_loaded(s, made.steps, found.load());
    const std::size_t cuts = cuts_for(s, tuning::nodes_cut_at_prices, tuning::few_cuts);
    const ticks least = budget_bound(s, c, options.encode).least_time(options.budget, at, cuts);
    report.recompute_time_bound = std::min(report.recompute_time_ratio, c.times.part(least));
}

/// What moves between device and host, and what it costs.
inline void report_moves(const candidates& c, const plan_outcome& made, plan_report& report) {
    report.offloaded_values = made.copies.offloads;
    report.offloaded_bytes = made.copies.out_bytes;
    report.host_bytes = made.copies.host_bytes;
    report.stall_time_ratio = c.times.part(made.copies.stall);
    report.out_time_ratio = c.times.part(made.copies.out_busy);
    report.in_time_ratio = c.times.part(made.copies.in_busy);
}

/// What the plan says. A replay, and some ten cuts for the bound.
inline void report_plan(const snapshot& s, const candidates& c, const plan_options& options,
                        const plan_outcome& made, plan_report& report) {
    report.peak_bytes = made.figures.footprint.peak_bytes;
    report.stash_bytes = made.figures.footprint.stash_bytes;
    report.allocated_bytes = made.allocated_bytes;
    for (const auto t : made.steps.steps()) {
        report.recomputed_nodes += made.steps[t].kind == step_kind::recompute;
        report.encoded_values += made.steps[t].kind == step_kind::encode;
    }
    report.fused_nodes = made.steps.fused_count();
    if (may_offload(options)) report.link = options.link;
    report_moves(c, made, report);
    report.recompute_time_ratio = c.times.part(recompute_time(c, made.steps));
    const node_groups subgraphs = partition(s, c);
    report.subgraphs = subgraphs.size();
    report.largest_subgraph = subgraphs.largest();
    const bool within_time = options.how == strategy::budget && options.budget == any_peak;
    std::optional<ticks> most;
    if (within_time) most = c.times.at_most(options.max_overhead);
    const replayed found = replay{}(s, made.steps);
    report.lower_bound_bytes =
        bound_of_plan(s, c, options.how, options.encode, made.steps, found, most, report.link);
    report_time_bound(s, c, options, made, found, report);
    report.budget_bytes = options.budget;
    if (std::max(report.peak_bytes, report.allocated_bytes) > report.budget_bytes)
        report_blocker(s, made, found, report);
    report_unknown_ops(s, report);
    report_dead_nodes(s, report);
}

} // namespace echo::detail
