// SPDX-License-Identifier: BSL-1.0
/// @file
/// Softmax, its logarithm, and cross entropy behind it. The largest element is subtracted first.
#pragma once

#include <echo/op_traits.hpp>

#include <string_view>
#include <tuple>

namespace echo {

/// Along one axis. Its gradient reads y only, and both run in place.
template <int Axis = -1>
struct softmax_op {
    static constexpr std::string_view name = "softmax_op";
    static constexpr auto forward = [](auto x) {
        const auto e = exp(x - max(x, over(Axis).keep()));
        return e / sum(e, over(Axis).keep());
    };
    static constexpr auto gradient = [](auto dy, auto, auto y) {
        return y * (dy - sum(dy * y, over(Axis).keep()));
    };
};
/// Each row is read before it is written.
template <int Axis>
struct op_traits<softmax_op<Axis>> : normalisation<softmax_op<Axis>> {
    static constexpr storage_pairs inplace{{0, 0}};
    static constexpr bool gradient_inplace = true;
};

/// Its gradient reads y only.
template <int Axis = -1>
struct log_softmax_op {
    static constexpr std::string_view name = "log_softmax_op";
    static constexpr auto forward = [](auto x) {
        const auto c = x - max(x, over(Axis).keep());
        return c - log(sum(exp(c), over(Axis).keep()));
    };
    static constexpr auto gradient = [](auto dy, auto, auto y) {
        return dy - exp(y) * sum(dy, over(Axis).keep());
    };
};
/// Each row is read before it is written.
template <int Axis>
struct op_traits<log_softmax_op<Axis>> : normalisation<log_softmax_op<Axis>> {
    static constexpr storage_pairs inplace{{0, 0}};
    static constexpr bool gradient_inplace = true;
};

/// Scores [.., classes] and labels [..] → loss per row [..] and probabilities [.., classes]. The gradient
/// reads labels and probabilities.
struct softmax_cross_entropy_op {
    static constexpr auto forward = [](auto x, auto labels) {
        const auto c = x - max(x, over(-1).keep());
        const auto e = exp(c);
        const auto total = sum(e, over(-1).keep());
        return std::tuple{sum(one_hot(labels, shape_of(x)) * (log(total) - c), over(-1)), e / total};
    };
    static constexpr auto gradient = [](auto dy, auto, auto labels, auto, auto p) {
        return std::tuple{broadcast(dy, shape_of(p)) * (p - one_hot(labels, shape_of(p))), no_gradient{}};
    };
};
/// The probabilities may be written over the scores.
template <>
struct op_traits<softmax_cross_entropy_op> : normalisation<softmax_cross_entropy_op> {
    static constexpr storage_pairs inplace{{1, 0}};
};

} // namespace echo
