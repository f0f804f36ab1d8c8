// SPDX-License-Identifier: BSL-1.0
/// @file
/// Activation functions. What each gradient reads, input or output, decides what a graph must stash.
#pragma once

#include <echo/op_traits.hpp>

namespace echo {

/// Reads y only: the attention of a translation model saves its largest feature maps by it.
struct tanh_op {
    static constexpr auto forward = [](auto x) { return tanh(x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return dy * (1 - y * y); };
};
template <>
struct op_traits<tanh_op> : elementwise<tanh_op> {};

/// 1 / (1 + e^−x). The gradient reads the output.
struct sigmoid_op {
    static constexpr auto forward = [](auto x) { return sigmoid(x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return dy * y * (1 - y); };
};
template <>
struct op_traits<sigmoid_op> : elementwise<sigmoid_op> {};

/// Needs the sign of y: one bit per element.
struct relu_op {
    static constexpr auto forward = [](auto x) { return max(x, 0); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(y > 0, dy, 0); };
};
template <>
struct op_traits<relu_op> : elementwise<relu_op> {};

/// ReLU's gradient as an op of its own, on (dy, y): it needs one bit of its second input.
struct relu_gradient_op {
    static constexpr auto forward = [](auto dy, auto y) { return select(y > 0, dy, 0); };
};
template <>
struct op_traits<relu_gradient_op> : elementwise<relu_gradient_op> {};

/// Slope 0.01 below 0, so that y has the sign of x.
struct leaky_relu_op {
    static constexpr auto forward = [](auto x) { return select(x > 0, x, 0.01 * x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(y > 0, dy, 0.01 * dy); };
};
template <>
struct op_traits<leaky_relu_op> : elementwise<leaky_relu_op> {};

/// min(max(x, 0), 6). Its gradient compares x twice, which one bit per element (x > 0) does not hold.
struct relu6_op {
    static constexpr auto forward = [](auto x) { return min(max(x, 0), 6); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return select(x > 0 && x < 6, dy, 0); };
};
template <>
struct op_traits<relu6_op> : elementwise<relu6_op> {};

/// x, or e^x − 1 below 0. The gradient reads the output.
struct elu_op {
    static constexpr auto forward = [](auto x) { return select(x > 0, x, exp(min(x, 0)) - 1); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(y > 0, dy, dy * (y + 1)); };
};
template <>
struct op_traits<elu_op> : elementwise<elu_op> {};

/// x · Φ(x), exactly. Hendrycks and Gimpel, 2016.
struct gelu_op {
    static constexpr auto forward = [](auto x) { return 0.5 * x * (1 + erf(x * 0.7071067811865476)); };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        const auto distribution = 0.5 * (1 + erf(x * 0.7071067811865476));
        const auto density = 0.3989422804014327 * exp(-0.5 * x * x);
        return dy * (distribution + x * density);
    };
};
template <>
struct op_traits<gelu_op> : elementwise<gelu_op> {};

/// GELU by its tanh approximation.
struct gelu_tanh_op {
    static constexpr auto forward = [](auto x) {
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        const auto t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
        const auto slope = 0.7978845608028654 * (1 + 0.134145 * x * x);
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
    };
};
template <>
struct op_traits<gelu_tanh_op> : elementwise<gelu_tanh_op> {};

/// x · sigmoid(x).
struct silu_op {
    static constexpr auto forward = [](auto x) { return x * sigmoid(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        const auto s = sigmoid(x);
        return dy * s * (1 + x * (1 - s));
    };
};
template <>
struct op_traits<silu_op> : elementwise<silu_op> {};

/// log(1 + eˣ), without overflow for large x.
struct softplus_op {
    static constexpr auto forward = [](auto x) { return max(x, 0) + log(1 + exp(-abs(x))); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return dy * sigmoid(x); };
};
template <>
struct op_traits<softplus_op> : elementwise<softplus_op> {};

/// x · min(max(x + 3, 0), 6) / 6.
struct hard_swish_op {
    static constexpr auto forward = [](auto x) { return x * min(max(x + 3, 0), 6) / 6; };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        return select(x > -3, select(x < 3, dy * (x / 3 + 0.5), dy), 0);
    };
};
template <>
struct op_traits<hard_swish_op> : elementwise<hard_swish_op> {};

} // namespace echo
