// SPDX-License-Identifier: BSL-1.0
/// @file
/// Functions on whole symbolic tensors: products, convolutions, pooling, reductions, movement. Each states
/// its shapes and its FLOPs; infer.hpp evaluates them. They have no CPU value: element-wise ops alone have
/// one.
#pragma once

#include <echo/symbol/expression.hpp>

namespace echo::symbol {

/// The shape of `a` without its data: reading it keeps nothing alive.
template <numeric A>
constexpr auto shape_of(A a) noexcept {
    return make<operation::shape_of>(a);
}

/// [.., m, k] · [.., k, n] → [.., m, n], leading axes broadcast. 2·m·n·k FLOPs per matrix.
template <numeric A, numeric B>
constexpr auto matmul(A a, B b) noexcept {
    return make_with<operation::matmul>({}, a, b);
}
/// a · bᵀ: [.., m, k] · [.., n, k] → [.., m, n].
template <numeric A, numeric B>
constexpr auto matmul_nt(A a, B b) noexcept {
    return make_with<operation::matmul>({.transposed = {false, true}}, a, b);
}
/// aᵀ · b: [.., k, m] · [.., k, n] → [.., m, n].
template <numeric A, numeric B>
constexpr auto matmul_tn(A a, B b) noexcept {
    return make_with<operation::matmul>({.transposed = {true, false}}, a, b);
}
/// Swaps the last two axes.
template <numeric A>
constexpr auto transpose(A a) noexcept {
    return make<operation::transpose>(a);
}
/// [.., k] → [product of the rest, k].
template <numeric A>
constexpr auto rows(A a) noexcept {
    return make<operation::rows>(a);
}

/// Sum, mean or maximum over axes. One FLOP per element read (mean: and one per element written).
template <numeric A>
constexpr auto sum(A a, axes over) noexcept {
    return make_with<operation::sum>({.axes = over}, a);
}
/// Mean over those axes. One FLOP per element read, and one per element written.
template <numeric A>
constexpr auto mean(A a, axes over) noexcept {
    return make_with<operation::mean>({.axes = over}, a);
}
/// Largest over those axes. One FLOP per element read.
template <numeric A>
constexpr auto max(A a, axes over) noexcept {
    return make_with<operation::max_over>({.axes = over}, a);
}

/// Repeats `a` to `like`: the reverse of a reduction. Axes that the reduction dropped come back.
template <numeric A, shape_only S>
constexpr auto broadcast(A a, S like) noexcept {
    return make<operation::broadcast>(a, like);
}
/// The gradient of a mean: `broadcast`, each element divided by how often it is repeated. One FLOP per
/// element of the result.
template <numeric A, shape_only S>
constexpr auto broadcast_mean(A a, S like) noexcept {
    return make<operation::broadcast_mean>(a, like);
}
/// [c] → c along that axis of `like`, extents of 1 elsewhere: a bias per channel.
template <numeric A, shape_only S>
constexpr auto along_axis(A a, int axis, S like) noexcept {
    return make_with<operation::along_axis>({.number = static_cast<double>(axis)}, a, like);
}

/// Rows of a table: w [v, ..], indices [i..] → [i.., ..].
template <numeric W, numeric I>
constexpr auto gather_rows(W w, I indices) noexcept {
    return make<operation::gather_rows>(w, indices);
}
/// Adds each row of `values` to the row of a zeroed table [v, ..] that its index names. One FLOP per element.
template <numeric V, numeric I, shape_only S>
constexpr auto scatter_rows(V values, I indices, S table) noexcept {
    return make<operation::scatter_rows>(values, indices, table);
}
/// 1 where the last axis of `like` equals the label, else 0: labels [i..] → `like` [i.., classes].
template <numeric I, shape_only S>
constexpr auto one_hot(I labels, S like) noexcept {
    return make<operation::one_hot>(labels, like);
}

/// x [n, c, space..] with weights w [o, c / groups, kernel..] → [n, o, space'..]. FLOPs: 2 · elements of the
/// result · elements of w / o. The gradients below cost the same.
template <numeric X, numeric W>
constexpr auto convolution(X x, W w, window g = {}) noexcept {
    return make_with<operation::convolution>({.window = g}, x, w);
}
/// The gradient of a convolution's data, of the shape of `x`.
template <numeric D, numeric W, shape_only S>
constexpr auto convolution_data_gradient(D dy, W w, S x, window g = {}) noexcept {
    return make_with<operation::convolution_data_gradient>({.window = g}, dy, w, x);
}
/// The gradient of a convolution's weights, of the shape of `w`.
template <numeric D, numeric X, shape_only S>
constexpr auto convolution_weight_gradient(D dy, X x, S w, window g = {}) noexcept {
    return make_with<operation::convolution_weight_gradient>({.window = g}, dy, x, w);
}

/// x [n, c, space..] → [n, c, space'..]. FLOPs: elements of the result (the gradients: of dy) · kernel.
template <numeric X>
constexpr auto max_pool(X x, window g) noexcept {
    return make_with<operation::max_pool>({.window = g}, x);
}
/// Mean within each window.
template <numeric X>
constexpr auto mean_pool(X x, window g) noexcept {
    return make_with<operation::mean_pool>({.window = g}, x);
}
/// Finds each maximum again by comparing x with y.
template <numeric D, numeric X, numeric Y>
constexpr auto max_pool_gradient(D dy, X x, Y y, window g) noexcept {
    return make_with<operation::max_pool_gradient>({.window = g}, dy, x, y);
}
/// The gradient of a mean within windows, of the shape of `x`.
template <numeric D, shape_only S>
constexpr auto mean_pool_gradient(D dy, S x, window g) noexcept {
    return make_with<operation::mean_pool_gradient>({.window = g}, dy, x);
}

} // namespace echo::symbol
