// SPDX-License-Identifier: BSL-1.0
/// @file
/// `storage_writes`: what follows for a graph in which nodes write into storage that is there already (caches, running
/// statistics, gradient accumulators, ops in place). Who reads the storage names its maker, not the writer, so the
/// order of reading and writing is in no edge of the graph; and what was overwritten cannot be read again.
#pragma once

#include <echo/graph/snapshot_builder.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// Is told of the nodes that read storage, which views do not, and of those that write into it, in execution order.
class storage_writes {
public:
    /// The builder must outlive it.
    explicit storage_writes(snapshot_builder& builder) : builder_(builder) {}

    /// Adds to `control` who must have run before a node with these inputs: the last writer of each storage. O(inputs).
    void put_behind_writers(std::span<const value_id> inputs, std::vector<node_id>& control) const {
        for (const value_id v : inputs) {
            const auto found = storages_.find(storage_of(v));
            if (found != storages_.end() && found->second.writer.valid())
                control.push_back(found->second.writer);
        }
    }
    /// The node was added last, and reads these.
    void read(node_id n, std::span<const value_id> inputs) {
        for (const value_id v : inputs) storages_[storage_of(v)].readers.push_back(n);
    }
    /// The node was added last, and writes into the storage of `v`. From now on it may not run again, nor may who made
    /// what it writes over, or has read it.
    void write(node_id n, value_id v) {
        const value_id storage = storage_of(v);
        of_storage& of = storages_[storage];
        of.writer = n;
        of.written = value_id::none();
        for (const value_id y : builder_.so_far().outputs(n))
            if (storage_of(y) == storage) of.written = y;
        builder_.run_once(n);
        builder_.run_once(builder_.so_far()[storage].producer);
        for (const node_id reader : std::exchange(of.readers, {})) builder_.run_once(reader);
    }

    /// All nodes and results are there. What is in storage in the end counts where it is resident, or a result lies on
    /// it: its last writer is not dead, though nobody may read it.
    void keep_last() {
        std::set<value_id> kept;
        const auto results = builder_.so_far().results();
        std::set<value_id> named(results.begin(), results.end());
        for (const value_id v : named) kept.insert(storage_of(v));
        for (const auto& [storage, of] : storages_)
            if (of.written.valid() && !named.contains(of.written) &&
                (kept.contains(storage) || builder_.resident_storage(of.written).valid()))
                builder_.add_result(of.written);
    }

private:
    struct of_storage {
        node_id writer = node_id::none();
        value_id written = value_id::none(); ///< the writer's output that lies there
        std::vector<node_id> readers{};      ///< since the last write
    };

    /// The value that made the storage. What may be made in place is taken to lie there only where that is resident.
    value_id storage_of(value_id v) const {
        const snapshot& s = builder_.so_far();
        while (s[v].view_of != no_input) v = s.inputs(s[v].producer)[s[v].view_of];
        const value_id resident = builder_.resident_storage(v);
        return resident.valid() ? resident : v;
    }

    snapshot_builder& builder_;
    std::map<value_id, of_storage> storages_; // by the value that made it
};

} // namespace echo::detail
