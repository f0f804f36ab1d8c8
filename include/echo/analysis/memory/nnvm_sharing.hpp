// SPDX-License-Identifier: BSL-1.0
/// @file
/// `not_shared_by_nnvm`: whether a pool planned by `plan_memory` (option `pool`) is NNVM's, and if not, where it is
/// smaller. The pool's requests are NNVM's for the storages that there are; which copies share a storage is settled
/// before, by the rules of docs/formats.md, and these let more lie together than NNVM does. NNVM lays an output on an
/// input's storage only if
/// - the input has a block of the pool, and no output before names the same input;
/// - both have the same size, and the output is read and not resident;
/// - the op is an identity (here: a view), or nothing else reads what lies there, now or later.
///
/// What remains apart from that: NNVM tries each input that an output may overwrite, here the host names one; and its
/// pass counts 4 bytes for an element of any type, here bytes are what they are.
#pragma once

#include <echo/analysis/schedule/latest_runs.hpp>
#include <echo/analysis/schedule/liveness.hpp>

#include <cstdint>
#include <vector>

namespace echo {

/// The copies, in step order, that lie on an input's storage although one of these does not hold. If there are none,
/// the pool has the bytes that NNVM's would have. O(steps + copies). Errors: those of `liveness_analysis`.
[[nodiscard]] inline std::vector<copy_id> not_shared_by_nnvm(const snapshot& s, const schedule& steps) {
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    const auto latest = detail::latest_runs(s, steps); // whose copies are the graph's outputs

    std::vector<copy_id> found;
    for (const auto t : steps.steps()) {
        if (!runs_node(steps[t].kind) || steps[t].fused) continue;
        const auto sources = steps.inputs(t);
        const auto outputs = s.outputs(steps[t].node);
        for (const auto v : outputs) {
            const copy_id made{t, s.output_index(v)};
            const bool view = s[v].view_of != no_input;
            const std::uint32_t k = view ? s[v].view_of : s[v].inplace;
            if (k == no_input || live.storage(made) != live.storage(sources[k])) continue;
            const storage_record& storage = live[live.storage(made)];
            if (storage.resident && !view) continue; // an update: NNVM plans none
            bool taken = false;
            for (const auto before : outputs)
                taken |= before < v && (s[before].view_of == k || s[before].inplace == k);
            const bool read = live.last_read(made).valid() || (s.is_result(v) && latest[steps[t].node] == t);
            const bool same_size = s[v].bytes == s[s.inputs(steps[t].node)[k]].bytes;
            if (storage.resident || taken || !read || s[v].resident || !same_size) found.push_back(made);
        }
    }
    return found;
}

} // namespace echo
