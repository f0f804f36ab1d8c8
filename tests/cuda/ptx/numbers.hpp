// SPDX-License-Identifier: BSL-1.0
/// @file
/// Numbers as PTX has them: a register's 64 bits as a type and back, roundings to 16 bits and to integers, the NaN
/// that arithmetic makes.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ptx {

/// 16 bits of a register that are a number in half precision, or in bfloat16.
struct half_bits {
    std::uint16_t bits;
};
struct bfloat_bits {
    std::uint16_t bits;
};

template <class T>
T get(std::uint64_t v) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(static_cast<std::uint32_t>(v));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(v);
    else if constexpr (std::is_same_v<T, bool>)
        return v != 0;
    else if constexpr (std::is_same_v<T, half_bits> || std::is_same_v<T, bfloat_bits>)
        return {static_cast<std::uint16_t>(v)};
    else
        return static_cast<T>(v);
}

template <class T>
std::uint64_t put(T v) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<std::uint32_t>(v);
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<std::uint64_t>(v);
    else if constexpr (std::is_same_v<T, half_bits> || std::is_same_v<T, bfloat_bits>)
        return v.bits;
    else if constexpr (std::is_same_v<T, bool>)
        return v;
    else if constexpr (std::is_signed_v<T>)
        return static_cast<std::uint64_t>(
            static_cast<std::int64_t>(v)); // a register that is wider has the sign
    else
        return v;
}

/// The NaN that arithmetic in single precision makes of any other: 0x7fffffff. In double precision any will do.
inline float canonical(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }
inline double canonical(double x) { return x; }

/// Subnormal numbers become zeros of the same sign.
inline float flushed(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
/// What `.sat` makes: 0 to 1, and of NaN +0.
inline float saturated(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

/// To a format with fewer bits: `Exponent` bits of exponent, `Fraction` of fraction, to the nearest, ties to even.
template <int Exponent, int Fraction>
std::uint16_t narrowed(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>(bits >> 31 << (Exponent + Fraction));
    constexpr std::uint16_t infinity = ((1u << Exponent) - 1) << Fraction;
    if (x != x) return 0x7fff;
    const double magnitude = std::fabs(static_cast<double>(x));
    if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
    if (magnitude == 0) return sign;
    constexpr int bias = (1 << (Exponent - 1)) - 1;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - bias) exponent = 1 - bias;
    // In units of the last place; exact, since a float has few bits more.
    const double units = std::ldexp(magnitude, Fraction - exponent);
    const double whole = std::nearbyint(units); // rounds to even
    auto made = static_cast<std::uint32_t>(whole);
    // A carry raises the exponent by itself.
    std::uint32_t out =
        made < (1u << Fraction)
            ? made
            : made - (1u << Fraction) + (static_cast<std::uint32_t>(exponent + bias) << Fraction);
    if (out > infinity) out = infinity;
    return static_cast<std::uint16_t>(sign | out);
}
inline half_bits to_half(float x) { return {narrowed<5, 10>(x)}; }
inline bfloat_bits to_bfloat(float x) { return {narrowed<8, 7>(x)}; }

inline float from_half(half_bits h) {
    const std::uint32_t exponent = h.bits >> 10 & 31, fraction = h.bits & 1023;
    if (exponent == 31 && fraction) return std::bit_cast<float>(0x7fffffffu);
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    const auto x = static_cast<float>(magnitude);
    return h.bits >> 15 ? -x : x;
}
inline float from_bfloat(bfloat_bits b) {
    return canonical(std::bit_cast<float>(std::uint32_t{b.bits} << 16));
}

/// An integer of type T, clamped to its range; NaN gives 0 in 32 bits and fewer, and 2^63 in 64.
template <class T, class From>
T to_integer(From x, int rounding) {
    if (x != x) return sizeof(T) == 8 ? static_cast<T>(std::uint64_t{1} << 63) : T{0};
    const From r = rounding == FE_TOWARDZERO ? std::trunc(x)
                   : rounding == FE_UPWARD   ? std::ceil(x)
                   : rounding == FE_DOWNWARD ? std::floor(x)
                                             : std::nearbyint(x);
    constexpr auto high = static_cast<From>(std::numeric_limits<T>::max()),
                   low = static_cast<From>(std::numeric_limits<T>::min());
    if (r >= high) return std::numeric_limits<T>::max();
    if (r <= low) return std::numeric_limits<T>::min();
    return static_cast<T>(r);
}

} // namespace ptx
