// SPDX-License-Identifier: BSL-1.0
/// @file
/// The backward skeleton of a forward-only host: one gradient node per op in reverse order, reading what the
/// op's `gradient_reads` says, outputs sized like the op's inputs; a second gradient of one value is added in
/// place. This is the paper's dummy gradient node (its section on runtime overhead estimation), for whole
/// graphs.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot_builder.hpp>

namespace echo::detail {

/// Appends the backward skeleton of the forward nodes in `builder`; `facts[n]` are those of node n,
/// `trainable[n]` says whether the gradient of input node n is a result. O(nodes + edges).
ECHO_INLINE void add_backward_skeleton(snapshot_builder& builder, const id_vector<node_id, op_facts>& facts,
                                       const id_set<node_id>& trainable);

} // namespace echo::detail

#ifndef ECHO_CORE
#include <echo/graph/detail/skeleton_impl.hpp>
#endif
