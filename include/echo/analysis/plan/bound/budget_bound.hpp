// SPDX-License-Identifier: BSL-1.0
/// @file
/// A certified lower bound on the peak of every schedule that runs nodes again for at most so long: what
/// lower_bound.hpp says of all schedules, said of those within a budget of time, heavy nodes run again or not.
///
/// For any price p ≥ 0 of a tick and any gradient b: a schedule that takes t ≤ T ticks again in all has
///   peak ≥ live bytes at b ≥ (live bytes at b + p × ticks again behind b) − p × T ≥ working set + minimum cut(p) − p × T.
/// The right side is concave in p and linear in pieces. Each cut tells a line that touches it: the bytes of the cut
/// plus p × (its ticks − T), never below it. Where two lines of which one rises and one falls meet, the next cut is
/// taken (Kelley 1960; in one dimension Newton's method from both sides).
#pragma once

#include <echo/analysis/plan/bound/held_cut.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace echo {

/// Computes bounds for one snapshot. Snapshot and candidates must outlive it.
template <class = void>
class budget_bound {
public:
    budget_bound(const budget_bound&) = delete; // it points into itself
    budget_bound& operator=(const budget_bound&) = delete;
    budget_bound(const snapshot& s, const candidates& c, bool encode)
        : rules_(s, c, encode, true), held_(rules_) {
        std::uint64_t bytes = 1;
        for (const auto v : s.values()) bytes = std::min(bytes + s[v].bytes, most_bytes);
        for (const auto n : s.nodes()) bytes = std::min(bytes + s[n].workspace, most_bytes);
        scale_ = std::int64_t{1} << std::max(0, 57 - static_cast<int>(std::bit_width(bytes)));
        dearest_ = scale_ * static_cast<capacity>(bytes);
        shorten(c.times, bytes);
    }

    /// No schedule that runs nodes again for at most `most` ticks has a peak below this. The cuts, at most so many, are
    /// taken at the given nodes, as far as they are gradients, those first that are named first: the price that one
    /// ends with is where the next begins, so that most take two or three cuts.
    std::uint64_t within(ticks most, std::span<const node_id> at, std::size_t cuts = 100) {
        most_ = (most >> shift_) + 1; // what is rounded down for the nodes is rounded up here
        best_ = 0;
        cuts_left_ = cuts;
        for (const auto n : at)
            if (rules_.is_gradient(n)) maximise(n);
        return static_cast<std::uint64_t>(best_ / scale_);
    }

private:
    using capacity = flow_network<>::capacity;
    __extension__ using wide = __int128;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 56;
    static constexpr int most_cuts = 10;

    /// What one cut tells: bytes × scale + price × (ticks − most) bounds from above what any price gives.
    struct line {
        capacity price;
        wide bytes;
        std::int64_t slope;
        wide at(capacity p) const { return bytes + wide{p} * slope; }
    };

    /// Times of at most 2^32 in all: prices then fit.
    void shorten(const run_times& times, std::uint64_t bytes) {
        shift_ = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(times.total))) - 32);
        ticks_.reserve(times.of_node.size());
        for (const auto t : times.of_node.values()) ticks_.push_back(static_cast<std::uint64_t>(t >> shift_));
        price_ = static_cast<capacity>(wide{scale_} * bytes / ((times.total >> shift_) + 1)) + 1;
    }

    line solve(node_id at, capacity price) {
        const capacity sum = held_(at, {.byte = scale_, .tick = price, .ticks = &ticks_});
        const auto again = static_cast<std::int64_t>(held_.ticks_again());
        const line found{price, sum - wide{price} * again, again - most_};
        --cuts_left_;
        if (const wide bound = found.at(price); bound > best_) {
            best_ = static_cast<capacity>(bound);
            best_price_ = price;
        }
        return found;
    }

    /// Raises the best bound to what some price at one gradient gives, but for a thousandth.
    void maximise(node_id at) {
        if (cuts_left_ == 0) return;
        const capacity before = best_;
        line now = solve(at, price_), rising = now, falling = now;
        bool rises = now.slope > 0, falls = !rises;
        for (int i = 1; i < most_cuts && cuts_left_ > 0; ++i) {
            capacity next = rises ? dearest_ : 1; // from one line, to the other end
            if (rises && falls) {
                next = meet(rising, falling);
                const wide hope = std::min(rising.at(next), falling.at(next));
                if (next <= rising.price || next >= falling.price || !is_better(hope)) break;
            } else if (rises ? now.price >= dearest_ : now.price <= 1 || !is_better(now.at(0))) {
                break;
            }
            now = solve(at, next);
            (now.slope > 0 ? rising : falling) = now;
            (now.slope > 0 ? rises : falls) = true;
        }
        if (best_ > before) price_ = best_price_;
    }
    bool is_better(wide sum) const { return sum > wide{best_} + (best_ >> 10); }
    static capacity meet(const line& rising, const line& falling) {
        return static_cast<capacity>((falling.bytes - rising.bytes) / (wide{rising.slope} - falling.slope));
    }

    schedule_rules<> rules_;
    held_cut<> held_;
    id_vector<node_id, std::uint64_t> ticks_;
    int shift_ = 0;
    capacity scale_ = 1;   ///< price of a byte
    capacity price_ = 1;   ///< of a tick, to begin with
    capacity dearest_ = 1; ///< more than any tick is worth
    capacity best_ = 0, best_price_ = 1;
    std::int64_t most_ = 0; ///< ticks, shortened
    std::size_t cuts_left_ = 0;
};

} // namespace echo
