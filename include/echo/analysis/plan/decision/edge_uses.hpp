// SPDX-License-Identifier: BSL-1.0
/// @file
/// Edge use references (the paper's EdgeUseRef pass): how often each value is read, by which side, and where
/// first.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <vector>

namespace echo::detail {

/// Uses of one value.
struct edge_use {
    std::uint32_t forward = 0;  ///< reads by input and forward nodes
    std::uint32_t backward = 0; ///< reads by backward and update nodes
    std::uint32_t one_bit = 0;  ///< those of `backward` that one bit per element is enough for
    node_id last_forward{};     ///< last forward reader
    node_id first_backward{};   ///< first backward or update reader
    node_id last_backward{};    ///< last backward or update reader
};

/// Uses of every value, by value index. O(nodes + edges). Errors: none.
inline id_vector<value_id, edge_use> edge_uses(const snapshot& s) {
    id_vector<value_id, edge_use> all(s.value_count());
    for (const auto v : s.values()) {
        edge_use& e = all[v];
        for (const use& u : s.uses(v)) {
            if (runs_after_forward(s[u.reader].phase)) {
                ++e.backward;
                e.one_bit += s.one_bit(u.reader, u.position);
                if (!e.first_backward.valid()) e.first_backward = u.reader;
                e.last_backward = u.reader;
            } else {
                ++e.forward;
                e.last_forward = u.reader;
            }
        }
    }
    return all;
}

} // namespace echo::detail
