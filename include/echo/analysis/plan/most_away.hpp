// SPDX-License-Identifier: BSL-1.0
/// @file
/// `most_away`: how many bytes can wait in the host's memory while a gradient runs.
#pragma once

#include <echo/analysis/plan/bound/schedule_rules.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/copy_times.hpp>
#include <echo/analysis/plan/offload/link.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace echo::detail {

/// Of every plan that recomputes and waits for at most so long in all. What is away while a gradient runs has left
/// before it, and comes back behind it. Gradients keep their order, and what they need runs before them; of other nodes
/// it is not known on which side they run, so that they count on both.
class most_away {
public:
    /// O(nodes + edges). Candidates must outlive it. Errors: a link without rates.
    most_away(const snapshot& s, const candidates& c, const link_model& link, ticks most)
        : copying_(link, c.times.exponent), host_bytes_(link.host_bytes), all_(c.times.total + most),
          times_(c.times.of_node), until_(s.node_count(), 0), from_(s.node_count(), 0) {
        const schedule_rules rules(s, c, false, false);
        for (const auto n : s.nodes()) {
            if (!rules.is_live(n)) continue;
            const std::uint32_t first = rules.needed_first(n);
            if (first < s.node_count()) until_[node_id(first)] += times_[n];
            if (rules.is_gradient(n)) from_[n] += times_[n];
        }
        for (std::size_t i = 1; i < s.node_count(); ++i) until_[node_id(i)] += until_[node_id(i - 1)];
        for (std::size_t i = s.node_count(); i-- > 1;) from_[node_id(i - 1)] += from_[node_id(i)];
    }

    /// While gradient `at` runs. O(1).
    std::uint64_t operator()(node_id at) const {
        const ticks before = all_ - from_[at], behind = all_ - until_[at];
        return std::min(host_bytes_, copying_.most_there_and_back(before, behind, all_ - times_[at]));
    }

private:
    copy_times copying_;
    std::uint64_t host_bytes_;
    ticks all_; ///< what the whole step may take
    const id_vector<node_id, ticks>& times_;
    id_vector<node_id, ticks> until_; ///< what has run for certain when this gradient ends
    id_vector<node_id, ticks> from_;  ///< what runs for certain from this gradient on
};

} // namespace echo::detail
