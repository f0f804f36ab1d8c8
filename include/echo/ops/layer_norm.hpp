// SPDX-License-Identifier: BSL-1.0
/// @file
/// Layer normalisation over the last axis.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// x [.., d], gamma [d], beta [d] → y [.., d], mean [.., 1], reciprocal standard deviation [.., 1]. The
/// gradient reads x, gamma and both statistics. Ba et al., 2016; ε = 10⁻⁵.
struct layer_norm_op {
    static constexpr auto forward = [](auto x, auto gamma, auto beta) {
        const auto center = mean(x, over(-1).keep());
        const auto c = x - center;
        const auto scale = rsqrt(mean(c * c, over(-1).keep()) + 1e-5);
        return std::tuple{c * scale * gamma + beta, center, scale};
    };
    static constexpr auto gradient = [](auto dy, auto x, auto gamma, auto, auto, auto center, auto scale) {
        const auto normal = (x - center) * scale;
        const auto g = dy * gamma;
        const auto dx = scale * (g - mean(g, over(-1).keep()) - normal * mean(g * normal, over(-1).keep()));
        return std::tuple{dx, sum(dy * normal, all_but(-1)), sum(dy, all_but(-1))};
    };
};
template <>
struct op_traits<layer_norm_op> : normalisation<layer_norm_op> {};

/// x [.., d], gamma [d] → y [.., d] and the reciprocal root mean square [.., 1]. Zhang and Sennrich, 2019.
struct rms_norm_op {
    static constexpr auto forward = [](auto x, auto gamma) {
        const auto scale = rsqrt(mean(x * x, over(-1).keep()) + 1e-5);
        return std::tuple{x * scale * gamma, scale};
    };
    static constexpr auto gradient = [](auto dy, auto x, auto gamma, auto, auto scale) {
        const auto normal = x * scale;
        const auto g = dy * gamma;
        return std::tuple{scale * (g - normal * mean(g * normal, over(-1).keep())),
                          sum(dy * normal, all_but(-1))};
    };
};
template <>
struct op_traits<rms_norm_op> : normalisation<rms_norm_op> {};

} // namespace echo
