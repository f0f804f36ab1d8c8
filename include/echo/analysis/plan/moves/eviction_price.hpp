// SPDX-License-Identifier: BSL-1.0
/// @file
/// `eviction_pricer`: what giving up an idle copy costs, together with what its maker reads where that pays. Only bytes
/// at the peak count: once it has moved, so has the price.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/eviction_finder.hpp>
#include <echo/analysis/plan/moves/eviction_inputs.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace echo::detail {

/// How much of a load lies above a limit, summed over steps.
class excess_sums {
public:
    /// O(steps).
    void read(std::span<const std::uint64_t> load, std::uint64_t peak_bytes, std::uint64_t limit) {
        count_.assign(load.size() + 1, 0);
        sum_.assign(load.size() + 1, 0);
        const int bits = static_cast<int>(std::bit_width(peak_bytes) + std::bit_width(load.size()));
        shift_ = std::max(0, bits - 62);
        for (std::size_t i = 0; i < load.size(); ++i) {
            const std::uint64_t over = load[i] > limit ? load[i] - limit : 0;
            count_[i + 1] = count_[i] + (over > 0);
            sum_[i + 1] = sum_[i] + (over >> shift_);
        }
    }
    /// How much of it goes if so many bytes go in a gap: a plan must come down everywhere. O(1).
    std::uint64_t relieved(const evicted_copy& gap, std::int64_t freed) const {
        const auto bytes = static_cast<std::uint64_t>(freed);
        const std::size_t first = gap.from.index() + 1, last = gap.to.index();
        const std::uint64_t most = (bytes >> shift_) * (count_[last] - count_[first]);
        return std::max<std::uint64_t>(1, std::min(most, sum_[last] - sum_[first]));
    }
    /// The most that this can be. O(1).
    std::uint64_t most_relieved(const evicted_copy& gap) const {
        const std::size_t first = gap.from.index() + 1, last = gap.to.index();
        return std::max<std::uint64_t>(1, sum_[last] - sum_[first]);
    }

private:
    std::vector<std::uint32_t> count_; ///< before each step: steps above the limit
    std::vector<std::uint64_t> sum_;   ///< and by how much, in 2^shift_ bytes
    int shift_ = 0;
};

/// The cheapest way to free a copy, so far.
struct cheapest_eviction {
    /// In ticks per byte, as `tuning::price_parts` counts them.
    std::optional<std::uint64_t> price{};
    std::size_t count = 0;  ///< of copies; 0 where there is none yet
    std::int64_t freed = 0; ///< bytes

    /// Whether so much time for so many bytes has a lower price. O(1).
    bool is_above(ticks time, std::uint64_t bytes) const {
        return !price || detail::product(time, tuning::price_parts) < detail::product(*price, bytes);
    }
};

/// Scratch memory is kept between uses.
class eviction_pricer {
public:
    /// `grow`: an eviction may give up other copies besides.
    explicit eviction_pricer(bool grow = true) : grows_(grow) {}
    /// Adds to `list` the cheapest way to free idle copy number `which`, if there is one, and returns its price in
    /// ticks per byte, as `tuning::price_parts` counts them. What its maker reads must be there at the next use: still
    /// live then, or kept over the peak, or made again as well. Of what would be kept, the largest is made again
    /// instead, one after the other; and what else can then be made from that is forgotten too. `excess`: bytes above
    /// the limit.
    std::optional<std::uint64_t> operator()(const eviction_view& view, idle_copies& idle,
                                            const excess_sums& sums, std::size_t which, std::int64_t excess,
                                            eviction_list& list) {
        const evicted_copy& one = idle.all[which];
        const std::uint64_t most = sums.most_relieved(one);
        const group at{{view, idle, one.to}, sums, list, list.copies.size(), excess, most};
        cheapest_eviction best;
        grow(at, one, best);
        list.copies.resize(at.first + best.count);
        const auto grown = list.copies.begin() + static_cast<std::ptrdiff_t>(at.first);
        if (best.count == 0 ||
            std::any_of(grown, list.copies.end(), [&](auto& e) { return view.is_decided(e); })) {
            list.copies.resize(at.first);
            return std::nullopt;
        }
        list.all.push_back({at.first, best.count, best.freed});
        return best.price;
    }

private:
    /// The eviction that grows: its copies are those of the list from `first` on, for the next reader of the first one.
    struct group : rerun_place {
        const excess_sums& sums;
        eviction_list& list;
        std::size_t first;
        std::int64_t excess;
        std::uint64_t most; ///< that it can relieve, however it grows
    };

    /// From one copy on, as long as it can be cheaper than `best`: it takes ever longer.
    void grow(const group& at, const evicted_copy& one, cheapest_eviction& best) {
        inputs_.begin(at.view.s.node_count());
        bytes_ = 0;
        time_ = 0;
        add_copy(at, one, true);
        for (std::size_t size = 0; size <= tuning::most_copies_grown && best.is_above(time_, at.most);
             ++size) {
            compare(at, best);
            if (!grows_) break;
            const std::size_t largest = largest_kept(at);
            if (largest == inputs_.kept().size()) break;
            const evicted_copy also = inputs_.take(at.view, largest);
            add_copy(at, also, false);
            add_siblings(at, also.node);
        }
        inputs_.end(at.view, at.list, at.first);
    }
    /// Bytes that it frees so far.
    std::int64_t freed() const { return bytes_ - inputs_.kept_bytes(); }

    void compare(const group& at, cheapest_eviction& best) const {
        if (freed() <= 0) return;
        const std::uint64_t relieved =
            at.sums.relieved(at.list.copies[at.first], std::min(freed(), at.excess));
        if (!best.is_above(time_, relieved)) return;
        best = {detail::mul_div(static_cast<std::uint64_t>(time_), tuning::price_parts, relieved),
                at.list.copies.size() - at.first, freed()};
    }

    void give_up(const group& at, const evicted_copy& e) {
        at.list.copies.push_back(e);
        inputs_.give_up(e.node);
    }
    /// `frees`: its storage is live at the peak.
    void add_copy(const group& at, const evicted_copy& e, bool frees) {
        give_up(at, e);
        if (frees) bytes_ += at.view.bytes_of(e.storage);
        time_ += at.view.cost(e) + inputs_.demand(at, e.node, tuning::most_demand_depth);
    }

    /// Of what would be kept and could be forgotten instead; the number of what would be kept if there is none.
    std::size_t largest_kept(const group& at) const {
        const auto& kept = inputs_.kept();
        std::size_t largest = kept.size();
        for (std::size_t i = 0; i < kept.size(); ++i) {
            const evicted_copy& e = kept[i];
            if (at.view.home(e.from) >= at.view.home(at.to) || !at.view.may_run_later(e)) continue;
            if (largest == kept.size() ||
                at.view.bytes_of(e.storage) > at.view.bytes_of(kept[largest].storage))
                largest = i;
        }
        return largest;
    }

    /// Adds idle copies that are made from what `source` makes and nothing that is not there, directly or through
    /// one another, unless they cost more per byte than the rest. Of many readers only the first are looked at: what
    /// every step of a long sequence reads has as many as there are steps that ask.
    void add_siblings(const group& at, node_id source) {
        const snapshot& s = at.view.s;
        sources_.assign(1, source);
        std::size_t readers = 0;
        for (std::size_t i = 0; i < sources_.size(); ++i)
            for (const auto v : s.outputs(sources_[i]))
                for (const use& u : s.uses(v)) {
                    if (++readers > tuning::most_readers) return;
                    if (s.phase_of(u.reader) != phase::forward) continue;
                    if (s[u.reader].kind == op_kind::view) sources_.push_back(u.reader);
                    const std::uint32_t number = at.idle.of[u.reader];
                    if (number == idle_copies::nobody || inputs_.is_given_up(u.reader)) continue;
                    if (freed() >= at.excess) return;
                    if (add_sibling(at, at.idle.all[number])) sources_.push_back(u.reader);
                }
    }
    bool add_sibling(const group& at, const evicted_copy& e) {
        const ticks own = at.view.cost(e);
        const std::int64_t share = at.view.bytes_of(e.storage);
        if (freed() > 0 && detail::product(own, freed()) > detail::product(time_, share)) return false;
        if (!inputs_.demands_nothing(at, e.node, tuning::most_demand_depth)) return false;
        give_up(at, e);
        bytes_ += share;
        time_ += own;
        return true;
    }

    bool grows_;
    std::int64_t bytes_ = 0; // of the eviction that grows: live at the peak
    ticks time_ = 0;         // and what making all of it again takes
    eviction_inputs inputs_;
    std::vector<node_id> sources_;
};

} // namespace echo::detail
