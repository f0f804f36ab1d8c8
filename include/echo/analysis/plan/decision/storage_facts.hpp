// SPDX-License-Identifier: BSL-1.0
/// @file
/// `storage_facts`: on which storage each value lies, before anything is planned, and up to where a value may be read
/// before its storage is written over.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace echo::detail {

/// Values and the storages that they lie on, in the graph's own order.
struct storage_facts {
    id_vector<value_id, value_id> base; ///< value: the maker of its storage, through views only
    /// Value: as `base`, and through writes in place on resident storage too. Values with one root share a resident
    /// storage, and a write ends the earlier ones.
    id_vector<value_id, value_id> root;
    id_set<value_id> resident; ///< value: it lies on resident storage
    id_set<value_id> costless; ///< base value: resident or a result, so it costs nothing to keep
    id_set<node_id>
        writes_resident; ///< node: it makes a resident storage or writes over one; of inputs, the latter only
};

/// O(nodes + edges). Errors: none.
inline storage_facts find_storage_facts(const snapshot& s) {
    storage_facts f;
    f.base.resize(s.value_count());
    f.costless.assign(s.value_count());
    f.root.resize(s.value_count());
    f.resident.assign(s.value_count());
    f.writes_resident.assign(s.node_count());
    for (const auto n : s.nodes()) {
        const auto inputs = s.inputs(n);
        for (const auto v : s.outputs(n)) {
            const value_record& value = s[v];
            f.base[v] = f.root[v] = v;
            if (value.view_of != no_input) {
                const value_id from = inputs[value.view_of];
                f.base[v] = f.base[from];
                f.root[v] = f.root[from];
                f.resident[v] = f.resident[from];
            } else if (value.inplace != no_input && f.resident[inputs[value.inplace]]) {
                f.root[v] = f.root[inputs[value.inplace]];
                f.resident[v] = 1;
                f.writes_resident[n] = 1;
            } else if (value.resident) {
                f.resident[v] = 1;
                f.writes_resident[n] = s[n].phase != phase::input;
            }
            if (f.resident[v] || s.is_result(v)) f.costless[f.base[v]] = 1;
        }
    }
    return f;
}

/// By value, the position in the graph of the last node that may read it. A value on resident storage may be read up to
/// the first write on that storage after it was made; others have the largest position there is. O(nodes + values).
/// Errors: none.
inline id_vector<value_id, std::uint32_t> find_read_deadlines(const snapshot& s, const storage_facts& f) {
    constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
    id_vector<value_id, std::uint32_t> deadline(s.value_count(), never), next_write(s.value_count(), never);
    for (std::size_t i = s.node_count(); i-- > 0;) {
        const node_id n(i);
        for (const auto v : s.outputs(n)) deadline[v] = next_write[f.root[v]];
        if (!f.writes_resident[n]) continue;
        for (const auto v : s.outputs(n))
            if (f.resident[v] && s[v].view_of == no_input && s[v].inplace != no_input)
                next_write[f.root[v]] = static_cast<std::uint32_t>(i);
    }
    return deadline;
}

} // namespace echo::detail
