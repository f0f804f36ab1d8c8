// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sums, means and maxima over axes (all of them by default).
#pragma once

#include <echo/op_traits.hpp>

#include <string_view>

namespace echo {

/// Its gradient reads nothing: of x the shape alone.
template <axes Axes = all_but()>
struct sum_op {
    static constexpr std::string_view name = "sum_op";
    static constexpr auto forward = [](auto x) { return sum(x, Axes); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return broadcast(dy, shape_of(x)); };
};
template <axes Axes>
struct op_traits<sum_op<Axes>> : reduction<sum_op<Axes>> {};

/// Its gradient reads nothing but shapes.
template <axes Axes = all_but()>
struct mean_op {
    static constexpr std::string_view name = "mean_op";
    static constexpr auto forward = [](auto x) { return mean(x, Axes); };
    static constexpr auto gradient = [](auto dy, auto x, auto) { return broadcast_mean(dy, shape_of(x)); };
};
template <axes Axes>
struct op_traits<mean_op<Axes>> : reduction<mean_op<Axes>> {};

/// Its gradient goes to every element equal to the maximum: it reads x and y.
template <axes Axes = all_but()>
struct max_op {
    static constexpr std::string_view name = "max_op";
    static constexpr auto forward = [](auto x) { return max(x, Axes); };
    static constexpr auto gradient = [](auto dy, auto x, auto y) {
        return select(x == broadcast(y, shape_of(x)), broadcast(dy, shape_of(x)), 0);
    };
};
template <axes Axes>
struct op_traits<max_op<Axes>> : reduction<max_op<Axes>> {};

} // namespace echo
