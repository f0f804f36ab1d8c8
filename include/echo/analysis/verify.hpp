// SPDX-License-Identifier: BSL-1.0
/// @file
/// `verify`: whether a plan, and a memory plan for it, keep every rule of docs/formats.md and say the truth about
/// what they achieve. It shares no code with what makes plans: only the data types of graph, steps and plans.
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/plan.hpp>

namespace echo {

/// Accepts a plan that can be carried out on the graph by a host of the plan's abilities, whose every reader
/// finds the very value it read before, and whose report is true; its peak is not above the baseline's.
/// `device` is the one that the plan was made for. A node that nothing needs may run, but not be recomputed.
/// What is fused is a light op, or a view, that makes the same bits in any kernel, inside light ops: more than
/// docs/formats.md asks, and all that a host which fuses is taken to be able to do.
/// Not checked: which heavy nodes rerun (a strategy's own restraint), the number of subgraphs, the notes, and
/// that `lower_bound_bytes` is a bound beyond lying not above the peak.
/// Errors: the first rule broken, with the node, or the step or entry of the report, that breaks it.
/// O(nodes + edges + steps + copies read).
ECHO_INLINE void verify(const snapshot& s, const plan& p, const device_model& device = {});

/// As above, and the memory plan holds each non-resident storage of the plan's steps in one block of its own
/// that no other storage live at the same time touches, and tells the same offset to all who ask.
/// O(nodes + edges + steps + copies read + blocks log blocks). Errors: as above, and the block
/// or the storage that breaks a rule of the arena.
ECHO_INLINE void verify(const snapshot& s, const plan& p, const memory_plan& m,
                        const device_model& device = {});

} // namespace echo

#ifndef ECHO_CORE
#include <echo/analysis/detail/verify_impl.hpp>
#endif
