// SPDX-License-Identifier: BSL-1.0
/// @file
/// Attention as one op, which does not write its scores out.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// softmax(q · kᵀ) · v with q [.., s, d] already scaled, k [.., t, d], v [.., t, e] → y [.., s, e] and the
/// logarithm of the softmax's sums [.., s, 1]. The gradient makes the scores again. Dao et al., 2022.
struct attention_op {
    static constexpr auto forward = [](auto q, auto k, auto v) {
        const auto scores = matmul_nt(q, k);
        const auto highest = max(scores, over(-1).keep());
        const auto weights = exp(scores - highest);
        const auto total = sum(weights, over(-1).keep());
        return std::tuple{matmul(weights, v) / total, highest + log(total)};
    };
    static constexpr auto gradient = [](auto dy, auto q, auto k, auto v, auto y, auto log_sum) {
        const auto weights = exp(matmul_nt(q, k) - log_sum);
        const auto change = weights * (matmul_nt(dy, v) - sum(dy * y, over(-1).keep()));
        return std::tuple{matmul(change, k), matmul_tn(change, q), matmul_tn(weights, dy)};
    };
};
template <>
struct op_traits<attention_op> : compute_heavy<attention_op> {};

/// Its gradient as an op of its own, on (dy, q, k, v, y, log_sum) → (dq, dk, dv).
struct attention_gradient_op {
    static constexpr auto forward = attention_op::gradient;
};
template <>
struct op_traits<attention_gradient_op> : compute_heavy<attention_gradient_op> {};

} // namespace echo
