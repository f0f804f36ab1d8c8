// SPDX-License-Identifier: BSL-1.0
/// @file
/// `recent_plans`: the last plans that a search has met, also those that others beat: in a part of the graph they may
/// be better.
#pragma once

#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace echo {

/// The last `tuning::recent_kept` of them.
/// A template so that only files that make plans compile it.
template <class = void>
class recent_plans {
public:
    /// Remembers the plan, unless one of the same figures is remembered. O(remembered).
    void add(const rated_decision& plan) {
        const bool is_known = std::ranges::any_of(plans_, [&](const rated_decision& other) {
            return other.recompute == plan.recompute &&
                   other.footprint.peak_bytes == plan.footprint.peak_bytes;
        });
        if (is_known) return;
        if (plans_.size() == tuning::recent_kept) plans_.erase(plans_.begin());
        plans_.push_back(plan);
    }
    /// Those that `best` may be crossed with, a plan at the limit of so many bytes: of a peak near the limit, and not
    /// much dearer. The last one first. O(remembered).
    std::vector<rated_decision> near(std::uint64_t limit, const rated_decision& best) const {
        const std::uint64_t most = limit + limit / tuning::crossed_above_parts;
        const std::uint64_t least = limit - limit / tuning::crossed_below_parts;
        std::vector<rated_decision> found;
        for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan)
            if (plan->footprint.peak_bytes <= most && plan->footprint.peak_bytes >= least &&
                plan->recompute != best.recompute &&
                plan->recompute <= best.recompute + best.recompute / tuning::dearer_crossed_part)
                found.push_back(*plan);
        return found;
    }

private:
    std::vector<rated_decision> plans_; // in the order in which they were met
};

} // namespace echo
