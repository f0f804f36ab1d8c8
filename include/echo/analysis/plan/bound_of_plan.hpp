// SPDX-License-Identifier: BSL-1.0
/// @file
/// The bound in a plan's report: what no plan of the same kind goes below.
#pragma once

#include <echo/analysis/plan/bound/budget_bound.hpp>
#include <echo/analysis/plan/bound/loaded_places.hpp>
#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/most_away.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace echo::detail {

/// What no plan of the strategy goes below: with the same ops to run again and, if `most` is given, for at most that
/// long. `found`: the replay of `steps`, the plan in question; `link`: over which values may leave, if there is one.
/// While a step runs, no more is away then than has left before it and comes back behind it; without `most`, there is
/// no such limit. Never above its peak.
inline std::uint64_t bound_of_plan(const snapshot& s, const candidates& c, strategy how, bool encode,
                                   const schedule& steps, const replayed& found, std::optional<ticks> most,
                                   const link_model& link) {
    const std::uint64_t peak = found.footprint.peak_bytes;
    if (how == strategy::baseline) return peak;
    const auto at = most_loaded(s, steps, found.load());
    const bool heavy = how == strategy::budget;
    const std::size_t priced_cuts = cuts_for(s, tuning::nodes_cut_at_prices, tuning::few_cuts);
    std::uint64_t bound = 0;
    if (link) {
        bound = lower_bound(s, c, encode, heavy).working_sets_with_results();
        if (most && bound < peak) {
            const most_away away(s, c, link, *most);
            bound = std::max(bound, budget_bound(s, c, encode).within(*most, at, priced_cuts, away));
        }
        return std::min(bound, peak);
    }
    const std::span first(at.data(), std::min(at.size(), tuning::few_cuts));
    bound = lower_bound(s, c, encode, heavy)(first, cuts_for(s, tuning::nodes_cut, 1));
    if (heavy && most && bound < peak)
        bound = std::max(bound, budget_bound(s, c, encode).within(*most, at, priced_cuts));
    return std::min(bound, peak);
}

} // namespace echo::detail
