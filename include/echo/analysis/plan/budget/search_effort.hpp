// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_effort`: how much a search for budgets does for a graph of a size.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <cstddef>

namespace echo::detail {

/// How much a search does for a graph: counted by its size, never by the clock.
struct search_effort {
    std::size_t size;      ///< in nodes
    std::size_t distances; ///< of anchors, from which cuts are taken
    std::size_t starts;    ///< starting plans at most
    bool whole_front;      ///< whether the whole front is searched, whatever is asked
    bool is_reduced;       ///< whether the graph is so large that less is tried

    /// Of a graph with many edges or values per node too, which make a replay as long as many nodes do. O(nodes).
    static search_effort of(const snapshot& s) {
        std::size_t size = s.edge_count() + s.value_count();
        for (const auto n : s.nodes()) size += s.control(n).size();
        return of(std::max(s.node_count(), size / 4));
    }
    /// Of a graph of that many nodes. O(1).
    static search_effort of(std::size_t size) {
        if (size <= 256) return {size, 5, 16, true, false};
        if (size <= 8192) return {size, 3, 8, false, false};
        return {size, 3, size <= 50'000 ? std::size_t{8} : 4, false, true};
    }
    /// How many of the lowest starting plans are brought down as far as they go. Of large graphs fewer: four come a
    /// tenth lower than one at ten thousand nodes, and hardly lower at a hundred thousand. O(1).
    std::size_t starts_brought_down() const noexcept {
        return is_reduced ? std::clamp<std::size_t>(100'000 / size, 1, 4) : starts;
    }
};

} // namespace echo::detail
