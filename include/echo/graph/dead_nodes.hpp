// SPDX-License-Identifier: BSL-1.0
/// @file
/// The removal of dead nodes from a host graph (the paper's DeadNodeElimination pass).
#pragma once

#include <echo/graph/live_nodes.hpp>
#include <echo/graph/read.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace echo {

/// Erases the dead nodes of a host graph, readers before what they read, and returns how many there were.
/// A second call finds none. Errors: as `read`, before anything is erased. O(nodes + edges) and the host's
/// `erase`.
template <detail::checked_host_graph G>
    requires can_erase<G>
std::size_t erase_dead_nodes(G& g) {
    const auto live = detail::live_nodes(read(std::as_const(g)));
    std::vector<node_of<G>> handles;
    for (auto&& n : graph_traits<G>::nodes(std::as_const(g))) handles.push_back(n);
    std::size_t erased = 0;
    for (std::size_t i = handles.size(); i-- > 0;) {
        if (live[node_id(i)]) continue;
        graph_traits<G>::erase(g, handles[i]);
        ++erased;
    }
    return erased;
}

} // namespace echo
