// SPDX-License-Identifier: BSL-1.0
/// @file
/// `kept_copy`: a copy that a plan makes again could be kept instead.
#pragma once

#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/schedule/run_history.hpp>

namespace echo {

/// The copy of what `node` makes stays from its last use at `from` to the one at `to`.
struct kept_copy {
    node_id node, from, to;
};

/// Whether a step makes something for the backward pass that could have been kept. What is fused takes no time, so
/// there is nothing to gain. O(1). Errors: none.
template <class = void>
bool can_be_retained(const snapshot& s, const evaluated_plan& plan, step_id run) {
    const step_record& step = plan.steps()[run];
    return step.kind != step_kind::encode && !step.fused && s[step.node].phase == phase::forward &&
           runs_after_forward(s[plan.homes()[run]].phase);
}

/// What is kept if such a step is left out. `runs`: of the plan. O(1). Errors: none.
template <class = void>
kept_copy kept_instead(const evaluated_plan& plan, const run_history<>& runs, step_id run) {
    const node_id n = plan.steps()[run].node;
    const step_id before = runs.earlier(run);
    return {n, before.valid() ? plan.homes()[before] : n, plan.homes()[run]};
}

/// Changes `decided` so that the copy stays. O(forgets). Errors: none.
template <class = void>
void keep_copy(const snapshot& s, decision& decided, const kept_copy& copy) {
    if (!runs_after_forward(s[copy.from].phase)) decided.again[copy.node] = 0;
    decided.remember(copy.node, copy.from, copy.to);
}

} // namespace echo
