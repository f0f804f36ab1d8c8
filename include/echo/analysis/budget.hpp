// SPDX-License-Identifier: BSL-1.0
/// @file
/// Budgets: the least recomputation under a limit on the peak, the least peak under a limit on recomputation, and the
/// front of one against the other. All three ask one search for plans at limits.
///
/// A limit is always searched from the same starts, whatever else is asked: the plan that recomputes nothing, the plans
/// that the caller knows, and cuts of `cut_grid`. From each, `relieve` forgets what is live at the peak, cheapest time
/// per byte first, until the limit is met, and `spare` keeps again what there is room for; in small graphs, runs are
/// also exchanged one by one. So a lower limit hardly ever finds a cheaper plan, and limits on one ladder (`limit_ladder`) make
/// it likely that who asks again, by another figure, gets the same plan. Of small graphs the whole front is searched,
/// point by point, whatever is asked.
#pragma once

#include <echo/analysis/cut_grid.hpp>
#include <echo/analysis/exchange.hpp>
#include <echo/analysis/known_plans.hpp>
#include <echo/analysis/limit_ladder.hpp>
#include <echo/analysis/lower_bound.hpp>
#include <echo/analysis/progress.hpp>
#include <echo/analysis/relieve.hpp>
#include <echo/analysis/search_effort.hpp>
#include <echo/analysis/spare.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// As in `plan_options`.
struct budget_options {
    bool encode = true;
    /// Replays spent on exchanging runs one by one at most.
    std::size_t exchange_replays = 4000;
    progress_callback progress{};
};

/// Searches for plans of one snapshot. Evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class budget_search {
public:
    budget_search(evaluator& evaluate, const anchor_finder& anchors, const budget_options& options)
        : evaluate_(evaluate), s_(evaluate.graph()), effort_(search_effort::of(s_)),
          grid_(evaluate, anchors, options.encode, effort_.distances), relieve_(evaluate), spare_(evaluate),
          exchange_(evaluate, relieve_, spare_), options_(options) {
        start_from({.decided = choice::nothing(s_)});
        ladder_ = limit_ladder(known_.all().front().footprint.peak_bytes);
    }

    /// A plan to start from as well: no search finds a worse one. Before the first search.
    void know(trial t) {
        if (!known_first_) known_first_ = t;
        start_from(std::move(t));
    }

    /// The cheapest plan found whose peak is at most `limit`; without one, the plan of the least peak found. A search at
    /// the limit and one at the rung above it, and what the starts cost.
    trial cheapest(std::uint64_t limit) {
        prepare();
        if (const trial* t = known_.within(limit); t && t->recompute == 0) return *t;
        if (effort_.whole_front())
            search_whole_front();
        else
            search_towards(limit);
        if (!known_.within(limit)) exchange_lowest();
        const trial* found = known_.within(limit);
        return finished(found ? *found : known_.lowest(), limit);
    }

    /// The least peak found among plans that recompute for at most `most`. Some ten searches at rungs, most of which end
    /// early.
    trial lowest(ticks most) {
        prepare();
        if (effort_.whole_front()) {
            search_whole_front();
        } else {
            const std::size_t last = last_rung_within(most);
            search_rung(last);
            search_neighbours(last);
        }
        const trial* found = known_.within_time(most);
        return finished(*found, found->footprint.peak_bytes);
    }

    /// The front, from the plan that recomputes nothing down to the least peak found; peaks fall and times rise from
    /// point to point. At most `count` searches between them.
    std::vector<trial> front(std::size_t count) {
        prepare();
        if (effort_.whole_front()) {
            search_whole_front();
        } else {
            descend(0);
            const std::uint64_t high = known_.all().front().footprint.peak_bytes;
            const std::uint64_t low = known_.lowest().footprint.peak_bytes;
            for (std::size_t i = 1; i <= count; ++i)
                search_rung(ladder_.above(low + detail::mul_div(high - low, count - i, count)));
        }
        exchange_lowest();
        return {known_.all().begin(), known_.all().end()};
    }

    /// All plans found so far that no other beats: peaks fall, times rise. Until the next search.
    std::span<const trial> known() const noexcept { return known_.all(); }

    /// Whether the graph is so small that all plans that might be of use should be known.
    bool knows_all() const noexcept { return effort_.whole_front(); }
    /// Whether the size of the graph has made the search do less than it would for a small one.
    bool is_reduced() const noexcept { return effort_.is_reduced(); }

private:
    static constexpr std::size_t apart = 3; // rungs, of limits that are neighbours
    static constexpr ticks no_limit = std::numeric_limits<ticks>::max();

    void start_from(trial t) {
        t.decided.heavy = true;
        evaluate_(t);
        for (const trial& other : starts_)
            if (other.footprint.peak_bytes == t.footprint.peak_bytes && other.recompute == t.recompute)
                return;
        known_.add(t);
        starts_.push_back(std::move(t));
    }

    /// Takes the cuts to start from.
    void prepare() {
        if (std::exchange(is_prepared_, true)) return;
        lower_bound bound(s_, evaluate_.facts(), options_.encode, true);
        least_bytes_ = effort_.whole_front() ? bound({}, 4) : bound.working_sets();
        // At prices from the dearest time on; cheaper time leads to plans that recompute more than any limit asks for.
        for (std::size_t row = 0; row < grid_.rows(); ++row)
            for (std::size_t column = row % 2; column < std::min(grid_.columns(), 3 + row % 2); ++column)
                start_from(grid_.plan_of(row, column));
        if (effort_.whole_front()) return;
        // Starts that others beat seldom lead to what those do not.
        const auto all = known_.all();
        const std::size_t count = std::min(all.size(), effort_.starts);
        starts_.clear();
        for (std::size_t i = 0; i < count; ++i) starts_.push_back(all[i * all.size() / count]);
    }

    /// Searches once.
    void search_rung(std::size_t i) {
        if (ladder_.visit(i)) search(ladder_.limit(i));
    }

    /// Of larger graphs: the limit and what lies near it; what else there is to try where it is not met, or only by much
    /// recomputation.
    void search_towards(std::uint64_t limit) {
        const std::size_t near = ladder_.above(limit);
        if (limit >= least_bytes_) {
            search_rung(near); // what others found there may be as low
            search(limit);
            search_neighbours(near);
        }
        if (!known_.within(limit)) {
            descend(limit);
            if (!known_.within(limit) && !is_reduced()) search_rung(last_rung_within(no_limit / 4));
        }
        if (is_reduced()) return;
        lower_by_light_ops(limit);
        if (takes_a_quarter(limit)) search_below(near, 5);
    }

    /// Searches limits next to the rung, which are the same for all rungs next to it: what is found there may be cheaper.
    void search_neighbours(std::size_t i) {
        if (effort_.neighbours == 0) return;
        descend(0);
        if (i >= apart) search_rung((i / apart - 1) * apart);
        search_below(i, effort_.neighbours);
    }
    void search_below(std::size_t i, std::size_t count) {
        for (std::size_t k = 1; k <= count; ++k) search_rung((i / apart + k) * apart);
    }
    /// Whether a limit is so tight that what is found recomputes for a quarter of the graph's time or more. There, searches
    /// end far from each other, and who pays so much may wait.
    bool takes_a_quarter(std::uint64_t limit) const {
        const trial* found = known_.within(limit);
        return found && found->recompute >= evaluate_.facts().times.total / 4;
    }

    /// Whether a plan within `most` is found at the rung. From the start that led to the last such plan first, and no
    /// further than to the first of them.
    bool reaches(std::size_t i, ticks most) {
        const auto is_known = [&] {
            const trial* t = known_.within(ladder_.limit(i));
            return t && t->recompute <= most;
        };
        tell();
        if (is_known()) return true;
        if (ladder_.limit(i) < least_bytes_ || ladder_.was_visited(i)) return false;
        for (std::size_t k = 0; k < starts_.size() && !is_known(); ++k) {
            const std::size_t which = k == 0 ? favourite_ : k <= favourite_ ? k - 1 : k;
            lead(starts_[which], ladder_.limit(i), 2 * most);
            if (is_known()) favourite_ = which;
        }
        return is_known();
    }

    /// Leads a start to the limit, unless that takes more than `most`; what it finds is known then.
    trial lead(const trial& start, std::uint64_t limit, ticks most) {
        trial t = start;
        evaluate_(t);
        if (relieve_(t, limit,
                     {.rounds = effort_.whole_front() ? 30U : 8U,
                      .most = most,
                      .everywhere = effort_.whole_front()}))
            spare_(t, limit, 3);
        known_.add(t);
        return t;
    }

    /// Leads every start to the limit.
    void search(std::uint64_t limit) {
        tell();
        ticks cheapest = no_limit / 2;
        for (const trial& start : starts_) {
            const trial t = lead(start, limit, cheapest + cheapest / 2);
            if (t.footprint.peak_bytes > limit) continue;
            cheapest = std::min(cheapest, t.recompute);
        }
    }

    /// Of small graphs, once: limits evenly from what costs nothing down to the lowest plan, and then what each plan of the
    /// front makes of the peaks next to its own.
    void search_whole_front() {
        if (std::exchange(is_searched_, true)) return;
        descend(0);
        if (known_.all().size() == 1) return; // nothing that recomputes is lower
        exchange_lowest();
        const std::uint64_t high = known_.all().front().footprint.peak_bytes;
        const std::uint64_t low = known_.lowest().footprint.peak_bytes;
        const std::uint64_t step = (high - low) / effort_.front_points + 1;
        const std::size_t replays =
            std::min(options_.exchange_replays / effort_.front_points, effort_.most_exchanges());
        std::vector<trial> paths = starts_;
        for (std::uint64_t limit = high; limit > low;) {
            limit = std::max(low, limit - std::min(limit, step));
            tell();
            go_on(paths, limit);
            exchange_at(limit, replays);
        }
        for (int i = 0; i < 3; ++i) learn_from_neighbours(replays);
    }

    /// Exchanges runs of the cheapest plan known at the limit.
    void exchange_at(std::uint64_t limit, std::size_t replays) {
        const trial* found = known_.within(limit);
        if (!found || replays == 0 || found->recompute == 0) return;
        trial t = *found;
        exchange_(t, limit, replays);
        known_.add(std::move(t));
    }

    /// Just below the peak of each plan of the front: that plan led down, and the next ones led up. Each pair once.
    void learn_from_neighbours(std::size_t replays) {
        const std::vector<trial> points(known_.all().begin(), known_.all().end());
        for (std::size_t i = 0; i + 1 < points.size(); ++i) {
            const std::uint64_t limit = points[i].footprint.peak_bytes - 1;
            bool is_new = false;
            for (std::size_t k = i;
                 k < std::min(i + 4, points.size()) && learned_.size() < effort_.most_leads(); ++k)
                if (learned_.insert({limit, points[k].recompute}).second) {
                    lead(points[k], limit, no_limit);
                    is_new = true;
                }
            if (is_new) exchange_at(limit, replays);
        }
    }

    /// Leads each path on to the limit, and of the smallest graphs all starts anew.
    void go_on(std::vector<trial>& paths, std::uint64_t limit) {
        if (effort_.size <= 160) search(limit);
        for (trial& path : paths) {
            evaluate_(path);
            if (!relieve_(path, limit, {.everywhere = true})) continue;
            trial t = path;
            spare_(t, limit, 3);
            known_.add(std::move(t));
        }
    }

    /// Lowers the peak from the lowest plan known to `limit`, or as far as it goes. Always on one way, which ends sooner
    /// or later.
    void descend(std::uint64_t limit) {
        if (!deepest_) deepest_ = lowest_led_down();
        while (deepest_->footprint.peak_bytes > std::max(limit, least_bytes_) && step_parts_ <= 256) {
            trial next = *deepest_;
            const std::uint64_t peak = next.footprint.peak_bytes;
            evaluate_(next);
            if (relieve_(next, peak - peak / step_parts_ - 1, {.rounds = 20, .patient = true}) ||
                next.footprint.peak_bytes < peak) {
                known_.add(next);
                deepest_ = std::move(next);
            } else {
                step_parts_ *= 4;
            }
        }
    }

    /// Where a limit is so tight that meeting it takes far more than the plan known first: that plan led down with
    /// light ops alone, a little at a time, as the strategy `min_cut` does it.
    void lower_by_light_ops(std::uint64_t limit) {
        if (!known_first_) return;
        const trial* found = known_.within(limit);
        if (found && found->recompute / 2 <= known_first_->recompute) return;
        relieve_.in_steps(*known_first_, limit);
        trial t = *known_first_;
        evaluate_(t);
        spare_(t, std::max(limit, t.footprint.peak_bytes), 3);
        known_.add(std::move(t));
    }

    /// Lowers the lowest plan of a small graph by exchanges, once.
    void exchange_lowest() {
        if (std::exchange(exchanged_, true)) return;
        trial t = known_.lowest();
        exchange_.lower(t, least_bytes_, std::min(options_.exchange_replays, effort_.most_exchanges()));
        known_.add(std::move(t));
    }

    /// The lowest of the plans to which the lowest starts lead, and cuts at prices too cheap for other limits.
    trial lowest_led_down() {
        std::optional<trial> lowest;
        const auto lead_down = [&](trial t) {
            evaluate_(t);
            relieve_(t, 0, {.patient = true, .everywhere = effort_.whole_front()});
            known_.add(t);
            if (!lowest || t.better_than(*lowest)) lowest = std::move(t);
        };
        ranking by_peak;
        for (std::uint32_t i = 0; i < starts_.size(); ++i) by_peak.add(i, starts_[i].footprint.peak_bytes);
        const auto order = by_peak.descending();
        const std::size_t count = is_reduced() ? 4 : order.size();
        for (std::size_t i = order.size(); i-- > 0 && order.size() - i <= count;)
            lead_down(starts_[order[i]]);
        if (!is_reduced())
            for (std::size_t row = 0; row < grid_.rows(); ++row)
                for (std::size_t column = 5; column < grid_.columns(); column += 2)
                    lead_down(grid_.plan_of(row, column));
        return *std::move(lowest);
    }

    /// The lowest rung at which a plan within `most` is found, by doubling steps and then by halving.
    std::size_t last_rung_within(ticks most) {
        std::size_t within = ladder_.above(known_.within_time(most)->footprint.peak_bytes),
                    beyond = within + 1;
        for (std::size_t step = 8; ladder_.limit(within) > 0 && reaches(beyond, most); step *= 2) {
            within = std::max(beyond, ladder_.above(known_.within_time(most)->footprint.peak_bytes));
            beyond = within + step;
        }
        while (within + 1 < beyond) { // a plan found on the way may be lower than what `beyond` was missed by
            const std::size_t middle = within + (beyond - within) / 2;
            if (reaches(middle, most))
                within = std::max(middle, ladder_.above(known_.within_time(most)->footprint.peak_bytes));
            else
                beyond = middle;
        }
        return within;
    }

    /// The same plan, or one with less recomputation that is as low as `limit`.
    trial finished(trial t, std::uint64_t limit) {
        evaluate_(t);
        spare_(t, std::max(limit, t.footprint.peak_bytes), 4);
        return t;
    }

    /// How many searches there will be is not known, so each takes an equal part of what is left.
    void tell() {
        done_ += (1 - done_) / 16;
        if (options_.progress) options_.progress(done_);
    }

    evaluator& evaluate_;
    const snapshot& s_;
    search_effort effort_;
    cut_grid<> grid_;
    reliever<> relieve_;
    sparer<> spare_;
    exchanger<> exchange_;
    budget_options options_;
    std::uint64_t least_bytes_ = 0; // no plan has a peak below it
    std::size_t favourite_ = 0;     // of the starts: led to the last plan within a time
    std::vector<trial> starts_;
    bool is_prepared_ = false, is_searched_ = false; // the latter: the whole front
    double done_ = 0;                                ///< of the progress
    known_plans known_;
    limit_ladder ladder_{0};
    std::set<std::pair<std::uint64_t, ticks>> learned_; // limits, and what the plan led there costs
    std::optional<trial> known_first_;                  // led on by light ops
    std::optional<trial> deepest_;                      // of the way down
    std::uint64_t step_parts_ = 16;
    bool exchanged_ = false;
};

} // namespace echo
