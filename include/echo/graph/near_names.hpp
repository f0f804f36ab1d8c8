// SPDX-License-Identifier: BSL-1.0
/// @file
/// Names that are nearly those of a member of `graph_traits`. Echo would not look at such a member, and nobody would
/// hear of it; so it is refused, if the traits have no member of the right name. Beside one, it may be a helper.
#pragma once

#include <echo/graph/optional_members.hpp>

namespace echo::detail {

// clang-format off
/// Calls `near(NAME, CONCEPT, NEAR)` for the names that an optional member may be misspelt as. Is not left defined.
#define ECHO_NEAR_NAMES(near) \
    near(name, has_name, names) near(name, has_name, get_name) near(name, has_name, node_name) \
    near(layer, has_layer, layers) near(layer, has_layer, get_layer) near(layer, has_layer, layer_name) \
    near(control, has_control, controls) near(control, has_control, get_control) \
    near(control, has_control, control_inputs) near(control, has_control, control_deps) \
    near(control, has_control, control_dependencies) near(control, has_control, contol) \
    near(writes, has_writes, write) near(writes, has_writes, get_writes) near(writes, has_writes, writes_to) \
    near(flops, has_flops, flop) near(flops, has_flops, get_flops) near(flops, has_flops, FLOPs) \
    near(workspace, has_workspace, workspaces) near(workspace, has_workspace, work_space) \
    near(workspace, has_workspace, workspace_bytes) near(workspace, has_workspace, get_workspace) \
    near(time_us, has_time, times_us) near(time_us, has_time, time) near(time_us, has_time, times) \
    near(time_us, has_time, time_ms) near(time_us, has_time, time_ns) near(time_us, has_time, timeus) \
    near(time_us, has_time, get_time_us) near(time_us, has_time, time_usec) \
    near(keep, has_keep, keeps) near(keep, has_keep, kept) near(keep, has_keep, must_keep) \
    near(may_fuse, has_may_fuse, can_fuse) near(may_fuse, has_may_fuse, mayfuse) \
    near(may_fuse, has_may_fuse, may_be_fused) near(may_fuse, has_may_fuse, fusible) \
    near(index, has_index, indices) near(index, has_index, index_of) near(index, has_index, get_index) \
    near(trainable, has_trainable, is_trainable) near(trainable, has_trainable, trainables) \
    near(trainable, has_trainable, trainable_input) near(trainable, has_trainable, requires_grad) \
    near(complete, states_completeness, is_complete) near(complete, states_completeness, completed) \
    near(gradient_of, has_gradient_of, gradients_of) near(gradient_of, has_gradient_of, grad_of) \
    near(clone, has_clone, clones) near(clone, has_clone, clone_node) \
    near(redirect, has_redirect, redirects) near(redirect, has_redirect, redirect_input) \
    near(redirect_result, can_redirect_result, redirect_results) \
    near(redirect_result, can_redirect_result, redirect_output) \
    near(move, can_move, moves) near(move, can_move, move_node) near(move, can_move, move_before) \
    near(encode, can_encode, encodes) near(encode, can_encode, encode_value) \
    near(fuse, can_fuse, fuses) near(fuse, can_fuse, fuse_node) \
    near(erase, can_erase, erases) near(erase, can_erase, erase_node) near(erase, can_erase, remove_node) \
    near(gradient, can_differentiate, gradients) near(gradient, can_differentiate, grad) \
    near(seed, can_seed, seeds) near(seed, can_seed, seed_gradient) \
    near(sum, can_sum, sums) near(sum, can_sum, sum_gradients) \
    near(accumulate, can_accumulate, accumulates) near(accumulate, can_accumulate, acumulate) \
    near(infer, can_infer, infers) near(infer, can_infer, infer_shapes) near(infer, can_infer, infer_shape) \
    near(set_outputs, can_set_outputs, set_output) near(set_outputs, can_set_outputs, setoutputs)
/// Calls `near(NEAR)` for the names that a required member may be misspelt as. Is not left defined.
#define ECHO_NEAR_REQUIRED_NAMES(near) near(get_nodes) near(input) near(output) near(phases) near(result) near(fact)
// clang-format on

/// Whether there is a public member of that name; one of several overloads is not seen. Is not left defined.
#define ECHO_MEMBER_NAMED(NAME)                                                                              \
    template <class T>                                                                                       \
    concept has_member_##NAME = requires { &T::NAME; };
/// The same, of a row of the table. Is not left defined.
#define ECHO_NEAR_MEMBER(NAME, CONCEPT, NEAR) ECHO_MEMBER_NAMED(NEAR)
ECHO_NEAR_NAMES(ECHO_NEAR_MEMBER)
ECHO_NEAR_REQUIRED_NAMES(ECHO_MEMBER_NAMED)
#undef ECHO_NEAR_MEMBER
#undef ECHO_NEAR_REQUIRED_NAMES
#undef ECHO_MEMBER_NAMED

/// Whether no member has a name that is nearly that of one it lacks.
template <class G>
concept has_no_near_misses =
/// @cond
#define ECHO_NEAR_MISSED(NAME, CONCEPT, NEAR) (!has_member_##NEAR<graph_traits<G>> || CONCEPT<G>)&&
    ECHO_NEAR_NAMES(ECHO_NEAR_MISSED) true;
#undef ECHO_NEAR_MISSED
/// @endcond

/// True; it does not compile where `graph_traits<G>` has a member whose name is nearly that of one it lacks.
template <class G>
consteval bool no_name_is_a_near_miss() {
/// @cond
// Refuses a near miss. Is not left defined.
#define ECHO_NEAR_CHECKED(NAME, CONCEPT, NEAR)                                                               \
    static_assert(!has_member_##NEAR<graph_traits<G>> || CONCEPT<G>,                                         \
                  "echo::graph_traits<G>::" #NEAR                                                            \
                  " is no member that Echo knows and would be ignored: call it " #NAME                       \
                  ", or make it private if it is a helper (see the head of echo/graph/graph_traits.hpp)");
    ECHO_NEAR_NAMES(ECHO_NEAR_CHECKED)
#undef ECHO_NEAR_CHECKED
    /// @endcond
    return true;
}
#undef ECHO_NEAR_NAMES

} // namespace echo::detail
