// SPDX-License-Identifier: BSL-1.0
/// @file
/// `timeline`: intervals in the one form in which the solvers take them, whatever order they came in.
#pragma once

#include <echo/analysis/arena/interval.hpp>
#include <echo/error.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace echo::arena {

/// Intervals sorted by (first, last, bytes), times replaced by the rank of the last start at or before them
/// (two intervals meet exactly if they both live at the later one's start), bytes rounded up to whole
/// alignment units, empty ones left out. A solver that sees nothing but a timeline cannot depend on the order
/// of its input.
class timeline {
public:
    /// O(n log n). Errors: an alignment of 0, an interval that ends before it starts, more than 2^62 bytes in
    /// all.
    timeline(std::span<const interval> items, std::uint64_t align) {
        if (!align) throw error({}, "align", "is 0", "give 1 or more");
        if (items.size() >= std::numeric_limits<std::uint32_t>::max())
            throw error({}, "intervals", "more than 2^32", "plan fewer storages at once");
        ranking by_life;
        by_life.reserve(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (items[i].last < items[i].first)
                throw error({}, "interval " + std::to_string(i), "ends before it starts",
                            "give the first and the last time at which it lives");
            const interval& x = items[i];
            const std::uint64_t life = std::uint64_t{x.first} << 32 | x.last;
            if (x.bytes) by_life.add(static_cast<std::uint32_t>(i), ~life, ~x.bytes);
        }
        origin_ = by_life.descending();
        rank(items);
        pad(align);
        measure();
    }

    std::size_t size() const noexcept { return items_.size(); }
    const interval& operator[](std::size_t i) const { return items_[i]; }
    std::span<const interval> items() const noexcept { return items_; }
    /// Which of the intervals given an item is.
    std::uint32_t origin(std::size_t i) const { return origin_[i]; }
    /// Times run from 0 to `times()` − 1; at each of them some item starts.
    std::uint32_t times() const noexcept { return static_cast<std::uint32_t>(begin_.size() - 1); }
    /// The first item that starts at time t or later; also for `times()`.
    std::uint32_t begin(std::uint32_t t) const { return begin_[t]; }
    /// Largest sum of padded bytes alive at one time: a placement that reaches it cannot be bettered.
    std::uint64_t load() const noexcept { return load_; }

private:
    void rank(std::span<const interval> items) {
        std::vector<std::uint32_t> starts;
        items_.reserve(origin_.size());
        for (std::size_t i = 0; i < origin_.size(); ++i) {
            items_.push_back(items[origin_[i]]);
            if (starts.empty() || items_[i].first != starts.back()) {
                starts.push_back(items_[i].first);
                begin_.push_back(static_cast<std::uint32_t>(i));
            }
        }
        std::uint32_t now = 0;
        for (auto& x : items_) {
            while (starts[now] != x.first) ++now;
            const auto after = std::upper_bound(starts.begin() + now, starts.end(), x.last);
            x.first = now;
            x.last = static_cast<std::uint32_t>(after - starts.begin() - 1);
        }
        begin_.push_back(static_cast<std::uint32_t>(items_.size()));
    }

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

    void measure() {
        std::vector<std::uint64_t> change(begin_.size(), 0);
        for (const auto& x : items_) {
            change[x.first] += x.bytes;
            change[x.last + 1] -= x.bytes; // wraps; the running sum does not
        }
        std::uint64_t now = 0;
        for (const auto c : change) load_ = std::max(load_, now += c);
    }

    std::vector<interval> items_;
    std::vector<std::uint32_t> origin_, begin_;
    std::uint64_t load_ = 0;
};

} // namespace echo::arena
