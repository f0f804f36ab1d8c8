// SPDX-License-Identifier: BSL-1.0
/// @file
/// Lambdas of element-wise ops that carry numbers: what the library's ops/ have as constants is told at run time
/// here.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace engine::ops {

/// x · factor.
struct scale_op {
    static constexpr std::size_t scalars = 1;
    static constexpr auto forward = [](auto x, auto factor) { return x * factor; };
    static constexpr auto gradient = [](auto dy, auto, auto factor, auto) {
        return std::tuple{dy * factor, echo::no_gradient{}};
    };
};

/// x + offset.
struct shift_op {
    static constexpr std::size_t scalars = 1;
    static constexpr auto forward = [](auto x, auto offset) { return x + offset; };
    static constexpr auto gradient = [](auto dy, auto, auto, auto) {
        return std::tuple{dy, echo::no_gradient{}};
    };
};

/// A copy: where a view or a shared value must have storage of its own.
struct copy_op {
    static constexpr auto forward = [](auto x) { return x; };
    static constexpr auto gradient = [](auto dy, auto, auto) { return dy; };
};

/// x → y and mask, with the rate told at run time. The gradient needs one bit of the mask.
struct dropout_op {
    static constexpr bool is_random = true;
    static constexpr std::size_t scalars = 1;
    static constexpr auto forward = [](auto x, auto rate, auto u) {
        const auto keep = u >= rate;
        return std::tuple{select(keep, x * (1 / (1 - rate)), 0), select(keep, 1, 0)};
    };
    static constexpr auto gradient = [](auto dy, auto, auto rate, auto, auto kept) {
        return std::tuple{select(kept > 0, dy * (1 / (1 - rate)), 0), echo::no_gradient{}};
    };
};

/// The normalised x of its channel's statistics, gamma and beta; nothing flows back through it alone.
struct normalise_op {
    static constexpr std::size_t scalars = 1;
    static constexpr auto forward = [](auto x, auto gamma, auto beta, auto mean, auto variance,
                                       auto epsilon) {
        return (x - mean) * (gamma / sqrt(variance + epsilon)) + beta;
    };
};

} // namespace engine::ops

template <>
struct echo::op_traits<engine::ops::scale_op> : echo::elementwise<engine::ops::scale_op> {};
template <>
struct echo::op_traits<engine::ops::shift_op> : echo::elementwise<engine::ops::shift_op> {};
template <>
struct echo::op_traits<engine::ops::copy_op> : echo::elementwise<engine::ops::copy_op> {};
template <>
struct echo::op_traits<engine::ops::normalise_op> : echo::light<engine::ops::normalise_op> {};
template <>
struct echo::op_traits<engine::ops::dropout_op> : echo::random<engine::ops::dropout_op> {
    static constexpr bool draws_by_element = true; // Philox, counted by element
};
