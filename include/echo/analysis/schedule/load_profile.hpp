// SPDX-License-Identifier: BSL-1.0
/// @file
/// `load_profile`: live bytes by step, as they would be after changes that have not been replayed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo {

/// A maximum over ranges of steps, with addition to ranges. All in bytes; they are taken off by adding less than 0.
/// Loads and sums must fit in 63 bits. O(steps) memory.
class load_profile {
public:
    /// One load per step. O(steps).
    explicit load_profile(std::span<const std::uint64_t> load)
        : leaves_(std::bit_ceil(std::max<std::size_t>(load.size(), 1))), most_(2 * leaves_, 0),
          added_(2 * leaves_, 0) {
        for (std::size_t i = 0; i < load.size(); ++i) most_[leaves_ + i] = static_cast<std::int64_t>(load[i]);
        for (std::size_t i = leaves_; i-- > 1;) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
    }

    /// The largest load of the steps `first` to `last`, at least 0; 0 if there are none. O(log steps).
    std::int64_t most(std::size_t first, std::size_t last) const {
        std::int64_t found = 0;
        for (std::size_t l = first + leaves_, r = last + leaves_ + 1; l < r; l /= 2, r /= 2) {
            if (l & 1) found = std::max(found, with_ancestors(l++));
            if (r & 1) found = std::max(found, with_ancestors(--r));
        }
        return found;
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
        return i - leaves_;
    }

    /// Adds to the steps `first` to `last`; nothing if there are none. O(log steps).
    void add(std::size_t first, std::size_t last, std::int64_t bytes) {
        if (first > last) return;
        const std::size_t l0 = first + leaves_, r0 = last + leaves_;
        for (std::size_t l = l0, r = r0 + 1; l < r; l /= 2, r /= 2) {
            if (l & 1) raise(l++, bytes);
            if (r & 1) raise(--r, bytes);
        }
        pull(l0);
        pull(r0);
    }

private:
    std::int64_t with_ancestors(std::size_t i) const {
        std::int64_t value = most_[i];
        for (i /= 2; i > 0; i /= 2) value += added_[i];
        return value;
    }
    void raise(std::size_t i, std::int64_t bytes) {
        most_[i] += bytes;
        added_[i] += bytes;
    }
    void pull(std::size_t i) {
        for (i /= 2; i > 0; i /= 2) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]) + added_[i];
    }

    std::size_t leaves_;
    std::vector<std::int64_t> most_;  ///< node: the largest load below it, but for what is added above it
    std::vector<std::int64_t> added_; ///< node: what is added to all below it
};

} // namespace echo
