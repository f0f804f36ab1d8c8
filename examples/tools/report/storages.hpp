// SPDX-License-Identifier: BSL-1.0
/// @file
/// The storages of a schedule, and who reads and writes them when.
#pragma once

#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/read_walk.hpp>

#include <vector>

namespace echo::report {

/// A read in the backward pass of what was made before it.
struct late_read {
    step_id reader{}; ///< none: there is no such read
    copy_id copy{}; ///< what is read: it need not be what made the storage, which may be overwritten in place
};

struct storages {
    liveness live{};
    step_id boundary{};                       ///< the first step of the backward pass
    std::vector<late_read> first_late_read{}; ///< by storage
    std::vector<step_id> last_write{}; ///< by storage: the last step that made or overwrote bytes of it
};

namespace detail {

inline void find_late_reads(const schedule& steps, storages& found) {
    found.first_late_read.assign(found.live.storage_count(), {});
    read_walk walk;
    for (const auto t : steps.steps()) {
        if (t < found.boundary || steps[t].fused) continue;
        walk(steps, t, [&](std::uint32_t, copy_id c) {
            const storage_id on = found.live.storage(c);
            if (!on.valid() || found.live[on].first >= found.boundary) return;
            late_read& first = found.first_late_read[on.index()];
            if (!first.reader.valid()) first = {t, c};
        });
    }
}

inline void find_writes(const snapshot& s, const schedule& steps, storages& found) {
    found.last_write.assign(found.live.storage_count(), step_id(0));
    for (const auto t : steps.steps()) {
        if (steps[t].fused) continue;
        for (std::uint32_t k = 0; k < copy_count(s, steps[t]); ++k) {
            const bool view = runs_node(steps[t].kind) && s[s.output(steps[t].node, k)].view_of != no_input;
            const storage_id on = found.live.storage({t, k});
            if (!view && on.valid()) found.last_write[on.index()] = t;
        }
    }
}

} // namespace detail

/// O(steps + copies). Errors: as `liveness_analysis`.
inline storages storages_of(const snapshot& s, const schedule& steps) {
    liveness_analysis analyse;
    storages found{.live = analyse(s, steps), .boundary = first_backward_step(s, steps)};
    detail::find_late_reads(steps, found);
    detail::find_writes(s, steps, found);
    return found;
}

} // namespace echo::report
