// SPDX-License-Identifier: BSL-1.0
/// @file
/// `checked_figures`: what the replay of `verify` finds: the storages, where each copy lies, and the sums of bytes.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/ids.hpp>

#include <cstdint>
#include <vector>

namespace echo::detail {

/// A storage as the replay met it. Steps are counted from 1 in `written` and the stamps, where 0 means none.
struct checked_storage {
    std::uint64_t bytes = 0;
    std::uint32_t first = 0, last = 0;           ///< steps between which it is live, both included
    std::uint32_t reads_left = 0;                ///< of values that lie on it already
    std::uint32_t written = 0;                   ///< the latest step that wrote on it in place
    std::uint32_t read_stamp = 0, positions = 0; ///< the latest step that reads it, and by how many inputs
    std::uint32_t bound_stamp = 0; ///< the latest step with an output that is a view of it or has taken it
    bool resident = false, encoded = false, holds_result = false, freed = false, stashed = false;
};

/// What a replay found.
struct checked_figures {
    std::uint64_t peak_bytes = 0; ///< non-resident storages and workspace
    std::uint64_t load_bytes = 0; ///< the same without workspace: no arena can be smaller
    std::uint64_t stash_bytes = 0;
    std::uint64_t resident_bytes = 0;
    std::vector<checked_storage> storages;
    std::vector<std::uint32_t> storage_of; ///< by copy
    id_set<node_id> makes_resident;        ///< the nodes
    id_set<node_id> writes_resident;       ///< in place
};

} // namespace echo::detail
