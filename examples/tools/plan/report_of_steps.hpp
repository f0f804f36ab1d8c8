// SPDX-License-Identifier: BSL-1.0
/// @file
/// `report_of_steps`: the figures of a plan that was made elsewhere.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/copy_clocks.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <set>
#include <string>

namespace echo::format {

/// The figures of a schedule; what is not found by a replay is left as it is. `link`: on which it moves values, if it
/// moves any. O(steps + copies).
inline plan_report report_of_steps(const snapshot& s, const schedule& steps, const link_model& link = {}) {
    const footprint_result before = footprint(s, baseline_schedule(s)), after = footprint(s, steps);
    plan_report r;
    r.baseline_peak_bytes = before.peak_bytes;
    r.peak_bytes = after.peak_bytes;
    r.baseline_stash_bytes = before.stash_bytes;
    r.stash_bytes = after.stash_bytes;
    r.resident_bytes = resident_bytes(s);
    const run_times times = times_of(s);
    ticks again = 0;
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        const bool recomputed = step.kind == step_kind::recompute;
        r.encoded_values += step.kind == step_kind::encode;
        r.recomputed_nodes += recomputed;
        r.fused_nodes += step.fused;
        if (recomputed && !step.fused) again += times.of_node[step.node];
    }
    r.recompute_time_ratio = times.part(again);
    r.link = link;
    if (link) {
        const copy_figures copies = replay_copies(steps, times, link);
        r.offloaded_values = copies.offloads;
        r.offloaded_bytes = copies.out_bytes;
        r.host_bytes = copies.host_bytes;
        r.stall_time_ratio = times.part(copies.stall);
        r.out_time_ratio = times.part(copies.out_busy);
        r.in_time_ratio = times.part(copies.in_busy);
    }
    std::set<std::string> unknown;
    for (const auto n : s.nodes())
        if (s[n].unknown_op) unknown.emplace(s.op_name(s[n].op));
    r.unknown_ops.assign(unknown.begin(), unknown.end());
    return r;
}

} // namespace echo::format
