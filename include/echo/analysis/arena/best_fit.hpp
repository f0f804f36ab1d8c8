// SPDX-License-Identifier: BSL-1.0
/// @file
/// `best_fit`: what an allocator would do that is asked for storages as the steps run: the smallest free
/// block that fits, free neighbours joined.
#pragma once

#include <echo/analysis/arena/timeline.hpp>
#include <echo/graph/ranking.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// Free blocks of an arena that grows at its end when nothing fits. O(log blocks) a call.
class free_list {
public:
    /// The lowest of the smallest free blocks that fit; else the end, grown by as much as is missing there.
    std::uint64_t take(std::uint64_t bytes) {
        if (const auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end()) {
            const auto [size, at] = *fit;
            drop(by_offset_.find({at, size}));
            if (bytes < size) add(at + bytes, size - bytes);
            return at;
        }
        std::uint64_t at = end_;
        if (!by_offset_.empty()) {
            const auto last = std::prev(by_offset_.end());
            if (last->first + last->second == end_) {
                at = last->first;
                drop(last);
            }
        }
        end_ = at + bytes;
        return at;
    }

    void give(std::uint64_t at, std::uint64_t bytes) {
        auto after = by_offset_.lower_bound({at, 0});
        if (after != by_offset_.begin()) {
            const auto before = std::prev(after);
            if (before->first + before->second == at) {
                at = before->first;
                bytes += before->second;
                drop(before);
            }
        }
        if (after != by_offset_.end() && after->first == at + bytes) {
            bytes += after->second;
            drop(after);
        }
        add(at, bytes);
    }

private:
    using blocks = std::set<std::pair<std::uint64_t, std::uint64_t>>;
    void add(std::uint64_t at, std::uint64_t bytes) {
        by_offset_.emplace(at, bytes);
        by_size_.emplace(bytes, at);
    }
    void drop(blocks::iterator block) {
        by_size_.erase({block->second, block->first});
        by_offset_.erase(block);
    }

    blocks by_offset_; // offset, size
    blocks by_size_;   // size, offset
    std::uint64_t end_ = 0;
};

/// Offsets of a timeline's items, taken forwards or backwards in time, longest first among those that start
/// together. O(n log n) whatever the input.
inline std::vector<std::uint64_t> best_fit(const timeline& line, bool backwards) {
    const auto start = [&](std::uint32_t i) {
        return backwards ? line.times() - 1 - line[i].last : line[i].first;
    };
    const auto end = [&](std::uint32_t i) {
        return backwards ? line.times() - 1 - line[i].first : line[i].last;
    };
    ranking by_start, by_end;
    by_start.reserve(line.size());
    by_end.reserve(line.size());
    for (std::uint32_t i = 0; i < line.size(); ++i) {
        by_start.add(i, std::uint64_t{line.times() - start(i)} << 32 | end(i), line[i].bytes);
        by_end.add(i, std::uint64_t{line.times() - end(i)});
    }
    const auto starting = by_start.descending(), ending = by_end.descending();
    std::vector<std::uint64_t> offsets(line.size());
    free_list free;
    auto next = ending.begin();
    for (const auto i : starting) {
        for (; end(*next) < start(i); ++next) free.give(offsets[*next], line[*next].bytes);
        offsets[i] = free.take(line[i].bytes);
    }
    return offsets;
}

} // namespace echo::arena
