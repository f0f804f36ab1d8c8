// SPDX-License-Identifier: BSL-1.0
/// @file
/// `sections`: a partly filled arena, moment by moment, with undo: the state of the exact search.
#pragma once

#include <echo/analysis/memory/arena/bit_row.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::arena {

/// Each moment has a floor: nothing that is still to be placed goes below it. Raising a floor over empty
/// space spends the moment's slack, which is what the capacity leaves above its load; when a slack would
/// become negative the state is dead. (The section inference of Moffitt, "MiniMalloc", ASPLOS 2023, kept
/// incrementally.)
///
/// O(n) memory. All changes are undone in reverse order. The timeline must outlive it. Bytes throughout.
class sections {
public:
    explicit sections(const timeline& line)
        : line_(line), floor_(line.times()), slack_(line.times()), crossing_(line.times()),
          edges_(line.times() + std::size_t{1}), gaps_(line.times()), waiting_(line.size()),
          offsets_(line.size()) {}

    /// Takes everything out. The capacity is at least the load. O(n).
    void clear(std::uint64_t capacity) {
        changed_.clear();
        lifted_by_.clear();
        waiting_.set_all();
        edges_.clear_all();
        edges_.set(0);
        edges_.set(line_.times());
        gaps_.clear_all();
        crossing_.assign(crossing_.size(), 0);
        for (const auto& x : line_.items()) {
            ++crossing_[x.first];
            --crossing_[x.last];
        }
        for (std::uint32_t t = 0; t < line_.times(); ++t) {
            if (t > 0) crossing_[t] += crossing_[t - 1];
            if (crossing_[t] == 0) gaps_.set(t);
            floor_[t] = 0;
            slack_[t] = capacity - line_.load(t);
        }
    }

    /// Whether the item is still to be placed.
    bool waits(std::uint32_t item) const { return waiting_[item]; }
    /// In bytes.
    std::uint64_t floor(std::uint32_t moment) const { return floor_[moment]; }
    /// In bytes: how far the floor can be raised over empty space.
    std::uint64_t slack(std::uint32_t moment) const { return slack_[moment]; }
    /// The first moment, from t on, after which no item that waits lives on.
    std::uint32_t gap(std::uint32_t t) const { return static_cast<std::uint32_t>(gaps_.next(t)); }
    /// The first moment after t whose floor is not that of the moment before; `times()` of the timeline if there is
    /// none.
    std::uint32_t next_edge(std::uint32_t t) const {
        return static_cast<std::uint32_t>(edges_.next(t + std::size_t{1}));
    }
    /// The last such moment before t, which is not 0; 0 if there is none.
    std::uint32_t previous_edge(std::uint32_t t) const {
        return static_cast<std::uint32_t>(edges_.previous(t - std::size_t{1}));
    }
    /// Of the items that are in.
    const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
    /// What has been looked at so far: stretches, items, moments.
    std::uint64_t work() const noexcept { return work_; }
    /// Adds to `work()` what a caller has looked at.
    void add_work(std::uint64_t looked_at) noexcept { work_ += looked_at; }

    /// Calls `f(item)` for the items that wait and live within a stretch. O(items that start in it).
    template <class F>
    void for_each_within(std::uint32_t first, std::uint32_t last, F f) {
        waiting_.for_each_word(line_.begin(first), line_.begin(last + 1),
                               [&](std::size_t word, std::uint64_t bits) {
                                   for (; bits; bits &= bits - 1) {
                                       const auto i = static_cast<std::uint32_t>(word * 64) +
                                                      static_cast<std::uint32_t>(std::countr_zero(bits));
                                       ++work_;
                                       if (line_[i].last <= last) f(i);
                                   }
                               });
    }

    /// A number that stands for the set of items that wait and start within a stretch. Two sets may share one.
    /// O(items that start in it / 64).
    std::uint64_t items_between(std::uint32_t first, std::uint32_t last) const {
        std::uint64_t sum = 0;
        waiting_.for_each_word(
            line_.begin(first), line_.begin(last + 1),
            [&](std::size_t, std::uint64_t bits) { sum = sum * 0x9e3779b97f4a7c15 + bits; });
        return sum;
    }

    /// For `undo`.
    std::size_t mark() const noexcept { return changed_.size(); }

    /// Puts an item on the floor, which must be even where the item lives. O(life).
    void put(std::uint32_t i) {
        const interval& x = line_[i];
        offsets_[i] = floor_[x.first];
        note(i, 0);
        waiting_.clear(i);
        for (std::uint32_t t = x.first; t <= x.last; ++t) floor_[t] += x.bytes;
        for (std::uint32_t t = x.first; t < x.last; ++t)
            if (--crossing_[t] == 0) gaps_.set(t);
        find_edges(x.first, x.last);
        work_ += 1 + (x.last - x.first) / 4;
    }

    /// Raises the floor of one moment to a higher one, in bytes; false, and nothing is done, if the capacity does
    /// not allow it. O(1).
    bool lift(std::uint32_t t, std::uint64_t to) {
        const std::uint64_t by = to - floor_[t];
        if (by > slack_[t]) return false;
        note(t, by);
        floor_[t] = to;
        slack_[t] -= by;
        find_edges(t, t);
        return true;
    }

    /// Takes back all that was put and lifted since the call of `mark()` that gave `mark`. O(lives).
    void undo(std::size_t mark) {
        while (changed_.size() > mark) {
            const std::uint32_t index = changed_.back();
            const std::uint64_t by = lifted_by_.back();
            changed_.pop_back();
            lifted_by_.pop_back();
            if (by) {
                floor_[index] -= by;
                slack_[index] += by;
                find_edges(index, index);
                continue;
            }
            const interval& x = line_[index];
            waiting_.set(index);
            for (std::uint32_t t = x.first; t <= x.last; ++t) floor_[t] -= x.bytes;
            for (std::uint32_t t = x.first; t < x.last; ++t)
                if (crossing_[t]++ == 0) gaps_.clear(t);
            find_edges(x.first, x.last);
        }
    }

private:
    void note(std::uint32_t index, std::uint64_t by) {
        changed_.push_back(index);
        lifted_by_.push_back(by);
    }

    void find_edges(std::uint32_t first, std::uint32_t last) {
        if (first > 0) edges_.set(first, floor_[first] != floor_[first - 1]);
        if (last + 1 < line_.times()) edges_.set(last + std::size_t{1}, floor_[last + 1] != floor_[last]);
    }

    const timeline& line_;
    std::vector<std::uint64_t> floor_, slack_;
    std::vector<std::uint32_t> crossing_; ///< items that wait and live both at a moment and at the next
    bit_row edges_;                       ///< moments whose floor is not that of the one before
    bit_row gaps_;                        ///< moments that no item crosses to the next
    bit_row waiting_;                     ///< items
    std::vector<std::uint64_t> offsets_;
    std::vector<std::uint32_t> changed_;   ///< moments lifted and items put, in turn
    std::vector<std::uint64_t> lifted_by_; ///< 0: an item was put
    std::uint64_t work_ = 0;
};

} // namespace echo::arena
