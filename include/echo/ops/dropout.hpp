// SPDX-License-Identifier: BSL-1.0
/// @file
/// Dropout with its mask as an output.
#pragma once

#include <echo/op_traits.hpp>

#include <ratio>
#include <string_view>
#include <tuple>

namespace echo {

/// x → y and mask (1 where the element was kept). Kept elements are scaled so that the mean stays. The
/// gradient needs one bit of the mask. Srivastava et al., 2014.
template <class Rate = std::ratio<1, 10>>
struct dropout_op {
    static constexpr std::string_view name = "dropout_op";
    static constexpr bool is_random = true;
    /// The part of the elements that is dropped.
    static constexpr double rate = static_cast<double>(Rate::num) / static_cast<double>(Rate::den);
    /// What the others are multiplied by.
    static constexpr double scale = 1 / (1 - rate);
    static_assert(0 <= rate && rate < 1, "echo: a dropout rate is at least 0 and below 1");

    static constexpr auto forward = [](auto x, auto u) {
        const auto keep = u >= rate;
        return std::tuple{select(keep, x * scale, 0), select(keep, 1, 0)};
    };
    static constexpr auto gradient = [](auto dy, auto, auto, auto kept) {
        return select(kept > 0, dy * scale, 0);
    };
};
template <class Rate>
struct op_traits<dropout_op<Rate>> : random<dropout_op<Rate>> {};

/// Dropout's gradient as an op of its own, on (dy, mask): it needs one bit of the mask.
template <class Rate = std::ratio<1, 10>>
struct dropout_gradient_op {
    static constexpr std::string_view name = "dropout_gradient_op";
    static constexpr auto forward = [](auto dy, auto kept) {
        return select(kept > 0, dy * dropout_op<Rate>::scale, 0);
    };
};
template <class Rate>
struct op_traits<dropout_gradient_op<Rate>> : elementwise<dropout_gradient_op<Rate>> {};

} // namespace echo
