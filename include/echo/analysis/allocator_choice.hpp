// SPDX-License-Identifier: BSL-1.0
/// @file
/// Of the plans that a search for budgets knows, the one for which the host's own allocator takes least.
#pragma once

#include <echo/analysis/budget.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/host_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo {

namespace detail {

/// Chooses among the plans of a search by what the host's allocator takes. All must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class allocator_choice {
public:
    allocator_choice(evaluator& evaluate, const host_allocator& allocate, budget_search<>& search)
        : evaluate_(evaluate), allocate_(allocate), search_(search) {}

    /// The plan that takes least of those that recompute for at most `most`. The allocator is asked of the lowest
    /// peaks, at most `questions` times.
    rated_decision smallest(ticks most) {
        ask(search_.lowest(most));
        const auto known = search_.known();
        std::size_t asked = 1;
        for (auto t = known.rbegin(); t != known.rend() && asked < questions; ++t) {
            if (t->recompute > most) continue;
            ask(*t);
            ++asked;
        }
        return std::move(best_);
    }

    /// The plan of least recomputation that takes at most `limit`: lower and lower peaks are searched until one does,
    /// at most to three quarters of it. Without one, the plan that takes least.
    rated_decision cheapest(std::uint64_t limit) {
        constexpr std::uint64_t parts = 64;
        for (std::uint64_t i = 0; i < questions; ++i) {
            const std::uint64_t target = limit - limit / parts * i;
            rated_decision t = search_.cheapest(target);
            const bool met = t.footprint.peak_bytes <= target;
            ask(std::move(t));
            if (least_ <= limit || !met) break; // lower targets are not met either
        }
        return std::move(best_);
    }

private:
    static constexpr std::size_t questions = 16;

    void ask(rated_decision t) {
        evaluate_(t);
        const std::uint64_t bytes = allocate_(evaluate_.steps());
        if (is_asked_ && (bytes > least_ || (bytes == least_ && !(t.recompute < best_.recompute)))) return;
        is_asked_ = true;
        least_ = bytes;
        best_ = std::move(t);
    }

    evaluator& evaluate_;
    const host_allocator& allocate_;
    budget_search<>& search_;
    rated_decision best_;
    std::uint64_t least_ = 0; // bytes of the best
    bool is_asked_ = false;
};

} // namespace detail

} // namespace echo
