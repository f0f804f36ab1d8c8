// SPDX-License-Identifier: BSL-1.0
/// @file
/// `interval`: all that placing in an arena knows of a storage; of a set of them, the orders in time and two
/// measures. Every solver in this folder works on intervals alone.
#pragma once

#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::arena {

/// Bytes needed from time `first` to time `last`, both included.
struct interval {
    /// Times, in whatever unit; both included.
    std::uint32_t first = 0, last = 0;
    /// How much is needed.
    std::uint64_t bytes = 0;
    friend constexpr auto operator<=>(const interval&, const interval&) = default;
};

/// Indices of intervals by their first and by their last times, earliest first, among equals by index: what a
/// sweep over time goes by. O(n log n).
struct time_orders {
    /// Sorts by both. O(n log n).
    explicit time_orders(std::span<const interval> items) {
        detail::ranking by_start, by_end;
        by_start.reserve(items.size());
        by_end.reserve(items.size());
        for (std::uint32_t i = 0; i < items.size(); ++i) {
            by_start.add(i, ~std::uint64_t{items[i].first});
            by_end.add(i, ~std::uint64_t{items[i].last});
        }
        starting = by_start.descending();
        ending = by_end.descending();
    }
    /// Indices of the intervals.
    std::vector<std::uint32_t> starting, ending;
};

/// The largest sum of bytes alive at one time: no arena is smaller. Bytes; O(n log n). Requires that all
/// bytes together fit in 64 bits. Errors: none.
[[nodiscard]] inline std::uint64_t peak_load(std::span<const interval> items) {
    const time_orders orders(items);
    std::uint64_t now = 0, most = 0;
    auto next = orders.ending.begin();
    for (const auto i : orders.starting) {
        for (; items[*next].last < items[i].first; ++next) now -= items[*next].bytes;
        most = std::max(most, now += items[i].bytes);
    }
    return most;
}

/// The arena that a placement needs: its largest offset + bytes. `offsets`: one per interval. Bytes; O(n). Errors:
/// none.
[[nodiscard]] inline std::uint64_t extent(std::span<const interval> items,
                                          std::span<const std::uint64_t> offsets) {
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].bytes) end = std::max(end, offsets[i] + items[i].bytes);
    return end;
}

} // namespace echo::arena
