// SPDX-License-Identifier: BSL-1.0
/// @file
/// `rung_search`: what all searches under a budget share: the plans that they know, the starts that every one of them
/// begins with, and the ladder of limits at which each searches once.
#pragma once

#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/budget/budget_options.hpp>
#include <echo/analysis/plan/budget/cut_candidates.hpp>
#include <echo/analysis/plan/budget/descent.hpp>
#include <echo/analysis/plan/budget/known_plans.hpp>
#include <echo/analysis/plan/budget/led_plans.hpp>
#include <echo/analysis/plan/budget/limit_ladder.hpp>
#include <echo/analysis/plan/budget/search_bounds.hpp>
#include <echo/analysis/plan/budget/whole_front.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo {

/// Searches at rungs of one ladder. Evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class rung_search {
public:
    rung_search(const rung_search&) = delete; // its parts point to each other
    rung_search& operator=(const rung_search&) = delete;
    rung_search(evaluator<>& evaluate, const anchor_finder<>& anchors, const budget_options& options)
        : evaluate_(evaluate), plans_(evaluate, options.progress, options.passes),
          cuts_(evaluate, anchors, options.encode, plans_.effort().distances), down_(plans_, cuts_),
          front_(plans_, options.local_search_replays), bounds_(evaluate, options.encode),
          replays_(options.local_search_replays), most_work_(options.most_work), encode_(options.encode) {
        plans_.start_from(decision::nothing(evaluate.graph()));
        ladder_ = limit_ladder(known_.all().front().footprint.peak_bytes);
    }

    /// Replays decisions of the graph.
    evaluator<>& evaluate() const noexcept { return evaluate_; }
    /// The plans found so far, and the moves that make one of another.
    led_plans<>& plans() noexcept { return plans_; }
    /// Of the plans found so far those that no other beats.
    const known_plans<>& known() const noexcept { return known_; }
    /// The limits at which searches meet.
    limit_ladder& ladder() noexcept { return ladder_; }
    /// No plan has a peak below it, in bytes. Once prepared.
    std::uint64_t least_bytes() const noexcept { return least_bytes_; }
    /// No plan within `most` has a lower peak, in bytes; in large graphs no plan at all. Once prepared.
    std::uint64_t least_bytes_within(ticks most) {
        if (is_reduced() || !plans_.passes().proofs) return least_bytes_;
        return std::max(least_bytes_, bounds_.least_peak(most, *known_.within_time(most)));
    }
    /// Whether a plan is known at the limit than which, as is proved, none recomputes for less by more than one part in
    /// `part`. Nothing is proved in large graphs, nor where there is no polish.
    bool is_proved(std::uint64_t limit, ticks part) {
        const rated_decision* found =
            polishing_replays() > 0 && plans_.passes().proofs ? known_.within(limit) : nullptr;
        return found && bounds_.proves_least(*found, limit, part);
    }
    /// Whether the graph is so small that all plans that might be of use should be known.
    bool knows_all() const noexcept { return plans_.effort().whole_front(); }
    /// Whether the size of the graph has made the search do less than it would for a small one.
    bool is_reduced() const noexcept { return plans_.effort().is_reduced(); }
    /// Whether so much was done by now for a large graph that no more rungs are tried. O(1).
    bool is_spent() noexcept {
        const std::size_t work =
            evaluate_.count() * plans_.effort().size + plans_.evict().priced() * tuning::nodes_per_price;
        return is_reduced() && work > most_work_;
    }

    /// Replays for local search at one of the last limits of a search; where there are none, neither are there swaps.
    std::size_t polishing_replays() const noexcept {
        return std::min(replays_, plans_.effort().polishing_replays());
    }

    /// Takes the cuts to start from. Before all else; a second time it does nothing.
    void prepare() {
        if (std::exchange(is_prepared_, true)) return;
        lower_bound<> bound(evaluate_.graph(), evaluate_.facts(), encode_, true);
        least_bytes_ = knows_all() ? bound({}, tuning::cuts_of_least) : bound.working_sets();
        // At prices from the dearest time on; cheaper time leads to plans that recompute more than any limit asks for.
        for (std::size_t row = 0; row < cuts_.rows(); ++row)
            for (std::size_t column = row % 2;
                 column < std::min(cuts_.columns(), tuning::dear_columns + row % 2); ++column)
                plans_.start_from(cuts_.plan_of(row, column));
        if (!knows_all()) plans_.keep_best_starts();
        if (is_reduced()) cuts_.give_back(); // there are no more of them
    }

    /// Searches point by point what lies between the plan that recomputes nothing and the lowest.
    void search_whole_front() { front_.search(down_, least_bytes_); }
    /// Local search around the plan that is known at the limit, by that many replays at most.
    void search_around(std::uint64_t limit, std::size_t replays) { front_.search_around(limit, replays); }
    /// Forgets what is live at the peak, step by step, down to the limit; the lowest plan on the way.
    const rated_decision& down_to(std::uint64_t limit) { return down_.down_to(limit, least_bytes_); }

    /// Searches at the rung, unless that has been done. Where the starts arrived; nothing where it had been done.
    led_plans<>::arrivals search_rung(std::size_t i) {
        return ladder_.visit(i) ? plans_.search(ladder_.limit(i)) : led_plans<>::arrivals();
    }

    /// Searches limits next to the rung, which are the same for all rungs next to it: what is found there may be
    /// cheaper.
    void search_neighbours(std::size_t i) {
        const std::size_t count = plans_.effort().neighbours;
        if (count == 0 || !plans_.passes().neighbours) return;
        down_to(0);
        if (i >= tuning::rungs_apart) search_rung((i / tuning::rungs_apart - 1) * tuning::rungs_apart);
        search_below(i, count);
    }
    /// Searches that many limits below the rung, the same for all rungs next to it.
    void search_below(std::size_t i, std::size_t count) {
        for (std::size_t k = 1; k <= count; ++k)
            search_rung((i / tuning::rungs_apart + k) * tuning::rungs_apart);
    }
    /// The lowest rung at which a plan within `most` is found, by doubling steps and then by halving. No plan within
    /// `most` has a peak below `least` bytes.
    std::size_t last_rung_within(ticks most, std::uint64_t least) {
        const auto lowest_known = [&] {
            return ladder_.above(known_.within_time(most)->footprint.peak_bytes);
        };
        std::size_t within = lowest_known(), beyond = within + 1;
        for (std::size_t step = tuning::first_rungs_down;
             ladder_.limit(within) > 0 && reaches(beyond, most, least); step *= 2) {
            within = std::max(beyond, lowest_known());
            beyond = within + step;
        }
        while (within + 1 < beyond) { // a plan found on the way may be lower than what `beyond` was missed by
            const std::size_t middle = within + (beyond - within) / 2;
            if (polishing_replays() > 0 ? is_led_to(middle, most, least) : reaches(middle, most, least))
                within = std::max(middle, lowest_known());
            else
                beyond = middle;
        }
        return within;
    }

private:
    /// Whether a plan within `most` is known or found at the rung. Where no polish follows, which would lead plans on,
    /// the plans known just above are led to a rung that no start reaches, too.
    bool reaches(std::size_t i, ticks most, std::uint64_t least) {
        const std::uint64_t limit = ladder_.limit(i);
        plans_.tell();
        if (plans_.knows_within(limit, most)) return true;
        if (limit < least || ladder_.was_visited(i)) return false;
        if (plans_.search_within(limit, most, [this] { return is_spent(); })) return true;
        if (polishing_replays() == 0 && !is_reduced()) plans_.lead_from_above(limit, tuning::led_to_limit);
        return plans_.knows_within(limit, most);
    }

    /// Whether a plan within `most` is known at the rung, or found by keeping again in those known just below it, or by
    /// leading to it those known just above: where they lie close, they arrive more cheaply than starts from far away.
    bool is_led_to(std::size_t i, ticks most, std::uint64_t least) {
        const std::uint64_t limit = ladder_.limit(i);
        plans_.tell();
        if (plans_.knows_within(limit, most)) return true;
        if (limit < least) return false;
        plans_.retain_from_below(limit);
        if (!plans_.knows_within(limit, most)) plans_.lead_from_above(limit, tuning::led_to_rung, most);
        return plans_.knows_within(limit, most);
    }

    evaluator<>& evaluate_;
    led_plans<> plans_;
    const known_plans<>& known_ = plans_.known();
    cut_candidates<> cuts_;
    descent<> down_;
    whole_front<> front_;
    search_bounds<> bounds_;
    std::size_t replays_;
    std::size_t most_work_;
    bool encode_;
    std::uint64_t least_bytes_ = 0;
    bool is_prepared_ = false;
    limit_ladder ladder_{0};
};

} // namespace echo
