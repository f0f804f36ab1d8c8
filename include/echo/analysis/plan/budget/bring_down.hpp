// SPDX-License-Identifier: BSL-1.0
/// @file
/// The passes that bring plans down to a limit on the peak.
#pragma once

#include <echo/analysis/plan/budget/search_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// The state with every starting plan brought down to the limit; those that come to recompute half as much again as the
/// best of them are given up. O(starts) plans brought down, of some ten replays each. Errors: as `replay`.
[[nodiscard]] inline search_state bring_starts(search_moves& m, search_state state, std::uint64_t limit) {
    m.tell();
    ticks cheapest = any_time / 2;
    for (const rated_decision& start : state.starts) {
        const evaluated_plan plan = m.bring_down(start, limit, cheapest + cheapest / 2);
        state.known.add(plan.rated());
        if (plan.peak_bytes() <= limit) cheapest = std::min(cheapest, plan.recompute());
    }
    return state;
}

/// The state with the known plans whose peaks lie just above the limit brought down to it, the nearest first, as long
/// as they recompute for at most `most`: they often arrive more cheaply than starts from far away. O(`tuning::nearest`)
/// plans brought down, of some ten replays each. Errors: as `replay`.
[[nodiscard]] inline search_state bring_nearest(search_moves& m, search_state state, std::uint64_t limit,
                                                ticks most = any_time / 2) {
    if (!m.options.nearest) return state;
    m.tell();
    const auto plans = state.known.next_above(limit, tuning::nearest); // what is found moves the others
    for (auto plan = plans.rbegin(); plan != plans.rend(); ++plan)
        state.known.add(m.bring_down(*plan, limit, most).rated());
    return state;
}

/// The state with the cheapest plans within the limit improved: they keep again what fits under it. O(plans) replays.
/// Errors: as `replay`.
[[nodiscard]] inline search_state retain_below(search_moves& m, search_state state, std::uint64_t limit) {
    for (const rated_decision& plan : state.known.next_within(limit, tuning::retained_below))
        state.known.add(m.retain(m.evaluate(plan.decided), limit).rated());
    return state;
}

} // namespace echo::detail
