// SPDX-License-Identifier: BSL-1.0
/// @file
/// `budget_search`: the least recomputation under a limit on the peak, the least peak under a limit on recomputation,
/// and the front of one against the other. Each is a sequence of passes over one `search_state`; the sequences stand
/// here.
#pragma once

#include <echo/analysis/plan/budget/bring_down.hpp>
#include <echo/analysis/plan/budget/exchange.hpp>
#include <echo/analysis/plan/budget/lowest_peak.hpp>
#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/recreate.hpp>
#include <echo/analysis/plan/budget/search_options.hpp>
#include <echo/analysis/plan/budget/search_state.hpp>
#include <echo/analysis/plan/budget/start_from_cuts.hpp>
#include <echo/analysis/plan/budget/whole_front.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// What a search for budgets may do, and whom it tells how far it is.
struct budget_options {
    /// Plans may keep values in one bit per element.
    bool encode = true;
    /// Which passes are made.
    search_options passes{};
    progress_callback progress{};
    /// Of a large graph: what nodes times replays may come to where the least peak within a time is looked for.
    std::size_t most_work = tuning::most_work;
};

/// Searches for plans of one snapshot. Evaluator and anchors must outlive it. What one search finds, the next ones
/// know.
class budget_search {
public:
    budget_search(evaluator& evaluate, const anchor_finder& anchors, const budget_options& options)
        : anchors_(anchors), encode_(options.encode),
          moves_(evaluate, options.passes, options.progress, options.most_work) {
        state_.start_from(moves_.with_heavy(decision::nothing(evaluate.graph())));
    }

    /// A plan to start from as well: no search finds a worse one. Before the first search.
    void know(const evaluated_plan& plan) {
        state_.start_from(moves_.with_heavy(plan.decided()));
        state_.known.add(plan.rated());
    }

    /// The cheapest plan found whose peak is at most `limit`; without one, the plan of the least peak found. Some
    /// hundred replays, some thousand of small graphs.
    [[nodiscard]] evaluated_plan cheapest(std::uint64_t limit) {
        if (!state_.meets(limit, 0)) state_ = search_limit(std::move(state_), limit);
        const rated_decision* found = state_.known.within(limit);
        return finished(found ? *found : state_.known.lowest(), limit);
    }

    /// The least peak found among plans that recompute for at most `most`. Some hundred replays, some thousand of small
    /// graphs.
    [[nodiscard]] evaluated_plan lowest(ticks most) {
        state_ = search_time(std::move(state_), most);
        const rated_decision* found = state_.known.within_time(most);
        return finished(*found, found->footprint.peak_bytes);
    }

    /// The front, from the plan that recomputes nothing down to the least peak found; peaks fall and times rise from
    /// point to point. `count` limits are searched. Valid until the next search.
    const std::vector<rated_decision>& front(std::size_t count) {
        state_ = search_front(std::move(state_), count);
        return state_.known.all();
    }

    /// All plans found so far that no other beats: peaks fall, times rise. Until the next search.
    const std::vector<rated_decision>& known() const noexcept { return state_.known.all(); }
    /// Whether the graph is so small that the whole front is searched.
    bool knows_all() const noexcept { return moves_.effort.whole_front; }
    /// Whether the size of the graph has made the search do less than it would for a small one.
    bool is_reduced() const noexcept { return moves_.effort.is_reduced; }
    /// Whether so much was done by now for a large graph that `lowest` tries no more. O(1).
    bool is_spent() const noexcept { return moves_.is_spent(); }

private:
    /// Towards a limit on the peak.
    search_state search_limit(search_state state, std::uint64_t limit) {
        state = start_from_cuts(moves_, std::move(state), anchors_, encode_);
        if (knows_all()) {
            state = search_whole_front(moves_, std::move(state));
        } else {
            state = bring_starts(moves_, std::move(state), limit);
            state = bring_nearest(moves_, std::move(state), limit);
            if (!state.known.within(limit)) state = reach(std::move(state), limit);
            if (recomputes_much(state, limit)) {
                state = follow_front(moves_, std::move(state), limit, tuning::stops_to_deep_limit);
                state = bring_nearest(moves_, std::move(state), limit);
            }
        }
        const std::uint64_t target = std::max(limit, state.known.lowest().footprint.peak_bytes);
        state = recreate(moves_, std::move(state), target);
        if (!knows_all()) return state;
        const std::uint64_t reachable = std::max(limit, state.least_bytes); // before the state moves
        return exchange(moves_, std::move(state), reachable);
    }

    /// Whether the limit is met by a plan that recomputes so much that starts come down to it badly in one go.
    bool recomputes_much(const search_state& state, std::uint64_t limit) const {
        const rated_decision* found = state.known.within(limit);
        const ticks whole = moves_.evaluate.facts().times.total;
        return found && found->recompute > whole / tuning::deep_part && !is_reduced();
    }

    /// Where no plan has met the limit: towards a low peak within ever more time, until one meets it; or as low as
    /// plans go, and then what is cheapest there.
    search_state reach(search_state state, std::uint64_t limit) {
        const ticks whole = moves_.evaluate.facts().times.total;
        for (ticks most = whole / 32; !is_reduced() && !state.known.within(limit) && most <= whole;
             most *= 2) {
            state = lower_within(moves_, std::move(state), most);
            state = polish(moves_, std::move(state), most, limit);
        }
        if (!state.known.within(limit)) state = descend(moves_, std::move(state), limit);
        const std::uint64_t target = std::max(limit, state.known.lowest().footprint.peak_bytes);
        if (target > limit && !is_reduced()) state = bring_starts(moves_, std::move(state), target);
        return bring_nearest(moves_, std::move(state), target);
    }

    /// Towards a low peak within a limit on recomputation.
    search_state search_time(search_state state, ticks most) {
        state = start_from_cuts(moves_, std::move(state), anchors_, encode_);
        if (knows_all()) {
            state = search_whole_front(moves_, std::move(state));
        } else {
            // The lowest plan need not be one of the starts.
            state.start_from(moves_.with_heavy(state.known.within_time(most)->decided));
            state = lower_within(moves_, std::move(state), most);
            const std::uint64_t lowest = state.lowest_within(most); // before the state moves
            if (!is_spent()) state = bring_starts(moves_, std::move(state), lowest);
        }
        return polish(moves_, std::move(state), most, 0);
    }

    /// Along the front.
    search_state search_front(search_state state, std::size_t count) {
        state = start_from_cuts(moves_, std::move(state), anchors_, encode_);
        if (knows_all()) return search_whole_front(moves_, std::move(state));
        state = descend(moves_, std::move(state), 0);
        const std::uint64_t lowest = state.known.lowest().footprint.peak_bytes;
        return follow_front(moves_, std::move(state), lowest, count);
    }

    /// The same plan, or one with less recomputation that is as low as `limit`.
    evaluated_plan finished(const rated_decision& found, std::uint64_t limit) {
        return moves_.retain(moves_.evaluate(found.decided), std::max(limit, found.footprint.peak_bytes));
    }

    const anchor_finder& anchors_;
    bool encode_;
    search_moves moves_;
    search_state state_;
};

} // namespace echo::detail
