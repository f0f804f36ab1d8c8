// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise arithmetic: sums, products, powers, roots, comparisons of two tensors.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// a + b. Its gradient reads nothing.
struct add_op {
    static constexpr auto forward = [](auto a, auto b) { return a + b; };
    static constexpr auto gradient = [](auto dy, auto, auto, auto) { return std::tuple{dy, dy}; };
};
template <>
struct op_traits<add_op> : elementwise<add_op> {};

/// a − b.
struct subtract_op {
    static constexpr auto forward = [](auto a, auto b) { return a - b; };
    static constexpr auto gradient = [](auto dy, auto, auto, auto) { return std::tuple{dy, -dy}; };
};
template <>
struct op_traits<subtract_op> : elementwise<subtract_op> {};

/// a · b. Its gradient reads both inputs.
struct multiply_op {
    static constexpr auto forward = [](auto a, auto b) { return a * b; };
    static constexpr auto gradient = [](auto dy, auto a, auto b, auto) { return std::tuple{dy * b, dy * a}; };
};
template <>
struct op_traits<multiply_op> : elementwise<multiply_op> {};

/// a / b.
struct divide_op {
    static constexpr auto forward = [](auto a, auto b) { return a / b; };
    static constexpr auto gradient = [](auto dy, auto a, auto b, auto) {
        return std::tuple{dy / b, -dy * a / (b * b)};
    };
};
template <>
struct op_traits<divide_op> : elementwise<divide_op> {};

/// −x.
struct negate_op {
    static constexpr auto forward = [](auto x) { return -x; };
    static constexpr auto gradient = [](auto dy, auto, auto) { return -dy; };
};
template <>
struct op_traits<negate_op> : elementwise<negate_op> {};

/// 1 / x.
struct reciprocal_op {
    static constexpr auto forward = [](auto x) { return 1 / x; };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return -dy * y * y; };
};
template <>
struct op_traits<reciprocal_op> : elementwise<reciprocal_op> {};

/// |x|, with gradient 0 at 0.
struct abs_op {
    static constexpr auto forward = [](auto x) { return abs(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        return select(x > 0, dy, select(x < 0, -dy, 0));
    };
};
template <>
struct op_traits<abs_op> : elementwise<abs_op> {};

/// x².
struct square_op {
    static constexpr auto forward = [](auto x) { return x * x; };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return 2 * dy * x; };
};
template <>
struct op_traits<square_op> : elementwise<square_op> {};

/// √x.
struct sqrt_op {
    static constexpr auto forward = [](auto x) { return sqrt(x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return dy / (2 * y); };
};
template <>
struct op_traits<sqrt_op> : elementwise<sqrt_op> {};

/// 1 / √x.
struct rsqrt_op {
    static constexpr auto forward = [](auto x) { return rsqrt(x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return -0.5 * dy * y * y * y; };
};
template <>
struct op_traits<rsqrt_op> : elementwise<rsqrt_op> {};

/// xᵖ of two tensors, for x > 0.
struct pow_op {
    static constexpr auto forward = [](auto x, auto p) { return pow(x, p); };
    static constexpr auto gradient = [](auto dy, auto x, auto p, auto y) {
        return std::tuple{dy * p * pow(x, p - 1), dy * y * log(x)};
    };
};
template <>
struct op_traits<pow_op> : elementwise<pow_op> {};

/// eˣ. Its gradient reads y only.
struct exp_op {
    static constexpr auto forward = [](auto x) { return exp(x); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return dy * y; };
};
template <>
struct op_traits<exp_op> : elementwise<exp_op> {};

/// Natural logarithm.
struct log_op {
    static constexpr auto forward = [](auto x) { return log(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return dy / x; };
};
template <>
struct op_traits<log_op> : elementwise<log_op> {};

/// sin x. The gradient reads the input.
struct sin_op {
    static constexpr auto forward = [](auto x) { return sin(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return dy * cos(x); };
};
template <>
struct op_traits<sin_op> : elementwise<sin_op> {};

/// cos x. The gradient reads the input.
struct cos_op {
    static constexpr auto forward = [](auto x) { return cos(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return -dy * sin(x); };
};
template <>
struct op_traits<cos_op> : elementwise<cos_op> {};

/// The error function.
struct erf_op {
    static constexpr auto forward = [](auto x) { return erf(x); };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        return dy * 1.1283791670955126 * exp(-x * x); // 2 / √π
    };
};
template <>
struct op_traits<erf_op> : elementwise<erf_op> {};

/// The larger of two; where they are equal, the gradient goes to the first.
struct maximum_op {
    static constexpr auto forward = [](auto a, auto b) { return max(a, b); };
    static constexpr auto gradient = [](auto dy, auto a, auto b, auto) {
        return std::tuple{select(a >= b, dy, 0), select(a >= b, 0, dy)};
    };
};
template <>
struct op_traits<maximum_op> : elementwise<maximum_op> {};

/// The smaller of two; where they are equal, the gradient goes to the first.
struct minimum_op {
    static constexpr auto forward = [](auto a, auto b) { return min(a, b); };
    static constexpr auto gradient = [](auto dy, auto a, auto b, auto) {
        return std::tuple{select(a <= b, dy, 0), select(a <= b, 0, dy)};
    };
};
template <>
struct op_traits<minimum_op> : elementwise<minimum_op> {};

/// a where the condition holds (is above 0), else b. It and its gradient need one bit of the condition.
struct where_op {
    static constexpr auto forward = [](auto condition, auto a, auto b) {
        return select(condition > 0, a, b);
    };
    static constexpr auto gradient = [](auto dy, auto condition, auto, auto, auto) {
        return std::tuple{no_gradient{}, select(condition > 0, dy, 0), select(condition > 0, 0, dy)};
    };
};
template <>
struct op_traits<where_op> : elementwise<where_op> {};

/// 1 where a > b, else 0. Nothing flows back.
struct greater_op {
    static constexpr auto forward = [](auto a, auto b) { return select(a > b, 1, 0); };
    static constexpr auto gradient = no_gradient{};
};
template <>
struct op_traits<greater_op> : elementwise<greater_op> {};

} // namespace echo
