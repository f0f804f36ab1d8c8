// SPDX-License-Identifier: BSL-1.0
/// @file
/// `timeline`: intervals in the one form in which the solvers take them, whatever order they came in.
#pragma once

#include <echo/analysis/memory/arena/interval.hpp>
#include <echo/analysis/schedule/load_sweep.hpp>
#include <echo/error.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo::arena {

/// Intervals without the empty ones, bytes rounded up to whole alignment units. Time is reduced to the moments
/// at which a largest set of intervals lives: starts with no end between them are one moment, and two
/// intervals meet exactly if they share one. Sorted by (first, last, bytes). A solver that sees nothing but a
/// timeline cannot depend on the order of its input.
class timeline {
public:
    /// `align` in bytes. O(n log n). Errors: an alignment of 0, an interval that ends before it starts, more than
    /// 2^62 bytes in all, 2^32 − 1 intervals or more.
    timeline(std::span<const interval> items, std::uint64_t align) {
        if (!align) throw error({}, "align", "is 0", "give 1 or more");
        if (items.size() >= std::numeric_limits<std::uint32_t>::max())
            throw error({}, "intervals", "are 2^32 - 1 or more", "plan fewer storages at once");
        items_.reserve(items.size());
        origin_.reserve(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (items[i].last < items[i].first)
                throw error({}, "interval " + std::to_string(i), "ends before it starts",
                            "give the first and the last time at which it lives");
            if (!items[i].bytes) continue;
            items_.push_back(items[i]);
            origin_.push_back(static_cast<std::uint32_t>(i));
        }
        pad(align);
        count_moments();
        sort();
        measure();
    }

    /// Items are the intervals that are not empty, with moments for times and padded bytes.
    std::size_t size() const noexcept { return items_.size(); }
    /// An item.
    const interval& operator[](std::size_t i) const { return items_[i]; }
    /// All items.
    std::span<const interval> items() const noexcept { return items_; }
    /// Which of the intervals given an item is.
    std::uint32_t origin(std::size_t i) const { return origin_[i]; }
    /// Moments run from 0 to `times()` − 1; at each of them some item starts.
    std::uint32_t times() const noexcept { return static_cast<std::uint32_t>(begin_.size() - 1); }
    /// The first item that starts at moment t or later; also for `times()`.
    std::uint32_t begin(std::uint32_t t) const { return begin_[t]; }
    /// Sum of padded bytes alive at moment t.
    std::uint64_t load(std::uint32_t t) const { return loads_[t]; }
    /// The largest of them, in bytes: a placement that reaches it cannot be bettered.
    std::uint64_t load() const noexcept { return load_; }

private:
    void pad(std::uint64_t align) {
        constexpr std::uint64_t most = std::uint64_t{1} << 62;
        std::uint64_t sum = 0;
        for (auto& x : items_) {
            const std::uint64_t short_of = x.bytes % align ? align - x.bytes % align : 0;
            if (x.bytes > most || short_of > most - x.bytes || x.bytes + short_of > most - sum)
                throw error({}, "bytes", "the storages together exceed 2^62 bytes",
                            "check sizes and alignment");
            x.bytes += short_of;
            sum += x.bytes;
        }
    }

    /// Replaces times by moments: a new one begins where something starts after something has ended.
    void count_moments() {
        const auto [starting, ending] = time_orders(items_);
        std::vector<std::uint32_t> ends; // times, by item
        for (const auto i : ending) ends.push_back(items_[i].last);
        std::uint32_t moments = 0;
        std::size_t ended = 0;
        for (const auto i : starting) {
            const std::size_t before = ended;
            for (; ends[ended] < items_[i].first; ++ended) items_[ending[ended]].last = moments - 1;
            if (moments == 0 || ended > before) ++moments;
            items_[i].first = moments - 1;
        }
        for (; ended < ending.size(); ++ended) items_[ending[ended]].last = moments - 1;
        begin_.assign(moments + std::size_t{1}, 0);
    }

    void sort() {
        detail::ranking by_life;
        by_life.reserve(items_.size());
        for (std::uint32_t i = 0; i < items_.size(); ++i)
            by_life.add(i, ~(std::uint64_t{items_[i].first} << 32 | items_[i].last), ~items_[i].bytes);
        std::vector<interval> items;
        std::vector<std::uint32_t> origin;
        items.reserve(items_.size());
        origin.reserve(items_.size());
        for (const auto i : by_life.descending()) {
            items.push_back(items_[i]);
            origin.push_back(origin_[i]);
        }
        items_ = std::move(items);
        origin_ = std::move(origin);
        for (const auto& x : items_) ++begin_[x.first + std::size_t{1}];
        for (std::size_t t = 1; t < begin_.size(); ++t) begin_[t] += begin_[t - 1];
    }

    void measure() {
        detail::begin_loads(loads_, begin_.size() - 1);
        for (const auto& x : items_) detail::add_life(loads_, x.first, x.last, x.bytes);
        load_ = detail::sum_lives(loads_);
    }

    std::vector<interval> items_;
    std::vector<std::uint32_t> origin_; ///< by item
    std::vector<std::uint32_t> begin_;  ///< by moment, and one behind the last
    std::vector<std::uint64_t> loads_;  ///< by moment, and a 0 behind the last
    std::uint64_t load_ = 0;
};

} // namespace echo::arena
