// SPDX-License-Identifier: BSL-1.0
/// @file
/// `start_from_cuts`: the pass that finds the plans from which a search starts.
#pragma once

#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/budget/cut_candidates.hpp>
#include <echo/analysis/plan/budget/search_state.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace echo::detail {

/// The state with minimum cuts as starting plans: for several anchor distances and prices of time, with heavy ops and
/// without; and the least peak that is proved. Of larger graphs only starts that no other beats, evenly many of them.
/// Once; a second time it does nothing. A cut and a replay for each of some 20 starts, of O(nodes + edges + steps)
/// each. Errors: as `replay`.
[[nodiscard]] inline search_state start_from_cuts(search_moves& m, search_state state,
                                                  const anchor_finder& anchors, bool encode) {
    if (std::exchange(state.has_cuts, true)) return state;
    lower_bound bound(m.evaluate.graph(), m.evaluate.facts(), encode, true);
    state.least_bytes = bound.working_sets();
    cut_candidates cuts(m.evaluate, anchors, encode, m.effort.distances);
    // Cheaper time leads to plans that recompute more than any limit asks for.
    for (std::size_t row = 0; row < cuts.rows(); ++row)
        for (std::size_t column = row % 2; column < std::min(cuts.columns(), tuning::dear_columns + row % 2);
             ++column)
            state.start_from(cuts.plan_of(row, column).rated());
    if (m.effort.whole_front) return state;
    const auto& all = state.known.all();
    const std::size_t count = std::min(all.size(), m.effort.starts);
    state.starts.clear();
    for (std::size_t i = 0; i < count; ++i) state.starts.push_back(all[i * all.size() / count]);
    return state;
}

} // namespace echo::detail
