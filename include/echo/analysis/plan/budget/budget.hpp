// SPDX-License-Identifier: BSL-1.0
/// @file
/// Budgets: the least recomputation under a limit on the peak, the least peak under a limit on recomputation, and the
/// front of one against the other. All three ask one search for plans at limits.
///
/// A limit is always searched from the same starts, whatever else is asked: the plan that recomputes nothing, the plans
/// that the caller knows, and cuts of `cut_candidates`. From each, `evict` forgets what is live at the peak, cheapest
/// time per byte first, until the limit is met, and `retain` keeps again what there is room for; so it does from the
/// plans that are known just above the limit, after a walk down to it in small steps. At last, `local_search` tries
/// runs one by one, as often as the size of the graph allows, and `exchange` swaps them. So a lower limit hardly ever
/// finds a cheaper plan, and limits on one ladder (`limit_ladder`) make it likely that who asks again, by another
/// figure, gets the same plan. Of small graphs the whole front is searched, point by point, whatever is asked.
#pragma once

#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/budget/cut_candidates.hpp>
#include <echo/analysis/plan/budget/descent.hpp>
#include <echo/analysis/plan/budget/known_plans.hpp>
#include <echo/analysis/plan/budget/led_plans.hpp>
#include <echo/analysis/plan/budget/limit_ladder.hpp>
#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/whole_front.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace echo {

/// As in `plan_options`.
struct budget_options {
    bool encode = true;
    /// Replays spent on local search at most.
    std::size_t local_search_replays = 4000;
    progress_callback progress{};
};

/// Searches for plans of one snapshot. Evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class budget_search {
public:
    budget_search(const budget_search&) = delete; // its parts point to each other
    budget_search& operator=(const budget_search&) = delete;
    budget_search(evaluator& evaluate, const anchor_finder& anchors, const budget_options& options)
        : evaluate_(evaluate), plans_(evaluate, options.progress),
          cuts_(evaluate, anchors, options.encode, plans_.effort().distances), down_(plans_, cuts_),
          front_(plans_, options.local_search_replays), encode_(options.encode) {
        plans_.start_from(decision::nothing(evaluate.graph()));
        ladder_ = limit_ladder(known_.all().front().footprint.peak_bytes);
    }

    /// A plan to start from as well: no search finds a worse one. Before the first search.
    void know(const evaluated_plan& plan) {
        if (!known_first_) known_first_ = plan.rated();
        plans_.start_from(plan.decided());
    }

    /// The cheapest plan found whose peak is at most `limit`; without one, the plan of the least peak found. A search
    /// at the limit and one at the rung above it, a third where none of the starts arrives, and what the starts cost.
    [[nodiscard]] evaluated_plan cheapest(std::uint64_t limit) {
        prepare();
        if (const rated_decision* t = known_.within(limit); t && t->recompute == 0)
            return evaluate_(t->decided);
        if (knows_all())
            front_.search(down_, least_bytes_);
        else {
            search_towards(limit);
            polish(limit);
        }
        if (!known_.within(limit)) front_.lower(least_bytes_);
        const rated_decision* found = known_.within(limit);
        return finished(found ? *found : known_.lowest(), limit);
    }

    /// The least peak found among plans that recompute for at most `most`. Some ten searches at rungs, most of which
    /// end early.
    [[nodiscard]] evaluated_plan lowest(ticks most) {
        prepare();
        if (knows_all()) {
            front_.search(down_, least_bytes_);
        } else {
            const std::size_t last = last_rung_within(most);
            search_rung(last);
            search_neighbours(last);
            polish_down(most);
        }
        const rated_decision* found = known_.within_time(most);
        return finished(*found, found->footprint.peak_bytes);
    }

    /// The front, from the plan that recomputes nothing down to the least peak found; peaks fall and times rise from
    /// point to point. At most `count` searches between them. Valid until the next search.
    std::span<const rated_decision> front(std::size_t count) {
        prepare();
        if (knows_all()) {
            front_.search(down_, least_bytes_);
        } else {
            down_.down_to(0, least_bytes_);
            const std::uint64_t high = known_.all().front().footprint.peak_bytes;
            const std::uint64_t low = known_.lowest().footprint.peak_bytes;
            for (std::size_t i = 1; i <= count; ++i)
                search_rung(ladder_.above(low + detail::mul_div(high - low, count - i, count)));
        }
        front_.lower(least_bytes_);
        return known_.all();
    }

    /// All plans found so far that no other beats: peaks fall, times rise. Until the next search.
    std::span<const rated_decision> known() const noexcept { return known_.all(); }

    /// Whether the graph is so small that all plans that might be of use should be known.
    bool knows_all() const noexcept { return plans_.effort().whole_front(); }
    /// Whether the size of the graph has made the search do less than it would for a small one.
    bool is_reduced() const noexcept { return plans_.effort().is_reduced(); }

private:
    /// Takes the cuts to start from.
    void prepare() {
        if (std::exchange(is_prepared_, true)) return;
        lower_bound bound(evaluate_.graph(), evaluate_.facts(), encode_, true);
        least_bytes_ = knows_all() ? bound({}, tuning::cuts_of_least) : bound.working_sets();
        // At prices from the dearest time on; cheaper time leads to plans that recompute more than any limit asks for.
        for (std::size_t row = 0; row < cuts_.rows(); ++row)
            for (std::size_t column = row % 2;
                 column < std::min(cuts_.columns(), tuning::dear_columns + row % 2); ++column)
                plans_.start_from(cuts_.plan_of(row, column));
        if (!knows_all()) plans_.keep_best_starts();
    }

    /// Searches once.
    void search_rung(std::size_t i) {
        if (ladder_.visit(i)) plans_.search(ladder_.limit(i));
    }

    /// Of larger graphs: the limit and what lies near it; what else there is to try where it is not met, or only by
    /// much recomputation.
    void search_towards(std::uint64_t limit) {
        const std::size_t near = ladder_.above(limit);
        if (limit >= least_bytes_) {
            search_rung(near); // what others found there may be as low
            const bool met = plans_.search(limit);
            if (!met && !is_reduced()) plans_.search(limit, true);
            search_neighbours(near);
            walk_to(limit, near);
        }
        if (!known_.within(limit)) {
            down_.down_to(limit, least_bytes_);
            if (!known_.within(limit) && !is_reduced())
                search_rung(last_rung_within(led_plans<>::no_limit / 4));
        }
        if (is_reduced()) return;
        lower_by_light_ops(limit);
        if (is_dear(limit)) search_where_dear(limit, near);
    }
    /// From a rung above the limit, which is the same for limits close to each other, down to the limit, rung by rung:
    /// plans known just above each are led to it, and swapped. What many small steps lead to, one long one misses.
    void walk_to(std::uint64_t limit, std::size_t near) {
        if (!is_reduced()) {
            std::size_t rung = near - near % tuning::rungs_walked;
            if (near - rung < tuning::rungs_walked / 2 && rung > 0) rung -= tuning::rungs_walked;
            for (; rung <= near; ++rung) {
                plans_.lead_from_above(ladder_.limit(rung), tuning::led_to_limit);
                plans_.exchange(ladder_.limit(rung));
            }
        }
        plans_.lead_from_above(limit, tuning::led_to_limit);
    }
    /// There searches end far from each other, and who pays so much may wait: limits below, what lies above by then,
    /// and the way down, from which much can be kept again.
    void search_where_dear(std::uint64_t limit, std::size_t near) {
        search_below(near, tuning::rungs_below_dear);
        plans_.lead_from_above(limit, tuning::led_to_limit);
        const rated_decision& deepest = down_.down_to(limit, least_bytes_);
        if (deepest.footprint.peak_bytes <= limit)
            plans_.add(plans_.retain()(evaluate_(deepest.decided), limit, tuning::retained_from_deepest));
    }

    /// Searches limits next to the rung, which are the same for all rungs next to it: what is found there may be
    /// cheaper.
    void search_neighbours(std::size_t i) {
        const std::size_t count = plans_.effort().neighbours;
        if (count == 0) return;
        down_.down_to(0, least_bytes_);
        if (i >= tuning::rungs_apart) search_rung((i / tuning::rungs_apart - 1) * tuning::rungs_apart);
        search_below(i, count);
    }
    void search_below(std::size_t i, std::size_t count) {
        for (std::size_t k = 1; k <= count; ++k)
            search_rung((i / tuning::rungs_apart + k) * tuning::rungs_apart);
    }
    /// Whether a limit is so tight that what is found recomputes for a quarter of the graph's time or more.
    bool is_dear(std::uint64_t limit) const {
        const rated_decision* found = known_.within(limit);
        return found && found->recompute >= evaluate_.facts().times.total / tuning::dear_part;
    }

    /// Whether a plan within `most` is known or found at the rung.
    bool reaches(std::size_t i, ticks most) {
        const std::uint64_t limit = ladder_.limit(i);
        plans_.tell();
        if (plans_.knows_within(limit, most)) return true;
        if (limit < least_bytes_ || ladder_.was_visited(i)) return false;
        return plans_.search_within(limit, most);
    }

    /// Where a limit is so tight that meeting it takes far more than the plan known first: that plan led down with
    /// light ops alone, a little at a time, as the strategy `min_cut` does it.
    void lower_by_light_ops(std::uint64_t limit) {
        if (!known_first_) return;
        const rated_decision* found = known_.within(limit);
        if (found && found->recompute / 2 <= known_first_->recompute) return;
        auto plan = plans_.evict().in_steps(evaluate_(known_first_->decided), limit);
        known_first_ = plan.rated();
        const std::uint64_t allowed = std::max(limit, plan.peak_bytes());
        plans_.add(plans_.retain()(std::move(plan), allowed, tuning::retained_after_lead));
    }

    /// Local search and swaps at the limit, and first at the rung below it, which other limits share.
    void polish(std::uint64_t limit) {
        const std::size_t replays = plans_.effort().polishing_replays();
        if (!known_.within(limit)) return;
        const std::uint64_t shared = ladder_.limit(ladder_.above(limit) + 1);
        front_.search_around(shared, replays);
        front_.search_around(limit, replays);
        plans_.exchange(shared);
        plans_.exchange(limit);
    }

    /// Searches and local search below the lowest plan within `most`, rung by rung, until `tuning::rungs_failed` of
    /// them in turn give nothing. Where one gives nothing, the plans next above are led to it.
    void polish_down(ticks most) {
        const std::size_t replays = plans_.effort().polishing_replays();
        if (replays == 0) return;
        const auto lowest = [&] { return known_.within_time(most)->footprint.peak_bytes; };
        std::size_t rung = ladder_.above(lowest()) + 1;
        for (std::size_t failed = 0; failed < tuning::rungs_failed && ladder_.limit(rung) >= least_bytes_;
             ++rung) {
            const std::uint64_t before = lowest(), limit = ladder_.limit(rung);
            search_rung(rung);
            front_.search_around(limit, replays);
            plans_.exchange(limit);
            if (lowest() == before) plans_.lead_from_above(limit, tuning::led_to_rung);
            failed = lowest() < before ? 0 : failed + 1;
            rung = std::max(rung, ladder_.above(lowest()));
        }
    }

    /// The lowest rung at which a plan within `most` is found, by doubling steps and then by halving.
    std::size_t last_rung_within(ticks most) {
        const auto lowest_known = [&] {
            return ladder_.above(known_.within_time(most)->footprint.peak_bytes);
        };
        std::size_t within = lowest_known(), beyond = within + 1;
        for (std::size_t step = tuning::first_rungs_down; ladder_.limit(within) > 0 && reaches(beyond, most);
             step *= 2) {
            within = std::max(beyond, lowest_known());
            beyond = within + step;
        }
        while (within + 1 < beyond) { // a plan found on the way may be lower than what `beyond` was missed by
            const std::size_t middle = within + (beyond - within) / 2;
            if (reaches(middle, most))
                within = std::max(middle, lowest_known());
            else
                beyond = middle;
        }
        return within;
    }

    /// The same plan, or one with less recomputation that is as low as `limit`.
    evaluated_plan finished(const rated_decision& found, std::uint64_t limit) {
        const std::uint64_t allowed = std::max(limit, found.footprint.peak_bytes);
        return plans_.retain()(evaluate_(found.decided), allowed, tuning::retained_at_end);
    }

    evaluator& evaluate_;
    led_plans<> plans_;
    const known_plans& known_ = plans_.known();
    cut_candidates<> cuts_;
    descent<> down_;
    whole_front<> front_;
    bool encode_;
    std::uint64_t least_bytes_ = 0; // no plan has a peak below it
    bool is_prepared_ = false;
    limit_ladder ladder_{0};
    std::optional<rated_decision> known_first_; // led on by light ops
};

} // namespace echo
