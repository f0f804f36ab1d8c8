// SPDX-License-Identifier: BSL-1.0
/// @file
/// `nnvm_pool`: the planner that the paper's numbers were made with, kept as the baseline. It is no arena planner: a
/// pool of blocks, each an allocation of its own, of which a storage takes one as a whole.
///
/// The rules are those of NNVM's PlanMemory as MXNet 0.12.1 calls it: a match range of 16 (NNVM_EXEC_MATCH_RANGE; the
/// paper's Echo narrowed it to 2), colouring off (NNVM_EXEC_NUM_TEMP = 1). In the order of the steps
/// - the storages that a step makes ask for a block, the largest first, of equal ones the last output;
/// - a request of n bytes takes the smallest free block of n to 16·n bytes; if there is none, the largest of n/16
///   (rounded down) to n − 1, which grows to n; if there is none, a new one of n;
/// - then the storages that the step reads last, and those that nobody reads, give their blocks back.
///
/// The pool is the sum of its blocks at their final sizes, and of the 32 bytes that MXNet's device allocator adds to
/// each. Here the blocks lie one after another. Which of two free blocks of one size is taken changes no size.
#pragma once

#include <echo/analysis/memory/arena/bit_row.hpp>
#include <echo/analysis/memory/arena/nnvm_pool_options.hpp>
#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>
#include <echo/graph/ranking.hpp>
#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::arena {

/// The blocks of a pool. Every size that a block ever has is that of an item, so sizes are known beforehand and free
/// blocks are found by the rank of theirs: `take` is O(ranks in the match range / 64), `give` O(1).
class nnvm_blocks {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// Items must not be empty, and must outlive it. O(n log n).
    nnvm_blocks(std::span<const interval> items, std::uint64_t match_range)
        : rank_of_(items.size(), 0), match_range_(match_range), free_(items.size() + 2) {
        echo::detail::ranking by_bytes;
        by_bytes.reserve(items.size());
        for (std::uint32_t i = 0; i < items.size(); ++i) by_bytes.add(i, ~items[i].bytes);
        sizes_.push_back(0); // always free: below all others, and never taken
        for (const auto i : by_bytes.descending()) {
            if (items[i].bytes != sizes_.back()) sizes_.push_back(items[i].bytes);
            rank_of_[i] = static_cast<std::uint32_t>(sizes_.size() - 1);
        }
        first_free_.assign(sizes_.size(), none);
        free_.set(0);
        free_.set(sizes_.size()); // above all others
    }

    /// The block that an item lies in from here on, by its number.
    std::uint32_t take(std::uint32_t item) {
        const std::uint32_t rank = rank_of_[item];
        const std::size_t found = match(rank);
        if (found == 0) {
            block_rank_.push_back(rank);
            next_free_.push_back(none);
            return static_cast<std::uint32_t>(block_rank_.size() - 1);
        }
        const std::uint32_t block = first_free_[found];
        first_free_[found] = next_free_[block];
        if (first_free_[found] == none) free_.clear(found);
        if (found < rank) block_rank_[block] = rank;
        return block;
    }

    /// A block that is in use becomes free.
    void give(std::uint32_t block) {
        const std::uint32_t rank = block_rank_[block];
        next_free_[block] = first_free_[rank];
        first_free_[rank] = block;
        free_.set(rank);
    }

    /// How many blocks there are, free ones included.
    std::size_t count() const noexcept { return block_rank_.size(); }
    /// Of a block, bytes: the largest item so far.
    std::uint64_t bytes(std::size_t block) const { return sizes_[block_rank_[block]]; }

private:
    /// The rank of the free block to take; 0 if there is none.
    std::size_t match(std::uint32_t rank) const {
        if (!match_range_) return 0;
        const std::uint64_t bytes = sizes_[rank];
        const std::size_t above = free_.next(rank);
        if (above < sizes_.size() && (sizes_[above] - 1) / match_range_ < bytes) return above;
        const std::size_t below = free_.previous(rank);
        return sizes_[below] >= bytes / match_range_ ? below : 0;
    }

    std::vector<std::uint32_t> rank_of_; ///< by item
    std::vector<std::uint64_t> sizes_;   ///< by rank, ascending
    std::uint64_t match_range_;
    bit_row free_;                          ///< ranks of which a block is free
    std::vector<std::uint32_t> first_free_; ///< by rank: a list of blocks
    std::vector<std::uint32_t> next_free_, block_rank_;
};

/// The offset of each interval's block, in the pool's blocks laid end to end, each at a multiple of `align` bytes; the
/// placement's `bytes` is the pool's size. Times are steps: intervals that start together are the outputs of one, in
/// turn.
/// Deterministic. O(n log n + the search for blocks). Errors: as `timeline`; an overhead with which the pool does not
/// fit in 64 bits.
[[nodiscard]] inline placement place_in_pool(std::span<const interval> items, const nnvm_pool& options = {},
                                             std::uint64_t align = 1) {
    placement made{.offsets = std::vector<std::uint64_t>(items.size(), 0),
                   .bound = timeline(items, align).load()};
    std::vector<interval> used; // those of more than 0 bytes
    for (const auto& x : items)
        if (x.bytes) used.push_back(x);
    echo::detail::ranking making;
    making.reserve(used.size());
    for (auto n = static_cast<std::uint32_t>(used.size()), k = 0U; k < n;
         ++k) { // equal ones from the last on
        const interval& x = used[n - 1 - k];
        making.add(k, ~std::uint64_t{x.first}, x.bytes);
    }
    const auto ending = time_orders(used).ending;

    nnvm_blocks pool(used, options.match_range);
    std::vector<std::uint32_t> block_of(used.size());
    auto next = ending.begin();
    for (const auto k : making.descending()) {
        const auto i = static_cast<std::uint32_t>(used.size() - 1 - k);
        for (; used[*next].last < used[i].first; ++next) pool.give(block_of[*next]);
        block_of[i] = pool.take(i);
    }

    std::vector<std::uint64_t> begin;
    for (std::size_t b = 0; b < pool.count(); ++b) {
        const std::uint64_t rest = made.bytes % align;
        const auto from = checked_add(made.bytes, rest ? align - rest : 0);
        const auto bytes = checked_add(pool.bytes(b), options.overhead);
        const auto end = from && bytes ? checked_add(*from, *bytes) : std::nullopt;
        if (!end) throw error({}, "overhead", "the pool does not fit in 64 bits", "give a smaller one");
        begin.push_back(*from);
        made.bytes = *end;
    }
    for (std::size_t i = 0, k = 0; i < items.size(); ++i)
        if (items[i].bytes) made.offsets[i] = begin[block_of[k++]];
    return made;
}

} // namespace echo::arena
