// SPDX-License-Identifier: BSL-1.0
/// @file
/// The passes that search the front of peak against recomputation point by point.
#pragma once

#include <echo/analysis/plan/budget/bring_down.hpp>
#include <echo/analysis/plan/budget/lowest_peak.hpp>
#include <echo/analysis/plan/budget/search_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// The state with plans at `count` limits, evenly from what costs nothing down to `low`: each starting plan goes on
/// from limit to limit, and at each keeps again what fits. A few replays for each start and limit, of O(nodes + edges +
/// steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state follow_front(search_moves& m, search_state state, std::uint64_t low,
                                               std::size_t count) {
    const std::uint64_t high = state.known.all().front().footprint.peak_bytes;
    std::vector<rated_decision> paths = state.starts;
    for (std::size_t i = 1; i <= count && low < high; ++i) {
        const std::uint64_t limit = low + detail::mul_div(high - low, count - i, count);
        m.tell();
        for (rated_decision& path : paths) {
            auto [plan, met] = m.evict(m.evaluate(path.decided), limit, {});
            path = plan.rated();
            if (met) state.known.add(m.retain(std::move(plan), limit).rated());
        }
    }
    return state;
}

/// The state with the nearest plans brought down just below the peak of each plan of the front, as far as they go. Some
/// ten replays for each plan and neighbour, of O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state learn_from_neighbours(search_moves& m, search_state state) {
    const std::vector<rated_decision> points = state.known.all();
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        const std::uint64_t limit = points[i].footprint.peak_bytes - 1;
        const std::size_t end = std::min<std::size_t>(i + tuning::nearest, points.size());
        for (std::size_t k = i; k < end; ++k)
            state.known.add(m.bring_down(points[k], limit, any_time).rated());
    }
    return state;
}

/// The state with the whole front of a small graph. Once; a second time it does nothing. Some thousand replays, of
/// O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state search_whole_front(search_moves& m, search_state state) {
    if (std::exchange(state.has_front, true)) return state;
    state = descend(m, std::move(state), 0);
    const std::uint64_t lowest = state.known.lowest().footprint.peak_bytes;
    state = follow_front(m, std::move(state), lowest, tuning::points_of_whole_front);
    return learn_from_neighbours(m, std::move(state));
}

} // namespace echo::detail
