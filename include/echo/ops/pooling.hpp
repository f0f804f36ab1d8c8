// SPDX-License-Identifier: BSL-1.0
/// @file
/// Pooling over one to three spatial axes: x [n, c, space..].
#pragma once

#include <echo/op_traits.hpp>

#include <string_view>

namespace echo {

/// Its gradient finds the maxima again by comparing x with y.
template <window Window = window{}>
struct max_pool_op {
    static constexpr std::string_view name = "max_pool_op";
    static constexpr auto forward = [](auto x) { return max_pool(x, Window); };
    static constexpr auto gradient = [](auto dy, auto x, auto y) {
        return max_pool_gradient(dy, x, y, Window);
    };
};
template <window Window>
struct op_traits<max_pool_op<Window>> : light<max_pool_op<Window>> {};

/// Its gradient reads nothing.
template <window Window = window{}>
struct mean_pool_op {
    static constexpr std::string_view name = "mean_pool_op";
    static constexpr auto forward = [](auto x) { return mean_pool(x, Window); };
    static constexpr auto gradient = [](auto dy, auto x, auto) {
        return mean_pool_gradient(dy, shape_of(x), Window);
    };
};
template <window Window>
struct op_traits<mean_pool_op<Window>> : light<mean_pool_op<Window>> {};

} // namespace echo
