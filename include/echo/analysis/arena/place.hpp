// SPDX-License-Identifier: BSL-1.0
/// @file
/// `place`: an offset for each of a set of intervals, by the best of a few methods.
#pragma once

#include <echo/analysis/arena/best_fit.hpp>
#include <echo/analysis/arena/skyline.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::arena {

/// Builds skylines by several orders and keeps the best. The orders are, in turn: longest life, most bytes,
/// largest product of both; from there on each item that ended above the load is given four times the weight
/// had ("squeaky wheel" optimisation, Joslin and Clements 1999).
class placer {
public:
    explicit placer(const timeline& line)
        : line_(line), sky_(line), weight_(line.size()), best_(line.size(), 0) {}

    /// Tries until the arena is as small as the load, `tries` times at most. Where a skyline would be
    /// searched for too long, the free list takes over: that is O(n log n) for every input.
    void run(std::size_t tries) {
        for (std::size_t i = 0; i < tries && extent_ > line_.load(); ++i) {
            weigh(i);
            sort();
            if (!sky_.place(order_, max_visits_per_item * line_.size())) break;
            keep(sky_.offsets());
        }
        if (extent_ == none)
            for (const bool backwards : {false, true}) keep(best_fit(line_, backwards));
    }

    /// The best so far, one offset per item of the timeline.
    std::span<const std::uint64_t> offsets() const noexcept { return best_; }

private:
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::uint64_t max_visits_per_item = 128;

    /// Doubles hold these products alike everywhere, and doubling them is exact.
    void weigh(std::size_t attempt) {
        for (std::size_t i = 0; i < line_.size(); ++i) {
            const interval& x = line_[i];
            const double life = x.last - x.first + 1.0, bytes = static_cast<double>(x.bytes);
            switch (attempt) {
            case 0:
                weight_[i] = life;
                break;
            case 1:
                weight_[i] = bytes;
                break;
            case 2:
                weight_[i] = life * bytes;
                break;
            default:
                if (sky_.offsets()[i] + x.bytes > line_.load()) weight_[i] *= 4;
            }
        }
    }

    void sort() {
        ranking by_weight;
        by_weight.reserve(line_.size());
        for (std::uint32_t i = 0; i < line_.size(); ++i) by_weight.add(i, weight_[i], line_[i].bytes);
        order_ = by_weight.descending();
    }

    void keep(std::span<const std::uint64_t> offsets) {
        const std::uint64_t end = extent(line_.items(), offsets);
        if (end >= extent_) return;
        extent_ = end;
        best_.assign(offsets.begin(), offsets.end());
    }

    const timeline& line_;
    skyline sky_;
    std::vector<double> weight_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint64_t> best_;
    std::uint64_t extent_ = none;
};

/// Skylines tried for n intervals unless the load is reached before: what some milliseconds allow.
constexpr std::size_t default_tries(std::size_t n) noexcept {
    return std::min<std::size_t>(2 + 15'000 / std::max<std::size_t>(n, 1), 64);
}

/// One offset per interval, each a multiple of `align`, so that no two intervals alive at one time overlap; 0
/// for an interval of 0 bytes. The arena's size depends on the set of intervals alone, not on their order;
/// offsets depend on nothing else than the input. Bytes. O(n log n) time, O(n) memory, no recursion.
/// Errors: as `timeline`.
inline std::vector<std::uint64_t> place(std::span<const interval> items, std::uint64_t align = 1) {
    const timeline line(items, align);
    placer place_all(line);
    place_all.run(default_tries(line.size()));
    std::vector<std::uint64_t> offsets(items.size(), 0);
    for (std::size_t i = 0; i < line.size(); ++i) offsets[line.origin(i)] = place_all.offsets()[i];
    return offsets;
}

} // namespace echo::arena
