// SPDX-License-Identifier: BSL-1.0
/// @file
/// Selective recomputation as MXNet's `MXNET_BACKWARD_DO_MIRROR` has it (Chen et al., "Training Deep Nets
/// with Sublinear Memory Cost"): every light op is run again, compute-heavy and random ones are not. The
/// gradient of an op that is not run again reads its original inputs, so what such an op reads stays stashed.
/// Nothing is estimated.
#pragma once

#include <echo/analysis/plan/decision/schedule_builder.hpp>

namespace echo::detail {

/// O(nodes + edges). Errors: none.
inline decision mirror(const snapshot& s, const candidates& c) {
    decision out = decision::nothing(s);
    const auto mirrored = [&](node_id n) {
        return c.rerunnable[n] && s[n].rerun == rerun_kind::pure && s[n].kind != op_kind::heavy;
    };
    for (const auto n : s.nodes()) {
        if (!mirrored(n)) continue;
        bool read_by_kept = false;
        for (const auto v : s.outputs(n)) {
            bool gradient = false, kept = false;
            for (const use& u : s.uses(v)) {
                const phase p = s[u.reader].phase;
                gradient |= runs_after_forward(p);
                kept |= p == phase::forward && c.live[u.reader] && !mirrored(u.reader);
            }
            read_by_kept |= gradient && kept;
        }
        out.again[n] = !read_by_kept;
    }
    return out;
}

} // namespace echo::detail
