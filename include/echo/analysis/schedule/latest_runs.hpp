// SPDX-License-Identifier: BSL-1.0
/// @file
/// `latest_runs`: the last step that runs each node: what it makes is the result, where the node makes one.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

namespace echo::detail {

/// The last step that runs each node; `step_id::none()` for what no step runs. O(nodes + steps). Errors: none.
[[nodiscard]] inline id_vector<node_id, step_id> latest_runs(const snapshot& s, const schedule& steps) {
    id_vector<node_id, step_id> latest(s.node_count(), step_id::none());
    for (const auto t : steps.steps())
        if (runs_node(steps[t].kind)) latest[steps[t].node] = t;
    return latest;
}

} // namespace echo::detail
