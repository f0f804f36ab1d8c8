// SPDX-License-Identifier: BSL-1.0
/// @file
/// `neighbour_set`: a set of small numbers that finds neighbours, for the blocks in use at one step.
#pragma once

#include <echo/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::detail {

/// Bits, and bits that say which words of bits are not 0,
/// and so on. O(log limit) by words of 64.
class neighbour_set {
public:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

    explicit neighbour_set(std::size_t limit) {
        do {
            limit = limit / 64 + 1;
            levels_.emplace_back(limit, 0);
        } while (limit > 1);
    }

    void insert(std::size_t i) {
        for (auto& level : levels_) {
            level[i / 64] |= std::uint64_t{1} << i % 64;
            i /= 64;
        }
    }
    void erase(std::size_t i) {
        for (auto& level : levels_) {
            level[i / 64] &= ~(std::uint64_t{1} << i % 64);
            if (level[i / 64]) return;
            i /= 64;
        }
    }
    /// The smallest member from `i` on.
    std::size_t next(std::size_t i) const {
        for (std::size_t l = 0; l < levels_.size() && i / 64 < levels_[l].size(); ++l) {
            if (const std::uint64_t rest = levels_[l][i / 64] >> i % 64) {
                i += static_cast<std::size_t>(std::countr_zero(rest));
                while (l-- > 0) i = i * 64 + static_cast<std::size_t>(std::countr_zero(levels_[l][i]));
                return i;
            }
            i = i / 64 + 1;
        }
        return none;
    }
    /// The largest member below `i`.
    std::size_t previous(std::size_t i) const {
        for (std::size_t l = 0; l < levels_.size() && i > 0; ++l) {
            --i;
            if (const std::uint64_t rest = levels_[l][i / 64] << (63 - i % 64)) {
                i -= static_cast<std::size_t>(std::countl_zero(rest));
                while (l-- > 0) i = i * 64 + 63 - static_cast<std::size_t>(std::countl_zero(levels_[l][i]));
                return i;
            }
            i /= 64;
        }
        return none;
    }

private:
    std::vector<std::vector<std::uint64_t>> levels_;
};

} // namespace echo::detail
