// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_memory`: lays the storages of a plan out in one arena, or in several. Which values share a storage
/// (views, writes in place, gradients accumulated into one) is settled before, by the liveness analysis, from what
/// the host's traits say of each output; where storages lie is settled by the solvers in arena/.
///
/// How long the search for a smaller arena may go on is a number of seconds, but it is spent as a fixed amount
/// of work (arena/anytime.hpp): the same steps, options and limit give the same plan, byte for byte, on every
/// machine and at every load. The search ends as soon as the arena is as small as the bound, which is at once on
/// most training graphs.
#pragma once

#include <echo/analysis/memory/memory_options.hpp>
#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>

namespace echo {

/// An offset for every storage that is not resident, so that no two which are live at one step overlap.
/// Workspace lies outside the arena. The arena is as small as `lower_bound()` on most training graphs.
/// Deterministic; a larger limit never gives a larger arena (of one; several are either found or not). Errors: an
/// alignment or granularity of 0, a limit that is negative or NaN, sizes that do not fit, no room within
/// `capacities` (the error names the largest storage left over), a `pool` together with `capacities`, and those of
/// `liveness_analysis`.
/// O(steps + copies + n log n) for n storages, and what the limit allows where the bound is not reached at once.
[[nodiscard]] ECHO_INLINE memory_plan plan_memory(const snapshot& s, const schedule& steps,
                                                  const memory_options& options = {});

/// The same for a plan's steps, at the same cost. Errors: as above.
[[nodiscard]] ECHO_INLINE memory_plan plan_memory(const snapshot& s, const plan& p,
                                                  const memory_options& options = {});

} // namespace echo

#ifndef ECHO_CORE
#include <echo/analysis/detail/plan_memory_impl.hpp>
#endif
