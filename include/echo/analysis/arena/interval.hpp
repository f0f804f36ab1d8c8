// SPDX-License-Identifier: BSL-1.0
/// @file
/// `interval`: all that placing in an arena knows of a storage, and two measures of a set of them. Every
/// solver in this folder works on intervals alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// Bytes needed from time `first` to time `last`, both included.
struct interval {
    std::uint32_t first = 0, last = 0;
    std::uint64_t bytes = 0;
    friend constexpr auto operator<=>(const interval&, const interval&) = default;
};

/// The largest sum of bytes alive at one time: no arena is smaller. Bytes; O(n log n). Requires that all
/// bytes together fit in 64 bits.
inline std::uint64_t peak_load(std::span<const interval> items) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> changes; // time, bytes; a loss wraps
    changes.reserve(2 * items.size());
    for (const auto& x : items) {
        changes.emplace_back(x.first, x.bytes);
        changes.emplace_back(x.last + std::uint64_t{1}, 0 - x.bytes);
    }
    // At one time losses come in any order with gains, so the sum is looked at only once a time is over.
    std::sort(changes.begin(), changes.end(), [](auto a, auto b) { return a.first < b.first; });
    std::uint64_t now = 0, most = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
        now += changes[i].second;
        if (i + 1 == changes.size() || changes[i + 1].first != changes[i].first) most = std::max(most, now);
    }
    return most;
}

/// The arena that a placement needs: its largest offset + bytes. O(n).
inline std::uint64_t extent(std::span<const interval> items, std::span<const std::uint64_t> offsets) {
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].bytes) end = std::max(end, offsets[i] + items[i].bytes);
    return end;
}

} // namespace echo::arena
