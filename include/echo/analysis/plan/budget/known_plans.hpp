// SPDX-License-Identifier: BSL-1.0
/// @file
/// `known_plans`: the memory of a search, and its front: plans of which none has both a peak as low and as little
/// recomputation as another.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// Plans in order: peaks fall, times rise.
class known_plans {
public:
    /// Keeps `t`, unless a known plan is as good in both; forgets what `t` beats. O(known).
    void add(rated_decision t) {
        const auto place = first_within(t.footprint.peak_bytes);
        // Behind `place` stand peaks as low or lower; a plan as good as `t` is one of them that takes no longer.
        if (place != plans_.end() && place->recompute <= t.recompute) return;
        const auto first = std::find_if(plans_.begin(), place,
                                        [&](const rated_decision& p) { return p.recompute >= t.recompute; });
        const auto last = place != plans_.end() && place->footprint.peak_bytes == t.footprint.peak_bytes
                              ? place + 1
                              : place;
        const auto at = plans_.erase(first, last);
        plans_.insert(at, std::move(t));
    }

    /// The plan of least recomputation whose peak is at most `limit`; null if there is none. O(log known).
    const rated_decision* within(std::uint64_t limit) const {
        const auto place = first_within(limit);
        return place == plans_.end() ? nullptr : &*place;
    }
    /// The plan of the least peak that recomputes for at most `most`; null if there is none. O(log known).
    const rated_decision* within_time(ticks most) const {
        const auto place = std::partition_point(plans_.begin(), plans_.end(),
                                                [&](const rated_decision& p) { return p.recompute <= most; });
        return place == plans_.begin() ? nullptr : &*(place - 1);
    }
    /// The plan of the least peak. There must be one.
    const rated_decision& lowest() const { return plans_.back(); }
    /// The plans whose peaks lie next above the limit, `count` of them at most, the nearest last.
    std::vector<rated_decision> next_above(std::uint64_t limit, std::ptrdiff_t count) const {
        const auto end = first_within(limit);
        return {end - std::min(end - plans_.begin(), count), end};
    }
    /// The plans whose peaks are at most `limit`, `count` of them at most, the cheapest first.
    std::vector<rated_decision> next_within(std::uint64_t limit, std::ptrdiff_t count) const {
        const auto first = first_within(limit);
        return {first, first + std::min(plans_.end() - first, count)};
    }
    /// All of them, in order.
    const std::vector<rated_decision>& all() const noexcept { return plans_; }

private:
    std::vector<rated_decision>::iterator first_within(std::uint64_t limit) {
        return std::partition_point(plans_.begin(), plans_.end(),
                                    [&](const rated_decision& p) { return p.footprint.peak_bytes > limit; });
    }
    std::vector<rated_decision>::const_iterator first_within(std::uint64_t limit) const {
        return std::partition_point(plans_.begin(), plans_.end(),
                                    [&](const rated_decision& p) { return p.footprint.peak_bytes > limit; });
    }

    std::vector<rated_decision> plans_;
};

} // namespace echo::detail
