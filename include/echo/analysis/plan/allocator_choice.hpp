// SPDX-License-Identifier: BSL-1.0
/// @file
/// Of the plans that a search for budgets knows, the one for which the host's own allocator takes least.
#pragma once

#include <echo/analysis/plan/budget/budget.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/host_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace echo::detail {

/// Chooses among the plans of a search by what the host's allocator takes. All must outlive it.
class allocator_choice {
public:
    allocator_choice(evaluator& evaluate, const host_allocator& allocate, budget_search& search)
        : evaluate_(evaluate), allocate_(allocate), search_(search) {}

    /// The plan that takes least of those that recompute for at most `most`. The allocator is asked of the lowest
    /// peaks, at most `tuning::most_questions` times.
    [[nodiscard]] evaluated_plan smallest(ticks most) {
        ask(search_.lowest(most));
        const auto& known = search_.known();
        std::size_t asked = 1;
        for (auto t = known.rbegin(); t != known.rend() && asked < tuning::most_questions; ++t) {
            if (t->recompute > most) continue;
            ask(evaluate_(t->decided));
            ++asked;
        }
        return *std::move(best_);
    }

    /// The plan of least recomputation that takes at most `limit`: lower and lower peaks are searched until one does,
    /// at most to three quarters of it. Without one, the plan that takes least.
    [[nodiscard]] evaluated_plan cheapest(std::uint64_t limit) {
        for (std::uint64_t i = 0; i < tuning::most_questions; ++i) {
            const std::uint64_t target = limit - limit / tuning::first_limit_parts * i;
            evaluated_plan plan = search_.cheapest(target);
            const bool met = plan.peak_bytes() <= target;
            ask(std::move(plan));
            if (least_ <= limit || !met) break; // lower targets are not met either
        }
        return *std::move(best_);
    }

private:
    void ask(evaluated_plan plan) {
        const std::uint64_t bytes = allocate_(plan.steps());
        if (best_ && (bytes > least_ || (bytes == least_ && !(plan.recompute() < best_->recompute()))))
            return;
        least_ = bytes;
        best_ = std::move(plan);
    }

    evaluator& evaluate_;
    const host_allocator& allocate_;
    budget_search& search_;
    std::optional<evaluated_plan> best_;
    std::uint64_t least_ = 0; // bytes of the best
};

} // namespace echo::detail
