// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_state`: what a search for budgets knows; it goes from pass to pass. `search_moves`: what makes one plan of
/// another, for all passes.
#pragma once

#include <echo/analysis/plan/budget/known_plans.hpp>
#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/search_effort.hpp>
#include <echo/analysis/plan/budget/search_options.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/retain.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace echo::detail {

/// As a limit on recomputation: any time.
inline constexpr ticks any_time = std::numeric_limits<ticks>::max();

/// What a search knows. A pass takes it and gives it back, with better plans or the same: never worse ones.
struct search_state {
    known_plans known{};                  ///< the best plans so far, at least one
    std::vector<rated_decision> starts{}; ///< the plans that are brought down to limits
    std::uint64_t least_bytes = 0;        ///< no plan has a lower peak, as is proved
    bool has_cuts = false;                ///< whether the starts are complete
    bool has_front = false;               ///< whether the whole front is known

    /// Adds a plan to start from, unless one of the same figures is there. O(starts + known).
    void start_from(const rated_decision& plan) {
        known.add(plan);
        const auto is_same = [&](const rated_decision& other) {
            return other.footprint.peak_bytes == plan.footprint.peak_bytes &&
                   other.recompute == plan.recompute;
        };
        if (std::none_of(starts.begin(), starts.end(), is_same)) starts.push_back(plan);
    }
    /// Whether a plan within both limits is known. O(log known).
    bool meets(std::uint64_t limit, ticks most) const {
        const rated_decision* found = known.within(limit);
        return found && found->recompute <= most;
    }
    /// The least known peak of plans that recompute for at most `most`; there must be one. O(log known).
    std::uint64_t lowest_within(ticks most) const { return known.within_time(most)->footprint.peak_bytes; }
};

/// What passes work with: scratch memory, and how much may be done. The evaluator must outlive it.
class search_moves {
public:
    search_moves(const search_moves&) = delete; // its parts point to each other
    search_moves& operator=(const search_moves&) = delete;
    search_moves(evaluator& evaluator, const search_options& passes, progress_callback progress,
                 std::size_t most_work)
        : evaluate(evaluator), options(passes), effort(search_effort::of(evaluator.graph())),
          evict(evaluator, passes.growth), retain(evaluator), progress_(progress), most_work_(most_work) {
        effort.whole_front &= passes.front;
    }

    /// The plan brought down to the limit on its peak, with what fits there kept again; if it cannot be brought so far
    /// with at most `most` recomputation, the lowest plan on the way. Some ten replays. Errors: as `replay`.
    [[nodiscard]] evaluated_plan bring_down(const rated_decision& plan, std::uint64_t limit, ticks most) {
        auto [found, met] = evict(evaluate(plan.decided), limit, {.most = most});
        return met ? retain(std::move(found), limit) : std::move(found);
    }

    /// The plan of the decision as one to start from: it may run heavy nodes again, and take longer. A replay.
    [[nodiscard]] rated_decision with_heavy(decision decided) {
        decided.heavy = true;
        return evaluate(decided).rated();
    }
    /// Whether so much was done by now for a large graph that no more limits are tried. O(1).
    bool is_spent() const noexcept {
        const std::size_t work = evaluate.count() * effort.size + evict.priced() * tuning::nodes_per_price;
        return effort.is_reduced && work > most_work_;
    }
    /// Tells the progress. How many passes there will be is not known, so each takes an equal part of what is left.
    void tell() {
        done_ += (1 - done_) * tuning::progress_part;
        if (progress_) progress_(done_);
    }

    evaluator& evaluate;    ///< replays decisions
    search_options options; ///< which passes are made
    search_effort effort;   ///< how much is done
    evictor evict;          ///< drops values that are live at the peak
    retainer retain;        ///< keeps values again that fit

private:
    progress_callback progress_;
    std::size_t most_work_;
    double done_ = 0;
};

} // namespace echo::detail
