// SPDX-License-Identifier: BSL-1.0
/// @file
/// The bound in a plan's report: what no plan of the same kind goes below.
#pragma once

#include <echo/analysis/plan/bound/budget_bound.hpp>
#include <echo/analysis/plan/bound/loaded_places.hpp>
#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/offload/copy_times.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace echo::detail {

/// Of a `bound` on plans without moves: what is left where values may leave. While a step runs, no more can be away
/// than has left before it and comes back behind it, within the time of the graph and of what was asked for (`most`;
/// without it, there is no such limit). O(nodes + edges).
inline std::uint64_t bound_with_moves(const snapshot& s, const candidates& c, bool encode,
                                      std::uint64_t bound, const link_model& link,
                                      std::optional<ticks> most) {
    const std::uint64_t there = lower_bound(s, c, encode, true).working_sets_with_results();
    if (!most) return there;
    const copy_times copying(link, c.times.exponent);
    const std::uint64_t away = std::min(link.host_bytes, copying.most_there_and_back(c.times.total + *most));
    return std::max(there, bound - std::min(bound, away));
}

/// What no plan of the strategy goes below: with the same ops to run again and, if `most` is given, for at most that
/// long. `found`: the replay of `steps`, the plan in question; `link`: over which values may leave, if there is one.
/// Never above its peak.
inline std::uint64_t bound_of_plan(const snapshot& s, const candidates& c, strategy how, bool encode,
                                   const schedule& steps, const replayed& found, std::optional<ticks> most,
                                   const link_model& link) {
    const std::uint64_t peak = found.footprint.peak_bytes;
    if (how == strategy::baseline) return peak;
    const auto at = most_loaded(s, steps, found.load());
    const bool heavy = how == strategy::budget;
    const std::span first(at.data(), std::min(at.size(), tuning::few_cuts));
    std::uint64_t bound = lower_bound(s, c, encode, heavy)(first, cuts_for(s, tuning::nodes_cut, 1));
    if (heavy && most && (bound < peak || link)) {
        const std::size_t cuts = cuts_for(s, tuning::nodes_cut_at_prices, tuning::few_cuts);
        bound = std::max(bound, budget_bound(s, c, encode).within(*most, at, cuts));
    }
    if (link) bound = bound_with_moves(s, c, encode, bound, link, most);
    return std::min(bound, peak);
}

} // namespace echo::detail
