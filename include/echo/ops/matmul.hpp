// SPDX-License-Identifier: BSL-1.0
/// @file
/// Matrix products: plain, batched, and with a bias. Equation 2 of the Echo paper (Zheng et al., ISCA 2020):
/// their gradients read both inputs and not the output.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// a [.., m, k] · b [.., k, n] with equal leading axes: the batch_dot of attention.
struct batch_dot_op {
    static constexpr auto forward = [](auto a, auto b) { return matmul(a, b); };
    static constexpr auto gradient = [](auto dy, auto a, auto b, auto) {
        return std::tuple{matmul_nt(dy, b), matmul_tn(a, dy)};
    };
};
template <>
struct op_traits<batch_dot_op> : compute_heavy<batch_dot_op> {};

/// x [.., in] · w [out, in]ᵀ.
struct fully_connected_op {
    static constexpr auto forward = [](auto x, auto w) { return matmul_nt(x, w); };
    static constexpr auto gradient = [](auto dy, auto x, auto w, auto) {
        return std::tuple{matmul(dy, w), matmul_tn(rows(dy), rows(x))};
    };
};
template <>
struct op_traits<fully_connected_op> : compute_heavy<fully_connected_op> {};

/// x [.., in] · w [out, in]ᵀ + b [out].
struct biased_fully_connected_op {
    static constexpr auto forward = [](auto x, auto w, auto b) { return matmul_nt(x, w) + b; };
    static constexpr auto gradient = [](auto dy, auto x, auto w, auto, auto) {
        return std::tuple{matmul(dy, w), matmul_tn(rows(dy), rows(x)), sum(rows(dy), over(0))};
    };
};
template <>
struct op_traits<biased_fully_connected_op> : compute_heavy<biased_fully_connected_op> {};

/// c + a · b, with c broadcast.
struct add_matmul_op {
    static constexpr auto forward = [](auto c, auto a, auto b) { return c + matmul(a, b); };
    static constexpr auto gradient = [](auto dy, auto, auto a, auto b, auto) {
        return std::tuple{dy, matmul_nt(dy, b), matmul_tn(a, dy)};
    };
};
template <>
struct op_traits<add_matmul_op> : compute_heavy<add_matmul_op> {};

} // namespace echo
