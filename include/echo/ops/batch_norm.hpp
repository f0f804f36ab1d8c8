// SPDX-License-Identifier: BSL-1.0
/// @file
/// Batch normalisation in training, per channel (axis 1).
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// x [n, c, ..], gamma [c], beta [c] → y, mean [c], reciprocal standard deviation [c]. Pure: the running
/// statistics are somebody else's to update. The gradient reads x, gamma and both statistics. Ioffe and
/// Szegedy, 2015; ε = 10⁻⁵.
struct batch_norm_op {
    static constexpr auto forward = [](auto x, auto gamma, auto beta) {
        const auto like = shape_of(x);
        const auto center = mean(x, all_but(1));
        const auto c = x - along_axis(center, 1, like);
        const auto scale = rsqrt(mean(c * c, all_but(1)) + 1e-5);
        return std::tuple{c * along_axis(scale * gamma, 1, like) + along_axis(beta, 1, like), center, scale};
    };
    static constexpr auto gradient = [](auto dy, auto x, auto gamma, auto, auto, auto center, auto scale) {
        const auto like = shape_of(x);
        const auto normal = (x - along_axis(center, 1, like)) * along_axis(scale, 1, like);
        const auto to_beta = sum(dy, all_but(1));
        const auto to_gamma = sum(dy * normal, all_but(1));
        const auto dx = along_axis(scale * gamma, 1, like) *
                        (dy - mean(dy, all_but(1).keep()) - normal * mean(dy * normal, all_but(1).keep()));
        return std::tuple{dx, to_gamma, to_beta};
    };
};
template <>
struct op_traits<batch_norm_op> : normalisation<batch_norm_op> {};

/// The same op where it also updates its running statistics: a second run would update them twice.
struct updating_batch_norm_op : batch_norm_op {};
/// Batch normalisation that moves its running statistics: it has a side effect and runs once.
template <>
struct op_traits<updating_batch_norm_op> : normalisation<updating_batch_norm_op> {
    static constexpr rerun_kind rerun = rerun_kind::never;
};

} // namespace echo
