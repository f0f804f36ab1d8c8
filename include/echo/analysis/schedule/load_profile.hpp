// SPDX-License-Identifier: BSL-1.0
/// @file
/// `load_profile`: live bytes by step, as they would be after changes that have not been replayed.
#pragma once

#include <echo/config.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::detail {

/// A maximum over ranges of steps, with addition to ranges. All in bytes; they are taken off by adding less than 0.
/// Loads and sums must fit in 62 bits. O(steps) memory.
class load_profile {
public:
    /// One load per step. O(steps).
    explicit load_profile(std::span<const std::uint64_t> load)
        : leaves_(std::bit_ceil(load.size() + 2)), most_(2 * leaves_, 0), added_(leaves_, 0) {
        for (std::size_t i = 0; i < load.size(); ++i) most_[leaf(i)] = static_cast<std::int64_t>(load[i]);
        for (std::size_t i = leaves_; i-- > 1;) most_[i] = most_below(i);
    }

    /// The largest load of the steps `first` to `last`, which there must be, at least 0; 0 if `last` is before `first`.
    /// O(log steps).
    std::int64_t most(std::size_t first, std::size_t last) const {
        if (first > last) return 0;
        std::int64_t on_left = none, on_right = none;
        std::size_t l = leaf(first) - 1, r = leaf(last) + 1; // what lies between them counts
        while ((l ^ r) != 1) {
            if (l % 2 == 0) on_left = std::max(on_left, most_[l + 1]);
            if (r % 2 == 1) on_right = std::max(on_right, most_[r - 1]);
            l /= 2, r /= 2;
            on_left += added_[l];
            on_right += added_[r];
        }
        std::int64_t found = std::max(on_left, on_right);
        while (l /= 2) found += added_[l];
        return std::max<std::int64_t>(found, 0);
    }
    /// The largest load of all, where any is above 0. O(1).
    std::int64_t most() const { return most_[1]; }
    /// The first step that has it, where any load is above 0. O(log steps).
    std::size_t peak() const {
        std::size_t i = 1;
        while (i < leaves_) {
            const std::int64_t below = most_[i] - added_[i];
            i = most_[2 * i] == below ? 2 * i : 2 * i + 1;
        }
        return i - leaf(0);
    }

    /// Adds to the steps `first` to `last`, which there must be; to none if `last` is before `first`. O(log steps).
    void add(std::size_t first, std::size_t last, std::int64_t bytes) {
        if (first > last) return;
        std::size_t l = leaf(first) - 1, r = leaf(last) + 1; // what lies between them is raised
        while ((l ^ r) != 1) {
            if (l % 2 == 0) raise(l + 1, bytes);
            if (r % 2 == 1) raise(r - 1, bytes);
            l /= 2, r /= 2;
            most_[l] = most_below(l) + added_[l];
            most_[r] = most_below(r) + added_[r];
        }
        while (l /= 2) most_[l] = most_below(l) + added_[l];
    }

private:
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min() / 2;

    /// Before the first step and behind the last one lies another leaf.
    std::size_t leaf(std::size_t step) const { return leaves_ + 1 + step; }
    std::int64_t most_below(std::size_t i) const { return std::max(most_[2 * i], most_[2 * i + 1]); }
    void raise(std::size_t i, std::int64_t bytes) {
        most_[i] += bytes;
        if (i < leaves_) added_[i] += bytes;
    }

    std::size_t leaves_;
    std::vector<std::int64_t> most_;  ///< node: the largest load below it, but for what is added above it
    std::vector<std::int64_t> added_; ///< node that is no leaf: what is added to all below it
};

} // namespace echo::detail
