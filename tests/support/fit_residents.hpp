// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fit_residents`: random outputs made such that no graph is refused for what they write on resident storage.
#pragma once

#include <echo/graph/snapshot_builder.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace support {

/// Outputs in place on a resident storage become no larger than it, and only the first of them stays in place.
inline void fit_residents(const echo::snapshot_builder& b, std::span<const echo::value_id> inputs,
                          std::span<echo::tensor> outputs) {
    std::vector<echo::value_id> taken;
    for (auto& t : outputs) {
        if (t.view_of || !t.inplace) continue;
        const echo::value_id on = b.resident_storage(inputs[*t.inplace]);
        if (!on.valid()) continue;
        const bool second = std::find(taken.begin(), taken.end(), on) != taken.end();
        taken.push_back(on);
        if (second) {
            t.inplace.reset();
        } else if (echo::byte_count(t) > b.so_far()[on].bytes) {
            t.bytes = b.so_far()[on].bytes;
            t.shape = {};
        }
    }
}

} // namespace support
