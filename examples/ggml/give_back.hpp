// SPDX-License-Identifier: BSL-1.0
/// @file
/// A schedule without one of its recomputations.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>

#include <vector>

namespace echo_ggml {

/// The same steps but for one recompute: who read that copy reads the one before it. O(steps + copies read).
inline echo::schedule without(const echo::schedule& steps, echo::step_id left_out) {
    echo::step_id before{};
    for (const auto t : steps.steps())
        if (t < left_out && steps[t].node == steps[left_out].node && steps[t].kind != echo::step_kind::encode)
            before = t;
    echo::schedule made;
    std::vector<echo::step_id> now(steps.size());
    for (const auto t : steps.steps()) {
        if (t == left_out) {
            now[t.index()] = now[before.index()];
            continue;
        }
        now[t.index()] = made.add(steps[t]);
        for (const echo::copy_id c : steps.inputs(t)) made.read({now[c.step.index()], c.output});
    }
    return made;
}

} // namespace echo_ggml
