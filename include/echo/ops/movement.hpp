// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops that place elements elsewhere (copies) and ops that only look at them differently (views). No gradient
/// of theirs reads a feature map.
#pragma once

#include <echo/op_traits.hpp>

namespace echo {

/// Copies into a new tensor.
struct concat_op {};
template <>
struct op_traits<concat_op> : data_movement<concat_op> {};
struct slice_copy_op {};
template <>
struct op_traits<slice_copy_op> : data_movement<slice_copy_op> {};
struct transpose_copy_op {};
template <>
struct op_traits<transpose_copy_op> : data_movement<transpose_copy_op> {};
struct broadcast_copy_op {};
template <>
struct op_traits<broadcast_copy_op> : data_movement<broadcast_copy_op> {};
struct pad_op {};
template <>
struct op_traits<pad_op> : data_movement<pad_op> {};
struct cast_op {};
template <>
struct op_traits<cast_op> : data_movement<cast_op> {};

/// Views of input 0.
struct reshape_op {};
template <>
struct op_traits<reshape_op> : view<0> {};
struct slice_op {};
template <>
struct op_traits<slice_op> : view<0> {};
struct transpose_op {};
template <>
struct op_traits<transpose_op> : view<0> {};
struct broadcast_op {};
template <>
struct op_traits<broadcast_op> : view<0> {};

} // namespace echo
