// SPDX-License-Identifier: BSL-1.0
/// @file
/// Arithmetic that gives the same result whatever the compiler is told about floating point (`-ffast-math`, fused
/// multiply-add): planning computes in whole numbers, and asks the bits of a double whether it is one.
#pragma once

#include <echo/config.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace echo::detail {

__extension__ using uint128 = unsigned __int128;

/// Neither infinite nor NaN. O(1).
constexpr bool is_finite(double x) noexcept {
    return (std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) != 0x7ff;
}

/// A finite number of 0 or more. O(1).
constexpr bool is_amount(double x) noexcept { return is_finite(x) && x >= 0; }

/// Of two whole numbers of 0 or more, signed or not. O(1).
template <class A, class B>
constexpr uint128 product(A a, B b) noexcept {
    return uint128{static_cast<std::uint64_t>(a)} * static_cast<std::uint64_t>(b);
}

/// The largest number that fits in 63 bits.
inline constexpr std::uint64_t mul_div_most = std::numeric_limits<std::int64_t>::max();

/// `a × b ÷ c`, rounded down; what does not fit in 63 bits is the largest that does. `c` must not be 0. O(1).
constexpr std::uint64_t mul_div(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
    const uint128 result = uint128{a} * b / c;
    return result > mul_div_most ? mul_div_most : static_cast<std::uint64_t>(result);
}

/// The same, rounded to the nearest. O(1).
constexpr std::uint64_t mul_div_nearest(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
    const uint128 result = (uint128{a} * b + c / 2) / c;
    return result > mul_div_most ? mul_div_most : static_cast<std::uint64_t>(result);
}

/// The exponent e of a finite `x` above 0: 2^(e-1) <= x < 2^e, but for the smallest doubles. O(1).
constexpr int exponent_of(double x) noexcept {
    return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1022;
}

/// 2^e, for -1022 <= e <= 1023. O(1).
constexpr double power_of_two(int e) noexcept {
    return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

/// A finite `x` of 0 or more as a whole number, rounded down, at most 2^62. O(1).
constexpr std::uint64_t whole(double x) noexcept { return static_cast<std::uint64_t>(std::min(x, 0x1p62)); }

} // namespace echo::detail
