// SPDX-License-Identifier: BSL-1.0
/// @file
/// `best_fit`: what an allocator would do that is asked for storages as the steps run: a free block that fits, of
/// nearly the smallest size; free neighbours are joined. It is what is left where better ways would take too long.
#pragma once

#include <echo/analysis/memory/arena/bit_row.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>
#include <echo/graph/ranking.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::arena {

/// Blocks of an arena that grows at its end when nothing fits. Free blocks are kept by size to within 1/32
/// ("TLSF", Masmano, Ripoll, Crespo and Real, ECRTS 2004), so both calls are O(1).
class free_list {
public:
    free_list() : head_(bins + 1, none), used_bins_(bins + 1) { used_bins_.set(bins); }

    /// Where a block begins, in bytes.
    std::uint64_t offset(std::uint32_t block) const { return offset_[block]; }

    /// A block of so many bytes, at least 1; the number that `offset` and `give` know it by.
    std::uint32_t take(std::uint64_t bytes) {
        std::uint32_t i = head_[bin(bytes)];
        if (i == none || bytes_[i] < bytes) i = head_[used_bins_.next(bin(bytes) + std::size_t{1})];
        if (i == none) return grow(bytes);
        unlink(i);
        if (bytes_[i] > bytes) {
            const std::uint32_t rest = make(offset_[i] + bytes, bytes_[i] - bytes, i, after_[i]);
            bytes_[i] = bytes;
            link(rest);
        }
        return i;
    }

    /// Takes back a block that is in use.
    void give(std::uint32_t i) {
        if (const std::uint32_t next = after_[i]; next != none && is_free_[next]) {
            unlink(next);
            join(i, next);
        }
        if (const std::uint32_t previous = before_[i]; previous != none && is_free_[previous]) {
            unlink(previous);
            join(previous, i);
            i = previous;
        }
        link(i);
    }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::uint32_t bins = 64 * 32;

    /// Grows with the size: 32 for each power of two.
    static std::uint32_t bin(std::uint64_t bytes) {
        const auto power = static_cast<std::uint32_t>(std::bit_width(bytes)) - 1;
        const std::uint64_t parts = power >= 5 ? bytes >> (power - 5) : bytes << (5 - power);
        return power * 32 + static_cast<std::uint32_t>(parts & 31);
    }

    std::uint32_t grow(std::uint64_t bytes) {
        if (last_ == none || !is_free_[last_]) return make(end_, bytes, last_, none);
        unlink(last_);
        end_ += bytes - bytes_[last_];
        bytes_[last_] = bytes;
        return last_;
    }

    /// A block in use between two others.
    std::uint32_t make(std::uint64_t offset, std::uint64_t bytes, std::uint32_t before, std::uint32_t after) {
        const auto i = static_cast<std::uint32_t>(offset_.size());
        offset_.push_back(offset);
        bytes_.push_back(bytes);
        before_.push_back(before);
        after_.push_back(after);
        next_.push_back(none);
        previous_.push_back(none);
        is_free_.push_back(0);
        if (before != none) after_[before] = i;
        if (after != none) before_[after] = i;
        if (after == none) {
            last_ = i;
            end_ = offset + bytes;
        }
        return i;
    }

    /// The second of two neighbours ends.
    void join(std::uint32_t first, std::uint32_t second) {
        bytes_[first] += bytes_[second];
        after_[first] = after_[second];
        if (after_[first] != none)
            before_[after_[first]] = first;
        else
            last_ = first;
    }

    void link(std::uint32_t i) {
        const std::uint32_t in = bin(bytes_[i]);
        is_free_[i] = 1;
        previous_[i] = none;
        next_[i] = head_[in];
        if (next_[i] != none) previous_[next_[i]] = i;
        head_[in] = i;
        used_bins_.set(in);
    }

    void unlink(std::uint32_t i) {
        const std::uint32_t in = bin(bytes_[i]);
        is_free_[i] = 0;
        if (next_[i] != none) previous_[next_[i]] = previous_[i];
        (previous_[i] != none ? next_[previous_[i]] : head_[in]) = next_[i];
        if (head_[in] == none) used_bins_.clear(in);
    }

    std::vector<std::uint64_t> offset_, bytes_;
    std::vector<std::uint32_t> before_, after_;  ///< neighbours in the arena
    std::vector<std::uint32_t> previous_, next_; ///< in the list of a bin
    std::vector<std::uint32_t> is_free_;
    std::vector<std::uint32_t> head_; ///< by bin
    bit_row used_bins_;               ///< and one that is always set
    std::uint64_t end_ = 0;
    std::uint32_t last_ = none; ///< the block that ends there
};

/// An offset in bytes for each of a timeline's items, taken forwards or backwards in time, longest first among those
/// that start together. O(n log n) whatever the input. Errors: none.
inline std::vector<std::uint64_t> best_fit(const timeline& line, bool backwards) {
    const auto start = [&](std::uint32_t i) {
        return backwards ? line.times() - 1 - line[i].last : line[i].first;
    };
    const auto end = [&](std::uint32_t i) {
        return backwards ? line.times() - 1 - line[i].first : line[i].last;
    };
    detail::ranking by_start, by_end;
    by_start.reserve(line.size());
    by_end.reserve(line.size());
    for (std::uint32_t i = 0; i < line.size(); ++i) {
        by_start.add(i, std::uint64_t{line.times() - start(i)} << 32 | end(i), line[i].bytes);
        by_end.add(i, std::uint64_t{line.times() - end(i)});
    }
    const auto starting = by_start.descending(), ending = by_end.descending();
    std::vector<std::uint64_t> offsets(line.size());
    std::vector<std::uint32_t> blocks(line.size());
    free_list free;
    auto next = ending.begin();
    for (const auto i : starting) {
        for (; end(*next) < start(i); ++next) free.give(blocks[*next]);
        blocks[i] = free.take(line[i].bytes);
        offsets[i] = free.offset(blocks[i]);
    }
    return offsets;
}

} // namespace echo::arena
