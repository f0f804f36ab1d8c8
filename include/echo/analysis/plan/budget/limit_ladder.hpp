// SPDX-License-Identifier: BSL-1.0
/// @file
/// `limit_ladder`: limits on the peak, each a 256th below the one before. Searches for different figures that ask at
/// the rungs of one ladder share their answers.
#pragma once

#include <echo/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo {

/// Rungs from 0 down; which of them were visited.
class limit_ladder {
public:
    /// `highest`: the limit of rung 0, in bytes.
    explicit limit_ladder(std::uint64_t highest) : limits_{highest} {}

    /// Bytes. O(1), once the ladder is that long.
    std::uint64_t limit(std::size_t i) {
        while (limits_.size() <= i)
            limits_.push_back(limits_.back() - std::min(limits_.back(), limits_.back() / 256 + 1));
        return limits_[i];
    }
    /// The last rung whose limit is not below `bytes`; the first if they all are. O(rungs above).
    std::size_t above(std::uint64_t bytes) {
        std::size_t i = 0;
        while (limit(i + 1) >= bytes && limit(i + 1) > 0) ++i;
        return i;
    }
    /// Marks the rung as visited. Whether it was not before. O(1).
    bool visit(std::size_t i) {
        if (visited_.size() <= i) visited_.resize(i + 1, 0);
        return !std::exchange(visited_[i], std::uint8_t{1});
    }
    /// Whether the rung was visited. O(1).
    bool was_visited(std::size_t i) const noexcept { return i < visited_.size() && visited_[i]; }

private:
    std::vector<std::uint64_t> limits_;
    std::vector<std::uint8_t> visited_;
};

} // namespace echo
