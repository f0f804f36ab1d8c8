// SPDX-License-Identifier: BSL-1.0
/// @file
/// `valleys`: what the exact search asks next of a partly filled arena, after raising what cannot lie any lower.
#pragma once

#include <echo/analysis/memory/arena/sections.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::arena {

/// A valley is a stretch of moments of one floor below the floors on either side. If there is a placement,
/// there is one in which everything is pushed down until it rests on a floor or on another item. There, what
/// begins below a valley's lower wall lies within it, so moments that none of the items which fit into the
/// valley covers are lifted to that wall, and of every other moment it can be asked which of them lies on its
/// floor, if any. `settle` lifts, and finds the moment at which that is cheapest to ask.
///
/// What was found of a valley is kept until the valley changes. O(n) memory. The timeline must outlive it. Bytes
/// throughout.
class valleys {
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
    enum class finding { dead, empty, open };

    explicit valleys(const timeline& line)
        : line_(line), cover_(line.times() + std::size_t{1}), found_(line.times()) {}

    /// Forgets what was found, for a search within another capacity or at other prices. O(n).
    void clear(std::uint64_t capacity, const prices& p) {
        prices_ = p;
        for (auto& v : found_) v.score = none;
        const auto width = static_cast<int>(std::bit_width(capacity));
        narrow_ = width > price_bits ? width - price_bits : 0;
        widen_ = width < price_bits ? price_bits - width : 0;
    }

    /// Lifts what must be lifted from `first` to `last` of `state`, a stretch that no waiting item leaves. Dead: no
    /// placement. Empty: no item waits there. Open: `asked` is the question of the least price, which is one with
    /// few answers; among equals, the first. O(stretches + items of the valleys that have changed since they were
    /// looked at).
    [[nodiscard]] finding settle(sections& state, std::uint32_t first, std::uint32_t last, question& asked) {
        std::uint64_t least = none, before = none;
        for (std::uint32_t a = first; a <= last;) {
            const auto next = state.next_edge(a);
            const std::uint32_t b = next <= last ? next - 1 : last;
            const std::uint64_t after = b < last ? state.floor(b + 1) : none;
            const std::uint64_t wall = before < after ? before : after;
            state.add_work(1);
            if (wall > state.floor(a)) {
                if (!is_known(state, a, b, wall)) {
                    const finding found = look(state, a, b, wall);
                    if (found == finding::dead) return found;
                    if (found == finding::empty) {
                        if (wall == none) return found;
                        if (a > first) { // the valley was lifted, wholly or in part
                            a = state.previous_edge(a);
                            if (a < first) a = first;
                        }
                        before = a > first ? state.floor(a - 1) : none;
                        continue;
                    }
                }
                if (found_[a].score < least) {
                    least = found_[a].score;
                    asked = {found_[a].moment, a, b, wall};
                }
            }
            before = state.floor(a);
            a = b + 1;
        }
        return finding::open;
    }

private:
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
    static constexpr int price_bits = 11;
    static constexpr std::uint64_t answer_price = 1024;
    struct valley { ///< what the last look at the valley that starts here has found
        std::uint32_t last = 0, moment = 0;
        std::uint64_t wall = 0, items = 0, score = none;
    };

    /// Where two sets of items share a number, a question is asked that is not the best: no harm done.
    bool is_known(const sections& state, std::uint32_t a, std::uint32_t b, std::uint64_t wall) const {
        const valley& v = found_[a];
        return v.score != none && v.last == b && v.wall == wall && v.items == state.items_between(a, b);
    }

    /// Open: the valley's record is up to date. Empty: no item fits, or moments that none covers were lifted.
    finding look(sections& state, std::uint32_t a, std::uint32_t b, std::uint64_t wall) {
        for (std::uint32_t t = a; t <= b + 1; ++t) cover_[t] = 0;
        std::uint64_t smallest = none;
        state.for_each_within(a, b, [&](std::uint32_t i) {
            ++cover_[line_[i].first];
            --cover_[line_[i].last + std::size_t{1}];
            smallest = line_[i].bytes < smallest ? line_[i].bytes : smallest;
        });
        valley& v = found_[a];
        v.score = none;
        if (smallest == none && wall == none) return finding::empty;
        state.add_work(b - a + 1);
        const std::uint64_t depth = wall - state.floor(a), step = smallest < depth ? smallest : depth;
        std::uint64_t least = none;
        std::uint32_t covering = 0;
        bool lifted = false;
        for (std::uint32_t t = a; t <= b; ++t) {
            covering += cover_[t];
            if (covering == 0) {
                if (wall == none) continue;
                if (!state.lift(t, wall)) return finding::dead;
                lifted = true;
                continue;
            }
            const std::uint64_t score = covering * answer_price + price_of_none(state.slack(t), step);
            if (score >= least) continue;
            least = score;
            v.moment = t;
        }
        if (lifted) return finding::empty;
        v.last = b;
        v.wall = wall;
        v.items = state.items_between(a, b);
        v.score = least;
        return finding::open;
    }

    std::uint64_t price_of_none(std::uint64_t slack, std::uint64_t step) const {
        return slack < step ? 0 : prices_.none + prices_.slack * (slack >> narrow_ << widen_);
    }

    const timeline& line_;
    std::vector<std::uint32_t> cover_; ///< scratch: changes of the number of items
    std::vector<valley> found_;        ///< by first moment
    prices prices_;
    int narrow_ = 0, widen_ = 0; ///< shifts that bring the capacity to `price_bits` bits
};

} // namespace echo::arena
