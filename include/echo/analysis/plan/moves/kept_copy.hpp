// SPDX-License-Identifier: BSL-1.0
/// @file
/// `kept_copy`: a copy that a plan makes again could be kept instead.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/schedule/run_history.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// The copy of what `node` makes stays from its last use at `from` to the one at `to`.
struct kept_copy {
    node_id node, from, to;
    friend constexpr auto operator<=>(const kept_copy&, const kept_copy&) = default;
};

/// Whether a step makes something for the backward pass that could have been kept. What is fused takes no time, so
/// there is nothing to gain. O(1). Errors: none.
inline bool can_be_retained(const snapshot& s, const evaluated_plan& plan, step_id run) {
    const step_record& step = plan.steps()[run];
    return step.kind != step_kind::encode && !step.fused && s.phase_of(step.node) == phase::forward &&
           runs_after_forward(s.phase_of(plan.homes()[run]));
}

/// All steps for which `can_be_retained` may hold, and perhaps others: from the first one whose home is the first node
/// behind the forward pass, or stands behind that. O(log steps). Errors: none.
inline id_range<step_id> late_steps(const candidates& c, const evaluated_plan& plan) {
    const auto homes = plan.homes().values();
    const auto first = std::lower_bound(homes.begin(), homes.end(), c.first_late) - homes.begin();
    return {static_cast<std::size_t>(first), homes.size()};
}

/// What is kept if such a step is left out. `runs`: of the plan. O(1). Errors: none.
inline kept_copy kept_instead(const evaluated_plan& plan, const run_history& runs, step_id run) {
    const node_id n = plan.steps()[run].node;
    const step_id before = runs.earlier(run);
    return {n, before.valid() ? plan.homes()[before] : n, plan.homes()[run]};
}

/// Memory that keeping takes: `bytes` from step `first` to the one before the run that is left out then.
struct kept_gap {
    std::size_t first;  ///< the first step
    std::int64_t bytes; ///< in each of them
};

/// Calls `take` with each gap that is filled if the run is left out: for each output that is read, from where the copy
/// before is gone, or written over, to the run. Ends where `take` returns false, or where what was fused left no copy;
/// whether it came to the end. `runs`: of the plan. O(outputs × log steps). Errors: none.
template <class Take>
bool for_each_gap(const snapshot& s, const evaluated_plan& plan, const run_history& runs, step_id run,
                  const Take& take) {
    const liveness& live = plan.live();
    const node_id n = plan.steps()[run].node;
    const step_id before = runs.earlier(run);
    for (std::uint32_t k = 0; k < s.outputs(n).size(); ++k) {
        if (!live.last_read({run, k}).valid()) continue;
        const copy_id copy{before.valid() ? before : run, k};
        const storage_id kept = live.storage(copy);
        if (!kept.valid()) return false;
        const storage_record& storage = live[kept];
        if (storage.resident) continue;
        const auto bytes = static_cast<std::int64_t>(storage.bytes);
        std::size_t first = 0;
        if (before.valid()) {
            const step_id last = live.last_held(copy);
            if (last >= run) continue;
            // Who writes over it gets storage of its own if it stays.
            first = last.index() + (last == storage.last);
        } else {
            const auto homes = plan.homes().values(); // kept from its own place on
            first = static_cast<std::size_t>(std::lower_bound(homes.begin(), homes.end(), n) - homes.begin());
        }
        if (!take(kept_gap{first, bytes})) return false;
    }
    return true;
}

/// Changes `decided` so that the copy stays. O(forgets). Errors: none.
inline void keep_copy(const snapshot& s, decision& decided, const kept_copy& copy) {
    if (!runs_after_forward(s.phase_of(copy.from))) decided.again[copy.node] = 0;
    decided.remember(copy.node, copy.from, copy.to);
}

/// The same of many, of which no two are of one gap: in any order, and in order afterwards. O(forgets + copies × log
/// copies). Errors: none.
inline void keep_copies(const snapshot& s, decision& decided, std::vector<kept_copy>& copies) {
    for (const kept_copy& copy : copies)
        if (!runs_after_forward(s.phase_of(copy.from))) decided.again[copy.node] = 0;
    std::sort(copies.begin(), copies.end());
    auto copy = copies.begin();
    std::erase_if(decided.forgets, [&](const turn& t) {
        while (copy != copies.end() && turn{copy->node, copy->to} < t) ++copy;
        return copy != copies.end() && copy->node == t.node && copy->from < t.at;
    });
}

} // namespace echo::detail
