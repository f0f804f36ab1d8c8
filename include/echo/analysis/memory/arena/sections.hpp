// SPDX-License-Identifier: BSL-1.0
/// @file
/// `sections`: a partly filled arena, moment by moment, with undo: the state of the exact search.
#pragma once

#include <echo/analysis/memory/arena/bit_row.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::arena {

/// Each moment has a floor: nothing that is still to be placed goes below it. Raising a floor over empty
/// space spends the moment's slack, which is what the capacity leaves above its load; when a slack would
/// become negative the state is dead. (The section inference of Moffitt, "MiniMalloc", ASPLOS 2023, kept
/// incrementally.)
///
/// A valley is a stretch of moments of one floor below the floors on either side. If there is a placement,
/// there is one in which everything is pushed down until it rests on a floor or on another item. There, what
/// begins below a valley's lower wall lies within it, so moments that none of the items which fit into the
/// valley covers are lifted to that wall, and of every other moment it can be asked which of them lies on its
/// floor, if any. `settle` lifts, and finds the moment at which that is cheapest to ask.
///
/// O(n) memory. All changes are undone in reverse order. The timeline must outlive it. Bytes throughout.
class sections {
public:
    /// What to decide next: which item covers `moment` at the floor of the valley from `first` to `last`.
    struct question {
        /// Times of the timeline: of the item, and of the valley's two ends, both included.
        std::uint32_t moment = 0, first = 0, last = 0;
        std::uint64_t wall = 0; ///< the lower of the floors beside the valley
    };
    /// By what questions are compared: an item that may be the answer counts 1024.
    struct prices {
        std::uint32_t none = 0;  ///< that no item may be
        std::uint32_t slack = 0; ///< each 1/2048 to 1/1024 of the capacity that may be lost then
    };
    /// What `settle` finds.
    enum class state { dead, empty, open };

    explicit sections(const timeline& line)
        : line_(line), floor_(line.times()), slack_(line.times()), crossing_(line.times()),
          edges_(line.times() + std::size_t{1}), gaps_(line.times()), cover_(line.times() + std::size_t{1}),
          valleys_(line.times()), waiting_(line.size()), offsets_(line.size()) {}

    /// Takes everything out. The capacity is at least the load. O(n).
    void clear(std::uint64_t capacity, const prices& p) {
        prices_ = p;
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
            valleys_[t].score = none;
        }
        const auto width = static_cast<int>(std::bit_width(capacity));
        narrow_ = width > price_bits ? width - price_bits : 0;
        widen_ = width < price_bits ? price_bits - width : 0;
    }

    /// Whether the item is still to be placed.
    bool waits(std::uint32_t item) const { return waiting_[item]; }
    /// In bytes.
    std::uint64_t floor(std::uint32_t moment) const { return floor_[moment]; }
    /// The first moment, from t on, after which no item that waits lives on.
    std::uint32_t gap(std::uint32_t t) const { return static_cast<std::uint32_t>(gaps_.next(t)); }
    /// Of the items that are in.
    const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
    /// What has been looked at so far: stretches, items, moments.
    std::uint64_t work() const noexcept { return work_; }

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

    /// Lifts what must be lifted from `first` to `last`, a stretch that no waiting item leaves. Dead: no
    /// placement. Empty: no item waits there. Open: `asked` is the question of the least price, which is one with
    /// few answers; among equals, the first. O(stretches + items of the valleys that have changed since they were
    /// looked at).
    state settle(std::uint32_t first, std::uint32_t last, question& asked) {
        std::uint64_t least = none, before = none;
        for (std::uint32_t a = first; a <= last;) {
            const auto next = static_cast<std::uint32_t>(edges_.next(a + std::size_t{1}));
            const std::uint32_t b = next <= last ? next - 1 : last;
            const std::uint64_t after = b < last ? floor_[b + 1] : none;
            const std::uint64_t wall = before < after ? before : after;
            ++work_;
            if (wall > floor_[a]) {
                if (!is_known(a, b, wall)) {
                    const state found = look(a, b, wall);
                    if (found == state::dead) return found;
                    if (found == state::empty) {
                        if (wall == none) return found;
                        if (a > first) { // the valley was lifted, wholly or in part
                            a = static_cast<std::uint32_t>(edges_.previous(a - std::size_t{1}));
                            if (a < first) a = first;
                        }
                        before = a > first ? floor_[a - 1] : none;
                        continue;
                    }
                }
                if (valleys_[a].score < least) {
                    least = valleys_[a].score;
                    asked = {valleys_[a].moment, a, b, wall};
                }
            }
            before = floor_[a];
            a = b + 1;
        }
        return state::open;
    }

private:
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    static constexpr int price_bits = 11;
    static constexpr std::uint64_t answer_price = 1024;
    struct valley { ///< what the last look at the valley that starts here has found
        std::uint32_t last = 0, moment = 0;
        std::uint64_t wall = 0, items = 0, score = none;
    };

    void note(std::uint32_t index, std::uint64_t by) {
        changed_.push_back(index);
        lifted_by_.push_back(by);
    }

    void find_edges(std::uint32_t first, std::uint32_t last) {
        if (first > 0) edges_.set(first, floor_[first] != floor_[first - 1]);
        if (last + 1 < line_.times()) edges_.set(last + std::size_t{1}, floor_[last + 1] != floor_[last]);
    }

    /// A number that stands for the set of items that wait and start within a stretch. Where two sets share
    /// one, a question is asked that is not the best: no harm done.
    std::uint64_t items_between(std::uint32_t a, std::uint32_t b) const {
        std::uint64_t sum = 0;
        waiting_.for_each_word(line_.begin(a), line_.begin(b + 1), [&](std::size_t, std::uint64_t bits) {
            sum = sum * 0x9e3779b97f4a7c15 + bits;
        });
        return sum;
    }

    bool is_known(std::uint32_t a, std::uint32_t b, std::uint64_t wall) const {
        const valley& v = valleys_[a];
        return v.score != none && v.last == b && v.wall == wall && v.items == items_between(a, b);
    }

    /// Open: the valley's record is up to date. Empty: no item fits, or moments that none covers were lifted.
    state look(std::uint32_t a, std::uint32_t b, std::uint64_t wall) {
        for (std::uint32_t t = a; t <= b + 1; ++t) cover_[t] = 0;
        std::uint64_t smallest = none;
        for_each_within(a, b, [&](std::uint32_t i) {
            ++cover_[line_[i].first];
            --cover_[line_[i].last + std::size_t{1}];
            smallest = line_[i].bytes < smallest ? line_[i].bytes : smallest;
        });
        valley& v = valleys_[a];
        v.score = none;
        if (smallest == none && wall == none) return state::empty;
        work_ += b - a + 1;
        const std::uint64_t depth = wall - floor_[a], step = smallest < depth ? smallest : depth;
        std::uint64_t least = none;
        std::uint32_t covering = 0;
        bool lifted = false;
        for (std::uint32_t t = a; t <= b; ++t) {
            covering += cover_[t];
            if (covering == 0) {
                if (wall == none) continue;
                if (!lift(t, wall)) return state::dead;
                lifted = true;
                continue;
            }
            const std::uint64_t score = covering * answer_price + price_of_none(t, step);
            if (score >= least) continue;
            least = score;
            v.moment = t;
        }
        if (lifted) return state::empty;
        v.last = b;
        v.wall = wall;
        v.items = items_between(a, b);
        v.score = least;
        return state::open;
    }

    std::uint64_t price_of_none(std::uint32_t t, std::uint64_t step) const {
        return slack_[t] < step ? 0 : prices_.none + prices_.slack * (slack_[t] >> narrow_ << widen_);
    }

    const timeline& line_;
    std::vector<std::uint64_t> floor_, slack_;
    std::vector<std::uint32_t> crossing_; ///< items that wait and live both at a moment and at the next
    bit_row edges_;                       ///< moments whose floor is not that of the one before
    bit_row gaps_;                        ///< moments that no item crosses to the next
    std::vector<std::uint32_t> cover_;    ///< scratch: changes of the number of items
    std::vector<valley> valleys_;         ///< by first moment
    bit_row waiting_;                     ///< items
    std::vector<std::uint64_t> offsets_;
    std::vector<std::uint32_t> changed_;   ///< moments lifted and items put, in turn
    std::vector<std::uint64_t> lifted_by_; ///< 0: an item was put
    prices prices_;
    std::uint64_t work_ = 0;
    int narrow_ = 0, widen_ = 0; ///< shifts that bring the capacity to `price_bits` bits
};

} // namespace echo::arena
