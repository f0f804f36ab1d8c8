// SPDX-License-Identifier: BSL-1.0
/// @file
/// What MXNet takes under a set of marks: the judge of `echo::mark_search`.
#pragma once

#include "nnvm.hpp"

namespace echo_mxnet {

/// Bytes of MXNet's pool, and the time of the copies. MXNet's LayerNorm does nothing where its first output is not wanted: the
/// gradient would read moments that were never computed, so marks that lead there are unsound.
inline echo::mark_verdict judge(const forward_pass& f, const echo::marks& marked) {
    const step_graph step(f, marked);
    const auto planned = echo::arena::plan_by_nnvm(step.graph());
    echo::mark_verdict found{.bytes = planned.bytes, .copies = step.copied().size()};
    for (std::size_t k = 0; k < found.copies; ++k) {
        const index original = step.copied()[k];
        found.copies_us += f.time_us[original];
        const auto* const at = &planned.first_output[f.nodes.size() + k];
        const auto first = planned.readers.begin() + at[0], last = planned.readers.begin() + at[1];
        found.unsound += f.hosts[original]->op == "LayerNorm" && *first == 0 &&
                         std::any_of(first, last, [](index count) { return count > 0; });
    }
    return found;
}

} // namespace echo_mxnet
