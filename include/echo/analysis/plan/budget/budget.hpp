// SPDX-License-Identifier: BSL-1.0
/// @file
/// Budgets: the least recomputation under a limit on the peak, the least peak under a limit on recomputation, and the
/// front of one against the other. All three ask one search for plans at limits.
///
/// A limit is always searched from the same starts, whatever else is asked: the plan that recomputes nothing, the plans
/// that the caller knows, and cuts of `cut_candidates`. From each, `evict` forgets what is live at the peak, cheapest
/// time per byte first, until a limit is met, and `retain` keeps again what there is room for: at a rung above the
/// limit, which limits nearby share, from there on down in small steps, and straight at the limit. At last,
/// `local_search` tries runs one by one, as often as the size of the graph allows, `exchange` swaps them,
/// `ruin_and_recreate` goes below the limit and back, and `crosser` puts the best parts of several plans together. A
/// certified bound (`search_bounds`) tells when to end, and where it leaves much to gain, more is tried, up to asking
/// the other way round: for the least peak at that price. So a lower limit hardly ever finds a cheaper plan, and limits
/// on one ladder (`limit_ladder`) make it likely that who asks again, by another figure, gets the same plan. Of small
/// graphs the whole front is searched, point by point, whatever is asked; of those above 8192 nothing is proved on the
/// way.
#pragma once

#include <echo/analysis/plan/budget/limit_search.hpp>
#include <echo/analysis/plan/budget/lowest_peak.hpp>
#include <echo/analysis/plan/budget/rung_search.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace echo {

/// Searches for plans of one snapshot. Evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class budget_search {
public:
    budget_search(const budget_search&) = delete; // its parts point to each other
    budget_search& operator=(const budget_search&) = delete;
    budget_search(evaluator<>& evaluate, const anchor_finder<>& anchors, const budget_options& options)
        : anchors_(anchors), options_(options), rungs_(evaluate, anchors, options), limits_(rungs_) {}

    /// A plan to start from as well: no search finds a worse one. Before the first search.
    void know(const evaluated_plan& plan) {
        if (rungs_.polishing_replays() > 0) given_.push_back(plan.rated());
        limits_.know(plan);
        rungs_.plans().start_from(plan.decided());
        rungs_.plans().add(plan); // as a start it may run heavy nodes again, and be dearer
    }

    /// The cheapest plan found whose peak is at most `limit`; without one, the plan of the least peak found. A search
    /// at the limit and one at the rung above it, a third where none of the starts arrives, and what the starts cost;
    /// where much may still be gained, as much again as `lowest` takes, once or twice. A limit that is out of reach
    /// takes some more, to say so of a plan that is hard to go below, and a search at the peak of that plan.
    [[nodiscard]] evaluated_plan cheapest(std::uint64_t limit) {
        rungs_.prepare();
        if (const rated_decision* t = known_.within(limit); t && t->recompute == 0)
            return rungs_.evaluate()(t->decided);
        if (knows_all())
            rungs_.search_whole_front();
        else
            limits_.search(limit);
        if (!known_.within(limit) && !knows_all() && !is_reduced())
            limits_.search(known_.lowest().footprint.peak_bytes); // what is lowest may take less
        if (options_.passes.other_way && rungs_.polishing_replays() > 0 && known_.within(limit) &&
            limits_.may_be_far(limit))
            ask_the_other_way(limit);
        const rated_decision* found = known_.within(limit);
        return finished(found ? *found : known_.lowest(), limit);
    }

    /// The least peak found among plans that recompute for at most `most`. Some ten searches at rungs, most of which
    /// end early, and a walk as to a limit.
    [[nodiscard]] evaluated_plan lowest(ticks most) {
        rungs_.prepare();
        if (knows_all()) {
            rungs_.search_whole_front();
        } else {
            // Large graphs keep few starts, and the lowest plan need not be one of them.
            rungs_.plans().start_from(*known_.within_time(most));
            const std::uint64_t least = rungs_.least_bytes_within(most);
            const std::size_t last = rungs_.last_rung_within(most, least);
            if (!rungs_.is_spent()) rungs_.search_rung(last);
            rungs_.search_neighbours(last);
            limits_.walk_to(last);
            lowest_peak<>(rungs_).polish(most, least);
        }
        const rated_decision* found = known_.within_time(most);
        return finished(*found, found->footprint.peak_bytes);
    }

    /// The front, from the plan that recomputes nothing down to the least peak found; peaks fall and times rise from
    /// point to point. At most `count` searches between them. Valid until the next search.
    const std::vector<rated_decision>& front(std::size_t count) {
        rungs_.prepare();
        if (knows_all()) {
            rungs_.search_whole_front();
        } else {
            rungs_.down_to(0);
            const std::uint64_t high = known_.all().front().footprint.peak_bytes;
            const std::uint64_t low = known_.lowest().footprint.peak_bytes;
            led_plans<>::arrivals arrived;
            std::size_t last = 0;
            for (std::size_t i = 1; i <= count; ++i) {
                const std::size_t rung =
                    rungs_.ladder().above(low + detail::mul_div(high - low, count - i, count));
                if (std::exchange(last, rung) == rung) continue; // points so close are one
                if (i % tuning::points_per_search == 1 || arrived.empty())
                    arrived = rungs_.search_rung(rung);
                else
                    go_on_along_front(rungs_.ladder().limit(rung), arrived);
            }
            if (!is_reduced()) retain_along_front(low, high, count);
        }
        return known_.all();
    }

    /// All plans found so far that no other beats: peaks fall, times rise. Until the next search.
    const std::vector<rated_decision>& known() const noexcept { return known_.all(); }

    /// Whether the graph is so small that all plans that might be of use should be known.
    bool knows_all() const noexcept { return rungs_.knows_all(); }
    /// Whether the size of the graph has made the search do less than it would for a small one.
    bool is_reduced() const noexcept { return rungs_.is_reduced(); }
    /// Whether so much was done by now for a large graph that `lowest` tries no more. O(1).
    bool is_spent() noexcept { return rungs_.is_spent(); }

private:
    /// Another search, which knows nothing of this one, looks for the least peak at a price. It comes from elsewhere
    /// and goes down rung by rung; what it finds below the limit may cost less, all the more once that keeps again what
    /// there is room for. The price is one that others ask for, if one is a little lower than what is known at the
    /// limit, and where that gives nothing, the same as that.
    void ask_the_other_way(std::uint64_t limit) {
        const auto tell = [this](double) { rungs_.plans().tell(); }; // it goes on where this search is
        budget_options asked = options_;
        if (asked.progress) asked.progress = tell;
        budget_search other(rungs_.evaluate(), anchors_, asked);
        for (const rated_decision& plan : given_) other.know(rungs_.evaluate()(plan.decided));
        const ticks price = known_.within(limit)->recompute;
        const auto gives_less = [&](ticks most) {
            static_cast<void>(other.lowest(most));
            for (const rated_decision& plan : other.known())
                if (plan.footprint.peak_bytes <= limit) rungs_.plans().add(plan);
            rungs_.plans().retain_from_below(limit);
            return known_.within(limit)->recompute < price;
        };
        const std::optional<ticks> common = common_price_below(price);
        if ((common && gives_less(*common)) || gives_less(price)) limits_.swap_while_it_helps(limit);
    }

    /// The highest of the prices that are asked for often which is below `price`, if that is no more than half as dear
    /// again.
    std::optional<ticks> common_price_below(ticks price) const {
        std::optional<ticks> highest;
        for (const double part : tuning::common_prices)
            if (const ticks common = rungs_.evaluate().facts().times.at_most(part);
                common < price && price <= common + common / tuning::common_price_part)
                highest = common;
        return highest;
    }

    /// From one point of a front to the next: what arrived cheaply there mostly does so here, and what was found there
    /// lies close.
    void go_on_along_front(std::uint64_t limit, const led_plans<>::arrivals& arrived) {
        rungs_.plans().lead_from_above(limit, tuning::led_along_front);
        const std::size_t starts = rungs_.plans().effort().starts_led_along_front();
        rungs_.plans().search_from_best(starts, arrived, limit);
    }

    /// At the points of a front, from low to high, plans that lie below keep again what there is room for: what is
    /// cheap further down may be cheaper there.
    void retain_along_front(std::uint64_t low, std::uint64_t high, std::size_t count) {
        limit_ladder& ladder = rungs_.ladder();
        for (std::size_t i = 0; i < count; ++i)
            rungs_.plans().retain_from_below(
                ladder.limit(ladder.above(low + detail::mul_div(high - low, i, count))));
    }

    /// The same plan, or one with less recomputation that is as low as `limit`.
    evaluated_plan finished(const rated_decision& found, std::uint64_t limit) {
        const std::uint64_t allowed = std::max(limit, found.footprint.peak_bytes);
        return rungs_.plans().retain()(rungs_.evaluate()(found.decided), allowed, tuning::retained_at_end);
    }

    const anchor_finder<>& anchors_;
    budget_options options_;
    std::vector<rated_decision> given_; ///< what the caller knows, where another search may ask for it
    rung_search<> rungs_;
    limit_search<> limits_;
    const known_plans<>& known_ = rungs_.known();
};

} // namespace echo
