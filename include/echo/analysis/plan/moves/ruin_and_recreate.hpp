// SPDX-License-Identifier: BSL-1.0
/// @file
/// `ruin_and_recreate`: of plans under a limit, one with less recomputation, by a way below the limit and back.
/// Evictions take what is cheapest at the peak as it stands, and what they took for one peak may be needless once
/// something larger is gone. So a plan is led further down than it has to go, and what there is room for then is kept
/// again, dearest first (Schrimpf et al., "Record Breaking Optimization Results Using the Ruin and Recreate Principle",
/// 2000).
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/retain.hpp>

#include <cstdint>
#include <utility>

namespace echo {

/// A plan that is as good as `best` or better, for a peak of at most `limit` bytes, which that of `best` keeps to. Each
/// time the way leads further down, as long as none gives a better plan: some ten to thirty replays each time, of
/// O(nodes + edges + steps). Errors: as `replay`.
template <class = void>
[[nodiscard]] evaluated_plan ruin_and_recreate(evaluator<>& evaluate, evictor<>& evict, retainer<>& retain,
                                               evaluated_plan best, std::uint64_t limit) {
    for (std::uint64_t parts = tuning::first_ruin_parts; parts >= tuning::last_ruin_parts;) {
        const rated_decision before = best.rated();
        if (before.recompute == 0) break;
        auto ruined = evict(std::move(best), limit - limit / parts,
                            {.rounds = tuning::rounds_per_step, .patient = true, .everywhere = false});
        best = retain(std::move(ruined.plan), limit, tuning::retained_after_ruin);
        if (best.peak_bytes() <= limit && best.recompute() < before.recompute) continue;
        best = evaluate(before.decided);
        parts /= 2;
    }
    return best;
}

} // namespace echo
