// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_orders`: which answer the exact search tries first, another way each time it starts afresh.
#pragma once

#include <echo/analysis/memory/arena/valleys.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::arena {

/// Longest life first; most bytes × life; at the most loaded moment; most bytes: in turn, first as they are,
/// then with every weight multiplied by a random factor, of up to 2, 4 and 16 either way. A search that is
/// cut short and started afresh in another order does not stay in the subtree of an early mistake. (Round
/// robin over static orders: MiniMalloc; restarts: Gomes, Selman and Kautz, AAAI 1998.)
class search_orders {
public:
    /// O(n log n). The timeline must outlive it.
    explicit search_orders(const timeline& line) : line_(line), rank_(line.size()), load_(line.size()) {
        // A tree over the moments: of each node the largest load below it.
        const std::size_t times = line.times();
        std::vector<std::uint64_t> tree(2 * times);
        for (std::uint32_t t = 0; t < times; ++t) tree[times + t] = line.load(t);
        for (std::size_t i = times; i-- > 1;) tree[i] = std::max(tree[2 * i], tree[2 * i + 1]);
        for (std::size_t i = 0; i < line.size(); ++i) {
            std::size_t left = times + line[i].first, right = times + line[i].last + 1;
            for (; left < right; left /= 2, right /= 2) {
                if (left % 2) load_[i] = std::max(load_[i], tree[left++]);
                if (right % 2) load_[i] = std::max(load_[i], tree[--right]);
            }
        }
    }

    /// The rank of each item, 0 first; valid until the next call. The sequence of the calls is always the same.
    /// O(n log n).
    std::span<const std::uint32_t> next() {
        constexpr std::uint32_t octaves[] = {1, 4, 2};
        const std::uint32_t noise = turn_ < 4 ? 0 : octaves[turn_ / 4 % 3];
        detail::ranking by_weight;
        by_weight.reserve(line_.size());
        for (std::uint32_t i = 0; i < line_.size(); ++i) {
            const interval& x = line_[i];
            const double life = x.last - x.first + 1.0, bytes = static_cast<double>(x.bytes);
            const double load = static_cast<double>(load_[i]);
            const double weights[] = {life, life * bytes, load, bytes};
            by_weight.add(i, weights[turn_ % 4] * factor(noise), x.bytes);
        }
        std::uint32_t rank = 0;
        for (const auto i : by_weight.descending()) rank_[i] = rank++;
        ++turn_;
        return rank_;
    }

    /// How the search with the order last given compares questions.
    valleys::prices prices() const noexcept {
        constexpr valleys::prices all[] = {{0, 5}, {3072, 20}};
        return all[(turn_ - 1) / 4 % 2];
    }

private:
    /// 2^k · (1 + u), k from −octaves to octaves − 1 and u in [0, 1), times 2^(octaves + 20) for all alike: no
    /// rounding, so the same everywhere.
    double factor(std::uint32_t octaves) {
        if (octaves == 0) return 1;
        random_ ^= random_ << 13; // xorshift64, Marsaglia 2003
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        const std::uint64_t power = std::uint64_t{1} << (random_ >> 32) % (2 * octaves);
        return static_cast<double>(power) * static_cast<double>((1 << 20) + (random_ & 0xfffff));
    }

    const timeline& line_;
    std::vector<std::uint32_t> rank_;
    std::vector<std::uint64_t> load_; ///< item: the largest load while it lives
    std::uint64_t random_ = 0x9e3779b97f4a7c15;
    std::uint32_t turn_ = 0; ///< calls of `next`
};

} // namespace echo::arena
