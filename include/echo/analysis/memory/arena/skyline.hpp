// SPDX-License-Identifier: BSL-1.0
/// @file
/// `skyline`: fills the arena from below, always at a lowest step of the skyline. Source: the best-fit
/// heuristic of Sekiyama, Imai, Negishi and Kawachiya, "Profile-guided memory optimization for deep neural
/// networks" (2018), itself Burke's best fit for strip packing; what decides between the candidates is an
/// order given by the caller.
#pragma once

#include <echo/analysis/memory/arena/window_tree.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::arena {

/// The skyline is the height used so far at each time: a list of segments. In a segment lower than both its
/// neighbours the best-ranked item that lives entirely within it is put down; where there is none, the
/// segment is lifted to its lower neighbour, and the space below is lost. What happens in one such valley
/// does not depend on the others, so valleys are filled one after the other, nearest first, without a queue.
/// Scratch memory is kept between calls. The timeline must outlive it. Beyond the searches of `window_tree`,
/// O(n log n).
class skyline {
public:
    explicit skyline(const timeline& line) : line_(line), tree_(line), offsets_(line.size()) {}

    /// Places all items, `order` listing them best first, unless the searches visit more than `max_visits`
    /// nodes: then false, and the offsets mean nothing.
    bool place(std::span<const std::uint32_t> order, std::uint64_t max_visits) {
        if (line_.size() == 0) return true;
        tree_.fill(order);
        segments_.clear();
        segments_.push_back({.height = wall, .first = 0, .last = 0, .before = border, .after = border});
        segments_.push_back(
            {.height = 0, .first = 0, .last = line_.times() - 1, .before = border, .after = border});
        unused_.clear();
        std::uint32_t here = 1;
        for (std::size_t left = line_.size(); left > 0;) {
            here = valley(here);
            const std::uint32_t rank = tree_.best(segments_[here].first, segments_[here].last);
            if (tree_.visits() > max_visits) return false;
            if (rank == window_tree::none) {
                here = lift(here);
            } else {
                const std::uint32_t item = order[rank];
                offsets_[item] = segments_[here].height;
                tree_.remove(item);
                here = raise(here, line_[item]);
                --left;
            }
        }
        return true;
    }

    /// Nodes that the searches of the last call have visited.
    std::uint64_t visits() const noexcept { return tree_.visits(); }
    /// Of the last call: one per item of the timeline, in bytes, multiples of its alignment.
    std::span<const std::uint64_t> offsets() const noexcept { return offsets_; }

private:
    /// A segment of index `border` stands, higher than all, at either end.
    static constexpr std::uint32_t border = 0;
    static constexpr std::uint64_t wall = std::numeric_limits<std::uint64_t>::max();
    struct segment {
        std::uint64_t height;
        std::uint32_t first, last;   ///< times, both included
        std::uint32_t before, after; ///< neighbours
    };

    /// Downhill from a segment. No two neighbours are of one height. O(1) amortised: what is passed on the
    /// way down is merged on the way up.
    std::uint32_t valley(std::uint32_t i) const {
        for (;;) {
            const segment& s = segments_[i];
            if (segments_[s.before].height < s.height)
                i = s.before;
            else if (segments_[s.after].height < s.height)
                i = s.after;
            else
                return i;
        }
    }

    /// Lifts a valley to its lower neighbour; the segment into which it went.
    std::uint32_t lift(std::uint32_t i) {
        const segment s = segments_[i];
        const std::uint64_t before = segments_[s.before].height, after = segments_[s.after].height;
        if (before <= after) {
            absorb_next(s.before);
            if (before == after) absorb_next(s.before);
            return s.before;
        }
        segments_[s.after].first = s.first;
        segments_[s.after].before = s.before;
        if (s.before != border) segments_[s.before].after = s.after;
        unused_.push_back(i);
        return s.after;
    }

    /// Puts an item on a segment, which keeps what the item does not cover as segments of their own.
    std::uint32_t raise(std::uint32_t i, const interval& item) {
        const segment s = segments_[i];
        if (s.first < item.first)
            insert_before(i, {.height = s.height,
                              .first = s.first,
                              .last = item.first - 1,
                              .before = s.before,
                              .after = i});
        if (item.last < s.last)
            insert_after(
                i,
                {.height = s.height, .first = item.last + 1, .last = s.last, .before = i, .after = s.after});
        segment& raised = segments_[i];
        raised.first = item.first;
        raised.last = item.last;
        raised.height = s.height + item.bytes;
        const std::uint32_t before = raised.before, after = raised.after;
        if (after != border && segments_[after].height == raised.height) absorb_next(i);
        if (before == border || segments_[before].height != segments_[i].height) return i;
        absorb_next(before);
        return before;
    }

    void absorb_next(std::uint32_t i) {
        const std::uint32_t gone = segments_[i].after;
        segments_[i].last = segments_[gone].last;
        segments_[i].after = segments_[gone].after;
        if (segments_[i].after != border) segments_[segments_[i].after].before = i;
        unused_.push_back(gone);
    }

    void insert_before(std::uint32_t i, const segment& made) {
        const std::uint32_t at = store(made);
        if (made.before != border) segments_[made.before].after = at;
        segments_[i].before = at;
    }

    void insert_after(std::uint32_t i, const segment& made) {
        const std::uint32_t at = store(made);
        if (made.after != border) segments_[made.after].before = at;
        segments_[i].after = at;
    }

    std::uint32_t store(const segment& made) {
        if (unused_.empty()) {
            segments_.push_back(made);
            return static_cast<std::uint32_t>(segments_.size() - 1);
        }
        const std::uint32_t at = unused_.back();
        unused_.pop_back();
        segments_[at] = made;
        return at;
    }

    const timeline& line_;
    window_tree tree_;
    std::vector<std::uint64_t> offsets_;
    std::vector<segment> segments_;
    std::vector<std::uint32_t> unused_; ///< places in `segments_`
};

} // namespace echo::arena
