// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_effort`: how much a search for budgets does for a graph of a size. Each number was chosen by measuring
/// (bench/run scaling regret peers).
#pragma once

#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace echo {

/// How much a search does for a graph: counted by its size, never by the clock.
struct search_effort {
    std::size_t size;      ///< in nodes
    std::size_t distances; ///< of anchors, from which cuts are taken
    std::size_t starts;    ///< at most
    /// Limits that are searched below the lowest plan within a time, once the lowest of all has been looked for; 0:
    /// neither.
    std::size_t neighbours;
    /// Limits to search in any case, evenly from what costs nothing down, and none else; or 0.
    std::size_t front_points;

    /// Of a graph with many edges or values per node too, which make a replay as long as many nodes do.
    static search_effort of(const snapshot& s, bool whole_front) {
        std::size_t size = s.edge_count() + s.value_count();
        for (const auto n : s.nodes()) size += s.control(n).size();
        return of(std::max(s.node_count(), size / 4), whole_front);
    }
    /// Of a graph of that many nodes.
    static search_effort of(std::size_t size, bool whole_front) {
        if (size <= 256 && whole_front) return {size, 5, 16, 0, 40};
        if (size <= 512) return {size, 5, 16, 4, 0};
        if (size <= 8192) return {size, 5, 16, 0, 0};
        if (size <= 50'000) return {size, 4, 8, 0, 0};
        return {size, 4, 4, 0, 0};
    }
    /// Whether the whole front is searched, whatever is asked.
    bool whole_front() const noexcept { return front_points > 0; }
    /// Whether the graph is so large that less is tried.
    bool is_reduced() const noexcept { return starts < 16; }
    /// Whether replays take so little time that every way to the lowest plan is tried.
    bool is_quick() const noexcept { return size <= 2048; }

    /// How many of the lowest starts are led down as far as they go: all of them where replays are quick, since in some
    /// graphs fewer end higher. Four come a tenth lower than one in graphs of ten thousand nodes, and hardly lower in
    /// those of a hundred thousand.
    std::size_t starts_led_down() const noexcept {
        if (is_reduced()) return std::clamp<std::size_t>(100'000 / size, 1, 4);
        return is_quick() ? std::numeric_limits<std::size_t>::max() : 8;
    }
    /// How many of the starts are led to a point of a front where the others are not: with all of four, the fronts of
    /// graphs of a hundred thousand nodes are no better than with two.
    std::size_t starts_led_along_front() const noexcept { return std::min<std::size_t>(starts / 2, 4); }
    /// Prices of cuts lie from the dearest time to the cheapest. Cuts at this one and at every second one behind it are
    /// led down as well.
    std::size_t first_cheap_column() const noexcept { return is_quick() ? 5 : 7; }
    /// Replays for local search at a front point: many in small graphs, where each takes microseconds. None where
    /// single limits are searched, but at the last of them.
    std::size_t most_local_replays() const noexcept {
        if (!whole_front()) return 0;
        const std::size_t nodes = size + 1;
        return 8'000'000 * std::max<std::size_t>(nodes, 200) / nodes / nodes / nodes;
    }
    /// Replays for local search at one of the last limits of a search in larger graphs: as long as one replay of ten
    /// thousand nodes. Ten times as many gain a third more, and a search takes a third longer.
    std::size_t polishing_replays() const noexcept {
        return whole_front() || is_reduced() ? 0 : 10'000 / (size + 1);
    }
    /// Plans to lead to the peaks of their neighbours on the front: so many that small graphs learn all there is, and
    /// others take no longer.
    std::size_t most_leads() const noexcept { return 60'000 / (size + 1); }
};

} // namespace echo
