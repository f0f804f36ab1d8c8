// SPDX-License-Identifier: BSL-1.0
/// @file
/// `released_copies`: what a host with an allocator of its own gives back behind each step.
#pragma once

#include <echo/analysis/schedule/liveness.hpp>

#include <utility>
#include <vector>

namespace echo {

/// By step: the copies whose memory is free once the step has run. Each stands for its whole storage: views of the
/// copy, and what was written over it in place, are gone with it. Results and what is resident are never released, nor
/// do fused steps make anything. Errors: as `liveness_analysis`. O(steps + copies read).
[[nodiscard]] inline id_vector<step_id, std::vector<copy_id>> released_copies(const snapshot& s,
                                                                              const schedule& steps) {
    liveness_analysis analysis;
    const liveness& live = analysis(s, steps);
    id_vector<step_id, std::vector<copy_id>> released(steps.size());
    for (const auto i : live.storages()) {
        const storage_record& storage = live[i];
        if (!storage.resident && !storage.holds_result) released[storage.last].push_back(storage.maker);
    }
    return released;
}

} // namespace echo
