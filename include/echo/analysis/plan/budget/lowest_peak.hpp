// SPDX-License-Identifier: BSL-1.0
/// @file
/// The passes that look for a low peak: within a time, or at whatever price.
#pragma once

#include <echo/analysis/plan/budget/bring_down.hpp>
#include <echo/analysis/plan/budget/recreate.hpp>
#include <echo/analysis/plan/budget/search_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// The state with plans brought down as far as they go, or to the limit: first the lowest starts at once, then the
/// lowest plan in small steps. Some hundred replays, of O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state descend(search_moves& m, search_state state, std::uint64_t limit) {
    m.tell();
    std::vector<rated_decision> starts = state.starts;
    std::stable_sort(starts.begin(), starts.end(), [](const rated_decision& a, const rated_decision& b) {
        return a.footprint.peak_bytes < b.footprint.peak_bytes;
    });
    if (starts.size() > m.effort.starts_brought_down()) starts.resize(m.effort.starts_brought_down());
    for (const rated_decision& start : starts)
        state.known.add(m.evict(m.evaluate(start.decided), limit, {}).plan.rated());
    auto plan =
        m.evict.in_steps(m.evaluate(state.known.lowest().decided), std::max(limit, state.least_bytes));
    state.known.add(plan.rated());
    return state;
}

/// The state with a peak that is lower, between the lowest within `most` and `missed` bytes, to one of `parts` of it,
/// by halving. At each limit what lies below keeps again what fits, and the nearest plans are brought down. O(log
/// parts) limits, of some hundred replays at most each. Errors: as `replay`.
[[nodiscard]] inline search_state halve(search_moves& m, search_state state, ticks most, std::uint64_t missed,
                                        std::uint64_t parts) {
    while (!m.is_spent()) {
        const std::uint64_t met = state.lowest_within(most);
        if (met <= missed || met - missed <= met / parts + 1) break;
        const std::uint64_t limit = missed + (met - missed) / 2;
        m.tell();
        state = retain_below(m, std::move(state), limit);
        if (!state.meets(limit, most)) state = bring_nearest(m, std::move(state), limit, most);
        if (!state.meets(limit, most)) missed = limit;
    }
    return state;
}

/// The state with a peak that is lower, as far as recomputation for at most `most` allows, to a 256th: limits are tried
/// in steps that double, then between the last that was met and the first that was not. Some ten limits, of which most
/// end early, of O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state lower_within(search_moves& m, search_state state, ticks most) {
    const auto reaches = [&](std::uint64_t limit) { // from the starts, until one arrives
        m.tell();
        for (std::size_t i = 0; i < state.starts.size() && !state.meets(limit, most) && !m.is_spent(); ++i)
            state.known.add(m.bring_down(state.starts[i], limit, 2 * most).rated());
        return state.meets(limit, most);
    };
    std::uint64_t met = state.lowest_within(most), step = met / tuning::first_limit_parts + 1;
    for (; met > state.least_bytes + step && reaches(met - step); step *= 2) met = state.lowest_within(most);
    std::uint64_t missed = std::max(state.least_bytes, met - std::min(met, step));
    return halve(m, std::move(state), most, missed, tuning::limit_parts);
}

/// The state with a peak that is lower than the lowest within `most`, limit by limit: each a 256th below the last,
/// until `tuning::limits_failed` of them in turn give nothing, and then by halving what is left. To each limit the
/// nearest plans are brought down, and what lies below keeps again what fits; if that is not enough, `recreate` is
/// tried there. Not below `least` bytes. Some hundred replays, of O(nodes + edges + steps) each. Errors: as `replay`.
[[nodiscard]] inline search_state polish(search_moves& m, search_state state, ticks most,
                                         std::uint64_t least) {
    if (!m.options.polish || m.effort.is_reduced) return state;
    least = std::max(least, state.least_bytes);
    std::uint64_t limit = state.lowest_within(most);
    for (std::size_t failed = 0; failed < tuning::limits_failed;) {
        const std::uint64_t before = state.lowest_within(most);
        limit = std::min(limit, before);
        limit -= std::min(limit, limit / tuning::limit_parts + 1);
        if (limit < least) break;
        m.tell();
        state = bring_nearest(m, std::move(state), limit, most + most / 2);
        state = retain_below(m, std::move(state), limit);
        if (state.lowest_within(most) == before) state = recreate(m, std::move(state), limit);
        failed = state.lowest_within(most) < before ? 0 : failed + 1;
    }
    const std::uint64_t lowest = state.lowest_within(most);
    const std::uint64_t missed = std::max(least, lowest - lowest / tuning::limit_parts);
    return halve(m, std::move(state), most, missed, tuning::last_limit_parts);
}

} // namespace echo::detail
