// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_history`: which steps run each node, and which steps read each storage, of one replayed schedule.
#pragma once

#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstdint>
#include <span>
#include <utility>

namespace echo {

/// Step `by` reads a value that `content` made (not the view through which it may look), itself or inside it.
struct storage_read {
    step_id by{};
    node_id content{};
};

/// Scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class copy_history {
public:
    /// Replaces what it knew by the history of `steps`. `base`: of each value, the one that makes its storage, through
    /// views; `live`: of these steps. O(nodes + steps + inputs).
    void read(const snapshot& s, const id_vector<value_id, value_id>& base, const schedule& steps,
              const liveness& live) {
        latest_.assign(s.node_count(), step_id::none());
        earlier_.assign(steps.size(), step_id::none());
        reads_.begin(live.storage_count());
        for (const auto t : steps.steps()) {
            if (steps[t].kind != step_kind::encode) earlier_[t] = std::exchange(latest_[steps[t].node], t);
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) { reads_.count(live.storage(c)); });
        }
        reads_.lay_out();
        for (const auto t : steps.steps()) {
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) {
                const step_record& maker = steps[c.step];
                const node_id content = maker.kind == step_kind::encode
                                            ? maker.node
                                            : s[base[s.output(maker.node, c.output)]].producer;
                reads_.add(live.storage(c), {t, content});
            });
        }
    }

    /// The last step before `t` that runs the node, or none. O(runs of the node).
    step_id run_before(node_id n, step_id t) const {
        step_id run = latest_[n];
        while (run.valid() && run >= t) run = earlier_[run];
        return run;
    }
    /// The step that ran the same node before, or none. O(1).
    step_id earlier(step_id run) const { return earlier_[run]; }

    /// All reads of a storage, in step order. O(1).
    std::span<const storage_read> reads(storage_id i) const { return reads_[i]; }

private:
    id_vector<node_id, step_id> latest_;  ///< the last step that runs it
    id_vector<step_id, step_id> earlier_; ///< the one that ran its node before
    id_lists<storage_id, storage_read> reads_;
    read_walk walk_;
};

} // namespace echo
