// SPDX-License-Identifier: BSL-1.0
/// @file
/// A certified lower bound on the peak of every legal schedule (formats.md) that runs each gradient once and keeps
/// their order, and that runs again light nodes only, or also heavy ones. What else a schedule may do is all allowed
/// for: schedule_rules.hpp.
///
/// Every node has its working set (working_set.hpp). While a gradient runs, there is also live what later steps need
/// and cannot make: held_cut.hpp. The bound is the largest of these. Where the host fuses, an input that could be
/// recomputed inside its reader need not be live, but what it is made from must.
#pragma once

#include <echo/analysis/held_cut.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace echo {

/// Computes bounds for one snapshot. Snapshot and candidates must outlive it.
class lower_bound {
public:
    lower_bound(const lower_bound&) = delete; // it points into itself
    lower_bound& operator=(const lower_bound&) = delete;
    /// `encode`: values may be kept in one bit per element. `heavy`: compute-heavy nodes may run again.
    lower_bound(const snapshot& s, const candidates& c, bool encode, bool heavy = false)
        : rules_(s, c, encode, heavy), count_(rules_), held_(rules_) {}

    /// The largest working set of one step. O(nodes + edges).
    std::uint64_t working_sets() {
        std::uint64_t most = 0;
        for (const auto n : rules_.graph().nodes())
            if (rules_.is_live(n)) most = std::max(most, count_(n));
        return most;
    }

    /// The least that is live while gradient `at` runs. O(nodes + edges) and a cut.
    std::uint64_t while_running(node_id at) { return static_cast<std::uint64_t>(held_(at, {})); }

    /// The bound, the cuts taken at the given nodes, as far as they are gradients.
    std::uint64_t operator()(std::span<const node_id> at) {
        std::uint64_t bound = working_sets();
        for (const auto n : at)
            if (rules_.is_gradient(n)) bound = std::max(bound, while_running(n));
        return bound;
    }

private:
    schedule_rules rules_;
    working_set count_;
    held_cut held_;
};

} // namespace echo
