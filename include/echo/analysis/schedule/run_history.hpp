// SPDX-License-Identifier: BSL-1.0
/// @file
/// `run_history`: which steps run each node, of one schedule.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <utility>

namespace echo::detail {

/// Its memory is used again for the next schedule.
class run_history {
public:
    /// Replaces what it knew by the runs of `steps`. O(nodes + steps).
    void read_runs(const snapshot& s, const schedule& steps) {
        latest_.assign(s.node_count(), step_id::none());
        earlier_.assign(steps.size(), step_id::none());
        for (const auto t : steps.steps())
            if (runs_node(steps[t].kind)) earlier_[t] = std::exchange(latest_[steps[t].node], t);
    }

    /// The last step before `t` that runs the node, or none. O(runs of the node).
    step_id run_before(node_id n, step_id t) const {
        step_id run = latest_[n];
        while (run.valid() && run >= t) run = earlier_[run];
        return run;
    }
    /// The step that ran the same node before, or none. O(1).
    step_id earlier(step_id run) const { return earlier_[run]; }

private:
    id_vector<node_id, step_id> latest_;  ///< the last step that runs it
    id_vector<step_id, step_id> earlier_; ///< the one that ran its node before
};

} // namespace echo::detail
