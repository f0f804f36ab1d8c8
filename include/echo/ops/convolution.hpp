// SPDX-License-Identifier: BSL-1.0
/// @file
/// Convolutions over one to three spatial axes: x [n, c, space..], weights [o, c / groups, kernel..].
#pragma once

#include <echo/op_traits.hpp>

#include <string_view>
#include <tuple>

namespace echo {

/// Without a stated window, shapes and FLOPs are read off the output that the host states.
template <window Window = window{}>
struct convolution_op {
    static constexpr std::string_view name = "convolution_op";
    static constexpr auto forward = [](auto x, auto w) { return convolution(x, w, Window); };
    static constexpr auto gradient = [](auto dy, auto x, auto w, auto) {
        return std::tuple{convolution_data_gradient(dy, w, shape_of(x), Window),
                          convolution_weight_gradient(dy, x, shape_of(w), Window)};
    };
};
template <window Window>
struct op_traits<convolution_op<Window>> : compute_heavy<convolution_op<Window>> {};

/// With a bias per output channel.
template <window Window = window{}>
struct biased_convolution_op {
    static constexpr std::string_view name = "biased_convolution_op";
    static constexpr auto forward = [](auto x, auto w, auto b) {
        const auto y = convolution(x, w, Window);
        return y + along_axis(b, 1, shape_of(y));
    };
    static constexpr auto gradient = [](auto dy, auto x, auto w, auto, auto) {
        return std::tuple{convolution_data_gradient(dy, w, shape_of(x), Window),
                          convolution_weight_gradient(dy, x, shape_of(w), Window), sum(dy, all_but(1))};
    };
};
template <window Window>
struct op_traits<biased_convolution_op<Window>> : compute_heavy<biased_convolution_op<Window>> {};

/// Both gradients as one op of their own, on (dy, x, w) → (dx, dw).
template <window Window = window{}>
struct convolution_gradient_op {
    static constexpr std::string_view name = "convolution_gradient_op";
    static constexpr auto forward = [](auto dy, auto x, auto w) {
        return std::tuple{convolution_data_gradient(dy, w, shape_of(x), Window),
                          convolution_weight_gradient(dy, x, shape_of(w), Window)};
    };
};
template <window Window>
struct op_traits<convolution_gradient_op<Window>> : compute_heavy<convolution_gradient_op<Window>> {};

} // namespace echo
