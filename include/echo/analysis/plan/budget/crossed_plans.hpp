// SPDX-License-Identifier: BSL-1.0
/// @file
/// `crossed_plans`: the last plans that a search has met, also those that others beat, for in a part of the graph they
/// may be better; and the crossings with them.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/crossing.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo {

/// The last `tuning::recent_kept` plans.
/// A template so that only files that make plans compile it.
template <class = void>
class crossed_plans {
public:
    /// All must outlive it. O(1).
    crossed_plans(evaluator<>& evaluate, evictor<>& evict, retainer<>& retain)
        : cross_(evaluate, evict, retain) {}

    /// Remembers the plan, unless one of the same figures is remembered. O(nodes + steps).
    void remember(const evaluated_plan& plan) {
        const auto is_same = [&](const crossable& other) {
            return other.plan.recompute == plan.recompute() &&
                   other.plan.footprint.peak_bytes == plan.peak_bytes();
        };
        if (std::ranges::any_of(plans_, is_same)) return;
        if (plans_.size() == tuning::recent_kept) plans_.erase(plans_.begin());
        plans_.push_back(cross_.prepared(plan));
    }

    /// `best`, whose peak is at most `limit` bytes, or a better one: crossed with those remembered plans whose peaks
    /// lie near the limit and which are not much dearer, the last one first. Costs and errors: as of `crosser`.
    [[nodiscard]] evaluated_plan cross(evaluated_plan best, std::uint64_t limit) {
        const std::uint64_t most = limit + limit / tuning::crossed_above_parts;
        const std::uint64_t least = limit - limit / tuning::crossed_below_parts;
        const ticks before = best.recompute();
        std::vector<const crossable*> others;
        for (auto other = plans_.rbegin(); other != plans_.rend(); ++other) {
            const plan_figures& figures = other->plan;
            if (figures.footprint.peak_bytes <= most && figures.footprint.peak_bytes >= least &&
                figures.recompute != before &&
                figures.recompute <= before + before / tuning::dearer_crossed_part)
                others.push_back(&*other);
        }
        return cross_(std::move(best), others, limit);
    }

private:
    crosser<> cross_;
    std::vector<crossable> plans_; // in the order in which they were met
};

} // namespace echo
