// SPDX-License-Identifier: BSL-1.0
/// @file
/// `recreate`: the pass that goes a way below the limit and back (ruin and recreate).
#pragma once

#include <echo/analysis/plan/budget/search_state.hpp>

#include <cstdint>
#include <utility>

namespace echo::detail {

/// The state with a plan within the limit that recomputes less, if the way finds one. Evictions take what is cheapest
/// at the peak as it stands, and what they took for one peak may be needless once something larger is gone. So the
/// cheapest plan is brought further down than necessary, by a 16th of the limit, then by an 8th, and keeps again what
/// fits then (Schrimpf et al., "Record Breaking Optimization Results Using the Ruin and Recreate Principle", 2000).
/// Some ten to thirty replays each time, of O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state recreate(search_moves& m, search_state state, std::uint64_t limit) {
    if (!m.options.recreate || m.effort.is_reduced) return state;
    m.tell();
    for (std::uint64_t parts = tuning::step_parts; parts >= tuning::step_parts / 2;) {
        const rated_decision* best = state.known.within(limit);
        if (!best || best->recompute == 0) break;
        const ticks before = best->recompute;
        auto ruined = m.evict(m.evaluate(best->decided), limit - limit / parts, {});
        state.known.add(m.retain(std::move(ruined.plan), limit).rated());
        if (state.known.within(limit)->recompute == before) parts /= 2;
    }
    return state;
}

} // namespace echo::detail
