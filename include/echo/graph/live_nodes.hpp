// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which nodes of a graph anything needs (docs/formats.md, "Baseline").
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>

namespace echo::detail {

/// Whether a node writes in place on storage that is resident, directly or through views and earlier writes
/// of that kind. Where residency hangs on the order of execution (an output that is resident itself and in
/// place on storage that is not), the node counts as a writer: it is then kept.
inline id_set<node_id> resident_writers(const snapshot& s) {
    id_set<node_id> writes(s.node_count());
    id_set<value_id> resident(s.value_count());
    for (const auto n : s.nodes()) {
        const auto inputs = s.inputs(n);
        for (const auto v : s.outputs(n)) {
            const value_record& value = s[v];
            const auto lies_on = [&](std::uint32_t k) { return k != no_input && resident[inputs[k]]; };
            if (value.view_of != no_input) {
                resident[v] = lies_on(value.view_of);
            } else {
                const bool over = lies_on(value.inplace);
                writes[n] |= over;
                resident[v] = over || value.resident;
            }
        }
    }
    return writes;
}

/// The nodes that are alive: a graph output, an `update` node or a node that writes in place on resident storage
/// needs them, through inputs or control. The others are dead. Input nodes that nothing needs are dead too.
/// O(nodes + edges). Errors: none.
[[nodiscard]] inline id_set<node_id> live_nodes(const snapshot& s) {
    id_set<node_id> live = detail::resident_writers(s);
    for (const auto v : s.results()) live[s[v].producer] = 1;
    // Nodes stand in execution order, so every reader is seen before what it reads.
    for (std::size_t i = s.node_count(); i-- > 0;) {
        const node_id n(i);
        if (s[n].phase == phase::update) live[n] = 1;
        if (!live[n]) continue;
        for (const auto v : s.inputs(n)) live[s[v].producer] = 1;
        for (const auto c : s.control(n)) live[c] = 1;
    }
    return live;
}

} // namespace echo::detail
