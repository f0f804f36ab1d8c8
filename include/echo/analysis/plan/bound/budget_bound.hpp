// SPDX-License-Identifier: BSL-1.0
/// @file
/// Certified lower bounds for plans within a budget, heavy nodes run again or not: on the peak of every schedule that
/// runs nodes again for at most so long, and on the time that every schedule of at most such a peak runs nodes again.
///
/// For any price p ≥ 0 of a tick and any gradient b: a schedule of that peak which takes t ticks again in all has
///   peak + p × t ≥ live bytes at b + p × ticks again behind b ≥ working set + minimum cut(p).
/// So peak ≥ working set + minimum cut(p) − p × T where t ≤ T, and t ≥ (working set + minimum cut(p) − P) / p where
/// peak ≤ P. As p grows, both rise up to some price and fall from there on. Each cut tells a line, the bytes of the cut
/// plus p × its ticks, which lies nowhere below the minimum: a cut of more than T ticks, or of less than P bytes, says
/// that the best price is higher, any other that it is lower. Where two lines that say so meet, the next cut is taken
/// (Kelley 1960; in one dimension Newton's method from both sides).
#pragma once

#include <echo/analysis/plan/bound/held_cut.hpp>
#include <echo/function_ref.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::detail {

/// Computes bounds for one snapshot. Snapshot and candidates must outlive it.
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
        for (const auto n : s.nodes())
            if (const ticks t = c.times.of_node[n];
                t > 0 && rules_.may_rerun(n) && !rules_.may_run_inside_others(n))
                shortest_ = std::min(shortest_, t);
    }

    /// No schedule that runs nodes again for at most `most` ticks has a peak below this. The cuts, at most so many, are
    /// taken at the given nodes, as far as they are gradients, the most hopeful ones named first: the price that one
    /// ends with is where the next begins, so that most take two or three cuts.
    /// `away`: of a gradient, bytes that may be elsewhere while it runs.
    std::uint64_t within(ticks most, std::span<const node_id> at, std::size_t cuts = 100,
                         function_ref<std::uint64_t(node_id)> away = {}) {
        // No run that is counted is as short as that.
        if (most < shortest_) most = 0;
        // What is rounded down for the nodes is rounded up here.
        within_time goal{.most = (most >> shift_) + 1, .scale = scale_, .away = away};
        return static_cast<std::uint64_t>(highest(goal, at, cuts) / scale_);
    }
    /// No schedule whose peak is at most `peak` bytes runs nodes again for less than this many ticks; where none has
    /// such a peak, any number. The cuts are as for `within`.
    ticks least_time(std::uint64_t peak, std::span<const node_id> at, std::size_t cuts = 100) {
        const wide limit = wide{scale_} * std::min(peak, most_bytes);
        const auto found = static_cast<std::uint64_t>(highest(within_peak{limit}, at, cuts));
        if (found == 0) return 0;
        constexpr auto longest = static_cast<std::uint64_t>(std::numeric_limits<ticks>::max());
        return std::max(shortest_, static_cast<ticks>(std::min(found, longest >> shift_) << shift_));
    }

private:
    using capacity = flow_network::capacity;
    __extension__ using wide = __int128;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 56;
    static constexpr int most_cuts = 10;
    static constexpr int most_in_vain = 12; // what comes first has nearly always the most to give

    /// What one cut tells: bytes × scale + price × ticks bounds from above what the cut at any price counts.
    struct line {
        capacity price;
        wide bytes;
        std::int64_t ticks;
    };
    /// Bytes × scale that a plan of at most `most` ticks needs.
    struct within_time {
        std::int64_t most;
        capacity scale;
        function_ref<std::uint64_t(node_id)> away;
        wide elsewhere = 0; ///< bytes × scale, while the gradient runs that is looked at
        void look_at(node_id n) {
            if (away) elsewhere = wide{scale} * std::min(away(n), most_bytes);
        }
        bool is_higher_beyond(const line& l) const { return l.ticks > most; }
        wide at(const line& l, capacity p) const { return l.bytes - elsewhere + wide{p} * (l.ticks - most); }
        wide no_higher_below(const line& l) const { return at(l, 0); }
    };
    /// Ticks that a plan of at most `peak` bytes × scale needs.
    struct within_peak {
        wide peak;
        void look_at(node_id) const {}
        bool is_higher_beyond(const line& l) const { return l.bytes < peak; }
        wide at(const line& l, capacity p) const {
            const wide over = l.bytes - peak; // rounded up: a part of a tick is none
            return l.ticks + (over > 0 ? (over + p - 1) / p : over / p);
        }
        wide no_higher_below(const line& l) const { return at(l, 1); }
    };

    /// Times of at most 2^32 in all: prices then fit.
    void shorten(const run_times& times, std::uint64_t bytes) {
        shift_ = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(times.total))) - 32);
        ticks_.reserve(times.of_node.size());
        for (const auto t : times.of_node.values()) ticks_.push_back(static_cast<std::uint64_t>(t >> shift_));
        price_ = static_cast<capacity>(wide{scale_} * bytes / ((times.total >> shift_) + 1)) + 1;
    }

    /// The highest that some price at one of the gradients that are looked at gives, but for a thousandth; at least 0.
    /// Where many in turn give nothing more, the others are not looked at.
    template <class Goal>
    wide highest(Goal goal, std::span<const node_id> at, std::size_t cuts) {
        best_ = 0;
        cuts_left_ = cuts;
        int in_vain = 0;
        for (const auto n : at) {
            if (!rules_.is_gradient(n)) continue;
            const wide before = best_;
            goal.look_at(n);
            maximise(goal, n);
            in_vain = best_ > before ? 0 : in_vain + 1;
            if (in_vain == most_in_vain) break;
        }
        return best_;
    }

    template <class Goal>
    line solve(const Goal& goal, node_id at, capacity price) {
        const capacity sum = held_(at, {.byte = scale_, .tick = price, .ticks = &ticks_});
        const auto again = static_cast<std::int64_t>(held_.ticks_again());
        const line found{price, sum - wide{price} * again, again};
        --cuts_left_;
        if (const wide bound = goal.at(found, price); bound > best_) {
            best_ = bound;
            best_price_ = price;
        }
        return found;
    }

    /// Raises the best bound to what some price at one gradient gives, but for a thousandth.
    template <class Goal>
    void maximise(const Goal& goal, node_id at) {
        if (cuts_left_ == 0) return;
        const wide before = best_;
        line now = solve(goal, at, price_), low = now, high = now;
        bool has_low = goal.is_higher_beyond(now), has_high = !has_low;
        for (int i = 1; i < most_cuts && cuts_left_ > 0; ++i) {
            const bool beyond = goal.is_higher_beyond(now);
            capacity next = beyond ? dearest_ : 1; // from one line, to the other end
            if (has_low && has_high) {
                if (low.ticks <= high.ticks) break;
                next = meet(low, high);
                const wide hope = std::min(goal.at(low, next), goal.at(high, next));
                if (next <= low.price || next >= high.price || !is_better(hope)) break;
            } else if (beyond ? now.price >= dearest_
                              : now.price <= 1 || !is_better(goal.no_higher_below(now))) {
                break;
            }
            now = solve(goal, at, next);
            (goal.is_higher_beyond(now) ? low : high) = now;
            (goal.is_higher_beyond(now) ? has_low : has_high) = true;
        }
        if (best_ > before) price_ = best_price_;
    }
    bool is_better(wide bound) const { return bound > best_ + (best_ >> 10); }
    static capacity meet(const line& low, const line& high) {
        return static_cast<capacity>((high.bytes - low.bytes) / (wide{low.ticks} - high.ticks));
    }

    schedule_rules rules_;
    held_cut held_;
    id_vector<node_id, std::uint64_t> ticks_;
    int shift_ = 0;
    ticks shortest_ =
        std::numeric_limits<ticks>::max(); ///< of the runs that take time: one at least where any does
    capacity scale_ = 1;                   ///< price of a byte
    capacity price_ = 1;                   ///< of a tick, to begin with
    capacity dearest_ = 1;                 ///< more than any tick is worth
    wide best_ = 0;                        ///< of the goal
    capacity best_price_ = 1;
    std::size_t cuts_left_ = 0;
};

} // namespace echo::detail
