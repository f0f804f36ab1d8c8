// SPDX-License-Identifier: BSL-1.0
/// @file
/// `greedy_placer`: the fast placements, and the search over placement orders.
#pragma once

#include <echo/analysis/memory/arena/best_fit.hpp>
#include <echo/analysis/memory/arena/skyline.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::arena {

/// Builds skylines by several orders and keeps the best. The orders are, in turn: longest life, most bytes,
/// largest product of both; from there on each item that ended above the load is given four times the weight
/// it had ("squeaky wheel" optimisation, Joslin and Clements 1999). O(n) memory. The timeline must outlive it.
class greedy_placer {
public:
    explicit greedy_placer(const timeline& line)
        : line_(line), sky_(line), weight_(line.size()), best_(line.size(), 0) {}

    /// Tries until the arena has at most `aim` bytes, `tries` times at most, or until `work()` has reached
    /// `max_work`; the first call once at least, further calls go on where the last has stopped. Where a skyline
    /// would be searched for too long, the free list takes over, once: that is O(n log n) for every input.
    void run(std::uint64_t aim, std::size_t tries, std::uint64_t max_work) {
        for (; tries > 0 && bytes_ > aim && !gave_up_ && (work_ < max_work || bytes_ == none); --tries) {
            weigh();
            sort();
            gave_up_ = !sky_.place(order_, max_visits_per_item * line_.size());
            work_ += sky_.visits() + work_per_item * line_.size();
            ++tried_;
            if (!gave_up_) keep(sky_.offsets());
        }
        if (bytes_ != none) return;
        for (const bool backwards : {false, true}) keep(best_fit(line_, backwards));
    }

    /// The best so far, one offset per item of the timeline, and its size. Bytes.
    const std::vector<std::uint64_t>& offsets() const noexcept { return best_; }
    /// Bytes of the best so far.
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// Of all calls, in units of `section_search::work`.
    std::uint64_t work() const noexcept { return work_; }

private:
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::uint64_t max_visits_per_item = 128;
    static constexpr std::uint64_t work_per_item = 64;

    /// Doubles round these products alike everywhere, and four times one of them is exact.
    void weigh() {
        for (std::size_t i = 0; i < line_.size(); ++i) {
            const interval& x = line_[i];
            const double life = x.last - x.first + 1.0, bytes = static_cast<double>(x.bytes);
            switch (tried_) {
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
        detail::ranking by_weight;
        by_weight.reserve(line_.size());
        for (std::uint32_t i = 0; i < line_.size(); ++i) by_weight.add(i, weight_[i], line_[i].bytes);
        order_ = by_weight.descending();
    }

    void keep(std::span<const std::uint64_t> offsets) {
        const std::uint64_t end = extent(line_.items(), offsets);
        if (end >= bytes_) return;
        bytes_ = end;
        best_.assign(offsets.begin(), offsets.end());
    }

    const timeline& line_;
    skyline sky_;
    std::vector<double> weight_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint64_t> best_;
    std::uint64_t bytes_ = none, work_ = 0;
    std::size_t tried_ = 0;
    bool gave_up_ = false; ///< no more will come of further orders
};

} // namespace echo::arena
