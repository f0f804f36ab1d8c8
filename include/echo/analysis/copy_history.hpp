// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_history`: which steps run each node, and which steps read each storage, of one replayed schedule.
#pragma once

#include <echo/analysis/liveness.hpp>
#include <echo/analysis/read_walk.hpp>

#include <cstdint>
#include <span>
#include <vector>

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
    void read(const snapshot& s, std::span<const value_id> base, const schedule& steps,
              const liveness& live) {
        latest_.assign(s.node_count(), step_id::none());
        earlier_.assign(steps.size(), step_id::none());
        first_.assign(live.storage_count() + 1, 0);
        for (const auto t : steps.steps()) {
            if (steps[t].kind != step_kind::encode) {
                auto& latest = latest_[steps[t].node.index()];
                earlier_[t.index()] = latest;
                latest = t;
            }
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) { ++first_[live.storage(c).index() + 1]; });
        }
        for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
        next_.assign(first_.begin(), first_.end() - 1);
        reads_.resize(first_.back());
        for (const auto t : steps.steps()) {
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) {
                const step_record& maker = steps[c.step];
                const node_id content = maker.kind == step_kind::encode
                                            ? maker.node
                                            : s[base[s.output(maker.node, c.output).index()]].producer;
                reads_[next_[live.storage(c).index()]++] = {t, content};
            });
        }
    }

    /// The last step before `t` that runs the node, or none. O(runs of the node).
    step_id run_before(node_id n, step_id t) const {
        step_id run = latest_[n.index()];
        while (run.valid() && run >= t) run = earlier_[run.index()];
        return run;
    }
    /// The step that ran the same node before, or none. O(1).
    step_id earlier(step_id run) const { return earlier_[run.index()]; }

    /// All reads of a storage, in step order. O(1).
    std::span<const storage_read> reads(storage_id i) const {
        return {reads_.data() + first_[i.index()], reads_.data() + first_[i.index() + 1]};
    }

private:
    std::vector<step_id> latest_;      ///< node: the last step that runs it
    std::vector<step_id> earlier_;     ///< step: the one that ran its node before
    std::vector<std::uint32_t> first_; ///< storage: its first place in `reads_`
    std::vector<std::uint32_t> next_;  ///< scratch: the next free one
    std::vector<storage_read> reads_;
    read_walk walk_;
};

} // namespace echo
