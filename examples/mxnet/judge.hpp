// SPDX-License-Identifier: BSL-1.0
/// @file
/// What MXNet takes under a set of marks: the judge of `echo::mark_search`.
#pragma once

#include "nnvm.hpp"

namespace echo_mxnet {

/// Bytes of MXNet's pool, and the time of the copies. MXNet's LayerNorm does nothing where its first output is not
/// wanted: the gradient would read moments that were never computed, so marks that lead there are unsound.
inline echo::mark_verdict judge(const forward_pass& f, const echo::marks& marked) {
    const step_graph step(f, marked);
    const auto planned = echo::arena::plan_by_nnvm(step.graph());
    echo::mark_verdict found{.bytes = planned.bytes};
    for (const index n : planned.order) {
        if (n < f.nodes.size() || n - f.nodes.size() >= step.copied().size()) continue;
        const index original = step.copied()[n - f.nodes.size()];
        ++found.copies;
        found.copies_us += f.time_us[original];
        const auto first = planned.readers.begin() + planned.first_output[n],
                   last = planned.readers.begin() + planned.first_output[n + 1];
        found.unsound += f.hosts[original]->op == "LayerNorm" && *first == 0 &&
                         std::any_of(first, last, [](index count) { return count > 0; });
    }
    return found;
}

} // namespace echo_mxnet
