// SPDX-License-Identifier: BSL-1.0
/// @file
/// `make_plan`: the one entry point of planning. A strategy (strategies.hpp) proposes a plan with its replayed figures;
/// what is worse than the baseline is rolled back.
#pragma once

#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/plan/plan_options.hpp>

#include <cstddef>

namespace echo {

/// Makes a plan for `s`. Its replayed peak is never above the baseline's, and every figure in its report comes from the
/// replay. Errors: the graph's own order reads a value after it was overwritten in place; a `max_overhead` that is
/// negative or NaN; `options.stop` said so.
/// If the host fuses, the plan is made twice, without fusion and with it, and is never worse than the first: neither
/// the peak nor the recomputation is; with a budget, what it is asked for comes first, and then the other.
/// With `budget`, some hundred replays of O(nodes + edges + steps), some thousand for graphs of up to 256 nodes
/// (`plan_report::replays`); the other strategies, some ten cuts and replays.
[[nodiscard]] ECHO_INLINE plan make_plan(const snapshot& s, const plan_options& options = {});

/// The front of peak against recomputation, searched at `points` limits; `how`, `budget` and `max_overhead` are not
/// read. `make_plan` with a point's peak as its budget gives a plan like it. Errors: as `make_plan`. Some ten
/// cuts, and some replays of O(nodes + edges + steps) for each starting plan and limit.
[[nodiscard]] ECHO_INLINE plan_front front(const snapshot& s, const plan_options& options = {},
                                           std::size_t points = 24);

} // namespace echo

#ifndef ECHO_CORE
#include <echo/analysis/detail/make_plan_impl.hpp>
#endif
