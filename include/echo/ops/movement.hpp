// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops that place elements elsewhere (copies) and ops that only look at them differently (views). No gradient
/// of theirs reads a feature map.
#pragma once

#include <echo/op_traits.hpp>

namespace echo {

/// Its inputs one behind the other, in a new tensor.
struct concat_op {};
template <>
struct op_traits<concat_op> : data_movement<concat_op> {};
/// A part of its input, in a tensor of its own.
struct slice_copy_op {};
template <>
struct op_traits<slice_copy_op> : data_movement<slice_copy_op> {};
/// Axes in another order, in a tensor of its own.
struct transpose_copy_op {};
template <>
struct op_traits<transpose_copy_op> : data_movement<transpose_copy_op> {};
/// Repeated along axes, in a tensor of its own.
struct broadcast_copy_op {};
template <>
struct op_traits<broadcast_copy_op> : data_movement<broadcast_copy_op> {};
/// With elements added at the ends of axes.
struct pad_op {};
template <>
struct op_traits<pad_op> : data_movement<pad_op> {};
/// With elements of another type.
struct cast_op {};
template <>
struct op_traits<cast_op> : data_movement<cast_op> {};

/// The same elements with other extents, on the storage of input 0.
struct reshape_op {};
template <>
struct op_traits<reshape_op> : view<0> {};
/// A part of its input, on the input's storage.
struct slice_op {};
template <>
struct op_traits<slice_op> : view<0> {};
/// Axes in another order, on the input's storage.
struct transpose_op {};
template <>
struct op_traits<transpose_op> : view<0> {};
/// Repeated along axes, on the input's storage.
struct broadcast_op {};
template <>
struct op_traits<broadcast_op> : view<0> {};

} // namespace echo
