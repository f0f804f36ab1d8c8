// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_history`: which steps run each node, and which steps read each storage, of one replayed schedule.
#pragma once

#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/run_history.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstdint>
#include <span>

namespace echo::detail {

/// Step `by` reads a value that `content` made (not the view through which it may look), itself or inside it.
struct storage_read {
    step_id by{};
    node_id content{};
};

/// Scratch memory is kept between uses.
class copy_history : public run_history {
public:
    /// Replaces what it knew of reads by those of `steps`. `base`: of each value, the one that makes its storage,
    /// through views; `live`: of these steps. What is resident is left out: nothing is gained by making it again.
    /// O(steps + inputs).
    void read_reads(const snapshot& s, const id_vector<value_id, value_id>& base, const schedule& steps,
                    const liveness& live) {
        reads_.begin(live.storage_count());
        for (const auto t : steps.steps()) {
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) {
                if (const storage_id i = live.storage(c); !live[i].resident) reads_.count(i);
            });
        }
        reads_.lay_out();
        for (const auto t : steps.steps()) {
            if (steps[t].fused) continue;
            walk_(steps, t, [&](std::uint32_t, copy_id c) {
                const storage_id i = live.storage(c);
                if (live[i].resident) return;
                const step_record& maker = steps[c.step];
                const node_id content = maker.kind == step_kind::encode
                                            ? maker.node
                                            : s[base[s.output(maker.node, c.output)]].producer;
                reads_.add(i, {t, content});
            });
        }
    }

    /// All reads of a storage that is not resident, in step order. O(1).
    std::span<const storage_read> reads(storage_id i) const { return reads_[i]; }

private:
    id_lists<storage_id, storage_read> reads_;
    read_walk walk_;
};

} // namespace echo::detail
