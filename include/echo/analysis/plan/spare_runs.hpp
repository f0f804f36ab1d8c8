// SPDX-License-Identifier: BSL-1.0
/// @file
/// `spare_runs`: recomputations that a host's allocator does not need. Each lowers the peak that Echo counts; what an
/// allocator with gaps takes need not hang on all of them, so some can be left out again.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/host_allocator.hpp>
#include <echo/analysis/plan/plan_outcome.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo::detail {

/// The same steps but for one recompute that is not fused: who read that copy reads the one before it. O(steps + copies
/// read). Errors: none.
inline schedule without_run(const schedule& steps, step_id left_out) {
    step_id before{};
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        if (t < left_out && step.node == steps[left_out].node && step.kind != step_kind::encode &&
            !step.fused)
            before = t;
    }
    schedule made;
    id_vector<step_id, step_id> now(steps.size());
    for (const auto t : steps.steps()) {
        if (t == left_out) {
            now[t] = now[before];
            continue;
        }
        now[t] = made.add(steps[t]);
        for (const copy_id c : steps.inputs(t)) made.read({now[c.step], c.output});
    }
    return made;
}

/// Leaves recomputations out one by one, the last of the pass first, where the allocator takes no more than before, or
/// no more than the budget, and the peak stays within the baseline's and the budget. At most
/// `plan_options::spare_run_questions` are tried, each a replay and a question. All must outlive it.
class spare_runs {
public:
    spare_runs(const snapshot& s, const candidates& c, const plan_options& options)
        : s_(s), c_(c), options_(options) {}

    void leave_out(plan_outcome& best, std::uint64_t baseline_peak) const {
        const std::uint64_t limit = options_.budget == any_peak ? 0 : options_.budget;
        const std::uint64_t most_bytes = std::max(best.allocated_bytes, limit);
        const std::uint64_t most_peak =
            limit == 0 ? baseline_peak
                       : std::min(baseline_peak, std::max(best.figures.footprint.peak_bytes, limit));
        std::size_t questions = options_.spare_run_questions;
        for (std::size_t t = best.steps.size(); t-- > 0 && questions > 0;) {
            const step_record& step = best.steps[step_id(t)];
            if (step.kind != step_kind::recompute || step.fused) continue;
            --questions;
            plan_outcome less{.figures = {}, .steps = without_run(best.steps, step_id(t))};
            less.figures.footprint = footprint(s_, less.steps);
            if (less.figures.footprint.peak_bytes > most_peak) continue;
            less.allocated_bytes = options_.allocator(less.steps);
            if (less.allocated_bytes > most_bytes) continue;
            less.figures.recompute = recompute_time(c_, less.steps);
            best = std::move(less);
        }
    }

private:
    const snapshot& s_;
    const candidates& c_;
    const plan_options& options_;
};

} // namespace echo::detail
