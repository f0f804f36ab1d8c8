// SPDX-License-Identifier: BSL-1.0
/// @file
/// The element types of kernels: `float`, and fp16 and bf16 as 16 bits of storage that convert exactly as the
/// hardware does, on the host, in constant expressions and on the device. Needs no CUDA header.
#pragma once

#include <echo/config.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

struct __half;        // cuda_fp16.h
struct __nv_bfloat16; // cuda_bf16.h

namespace echo::cuda {

namespace detail {

/// `bits` without its lowest `dropped` (1 to 31) bits, rounded to nearest, ties to even.
ECHO_HOST_DEVICE constexpr std::uint32_t round_shift(std::uint32_t bits, int dropped) noexcept {
    const std::uint32_t below_half = (1u << (dropped - 1)) - 1u;
    return (bits + below_half + ((bits >> dropped) & 1u)) >> dropped;
}

ECHO_HOST_DEVICE constexpr float float_of_half(std::uint16_t half) noexcept {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) {
        float out;
        asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(half));
        return out;
    }
#endif
    const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    // A subnormal is a count of 2^-24. No float operation may see it as one: a flush to zero would lose it.
    if (magnitude < 0x400u) {
        if (magnitude == 0) return std::bit_cast<float>(sign);
        const int top = 31 - std::countl_zero(magnitude);
        const auto exponent = static_cast<std::uint32_t>(top + 127 - 24);
        return std::bit_cast<float>(sign | exponent << 23 | ((magnitude << (23 - top)) & 0x7fffffu));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

ECHO_HOST_DEVICE constexpr std::uint16_t half_of_float(float value) noexcept {
#if defined(__CUDA_ARCH__)
    if (!std::is_constant_evaluated()) {
        std::uint16_t out;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
        return out;
    }
#endif
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff; // NaN, as the device writes it
    if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u); // 2^16 and above
    if (magnitude >= 0x38800000u) // 2^-14: normal; a carry moves the exponent up, to infinity too
        return static_cast<std::uint16_t>(sign | round_shift(magnitude - ((127u - 15u) << 23), 13));
    if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign); // below half of 2^-24
    const auto exponent = static_cast<int>(magnitude >> 23);
    const std::uint32_t digits = (magnitude & 0x7fffffu) | 0x800000u;
    return static_cast<std::uint16_t>(sign | round_shift(digits, 126 - exponent));
}

ECHO_HOST_DEVICE constexpr std::uint16_t bfloat16_of_float(float value) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!std::is_constant_evaluated()) {
        std::uint16_t out;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(value));
        return out;
    }
#endif
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<std::uint16_t>(round_shift(bits, 16));
}

} // namespace detail

/// fp16: 1 sign, 5 exponent, 10 fraction bits. Layout of CUDA's `__half`. From `float` it rounds to nearest
/// even; any NaN becomes 0x7fff. `echo::real<half>` computes with it.
struct half {
    std::uint16_t bits; ///< As memory holds it.

    half() = default;
    /// Rounds to nearest even.
    ECHO_HOST_DEVICE explicit constexpr half(float value) noexcept : bits(detail::half_of_float(value)) {}
    /// Exactly.
    ECHO_HOST_DEVICE explicit constexpr operator float() const noexcept {
        return detail::float_of_half(bits);
    }
    /// The element with these bits.
    ECHO_HOST_DEVICE static constexpr half from_bits(std::uint16_t bits) noexcept {
        return std::bit_cast<half>(bits);
    }
};

/// bf16: the upper half of a `float`. Layout of CUDA's `__nv_bfloat16`. Rounds and treats NaN as `half` does.
struct bfloat16 {
    std::uint16_t bits; ///< As memory holds it.

    bfloat16() = default;
    /// Rounds to nearest even.
    ECHO_HOST_DEVICE explicit constexpr bfloat16(float value) noexcept
        : bits(detail::bfloat16_of_float(value)) {}
    /// Exactly.
    ECHO_HOST_DEVICE explicit constexpr operator float() const noexcept {
        return std::bit_cast<float>(std::uint32_t{bits} << 16);
    }
    /// The element with these bits.
    ECHO_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
        return std::bit_cast<bfloat16>(bits);
    }
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<half>);

/// What kernels compute on.
template <class T>
concept element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

/// The element type behind what a host stores: CUDA's own types have the same layout, without their headers.
template <class T>
struct element_of {
    static_assert(element<T>, "echo: kernels work on float, fp16 (echo::cuda::half, __half) and bf16 "
                              "(echo::cuda::bfloat16, __nv_bfloat16)");
    using type = T; ///< The type that kernels compute on.
};
/// CUDA's fp16.
template <>
struct element_of<__half> {
    using type = half; ///< The type of the same layout.
};
/// CUDA's bf16.
template <>
struct element_of<__nv_bfloat16> {
    using type = bfloat16; ///< The type of the same layout.
};
/// What is only read.
template <class T>
struct element_of<const T> {
    using type = const typename element_of<T>::type; ///< The same, only read.
};
/// The element type behind `T`.
template <class T>
using element_of_t = typename element_of<T>::type;

/// Constants, which no instruction converts. Functions, as device code knows no object at namespace scope.
template <element T>
ECHO_HOST_DEVICE consteval T zero() {
    return T(0.0f);
}
/// 1, as `zero` is 0.
template <element T>
ECHO_HOST_DEVICE consteval T one() {
    return T(1.0f);
}

/// The bits of an element: what the sign rules below look at, so that no compiler flag (flush to zero, fast
/// math) changes them.
template <element T>
ECHO_HOST_DEVICE constexpr auto bits_of(T x) noexcept {
    if constexpr (std::same_as<T, float>)
        return std::bit_cast<std::uint32_t>(x);
    else
        return x.bits;
}

namespace detail {

template <element T>
struct bit_patterns {
    static constexpr std::uint32_t infinity = std::same_as<T, float>  ? 0x7f800000u
                                              : std::same_as<T, half> ? 0x7c00u
                                                                      : 0x7f80u;
    static constexpr std::uint32_t minus_zero = sizeof(T) == 4 ? 0x80000000u : 0x8000u;
};

} // namespace detail

/// Whether x > 0: the rule for a set bit. Subnormals and infinity are; 0, −0, negative numbers and NaN are
/// not.
template <element T>
ECHO_HOST_DEVICE constexpr bool is_positive(T x) noexcept {
    return std::uint32_t{bits_of(x)} - 1u < detail::bit_patterns<T>::infinity;
}

/// max(x, 0) as `echo::relu_op` has it: a negative number becomes 0; every other value passes with its bits,
/// −0 and NaN too. Its result is above 0 exactly where x is.
template <element T>
ECHO_HOST_DEVICE constexpr T relu(T x) noexcept {
    using patterns = detail::bit_patterns<T>;
    const bool is_negative = std::uint32_t{bits_of(x)} - (patterns::minus_zero + 1u) < patterns::infinity;
    return is_negative ? zero<T>() : x;
}

} // namespace echo::cuda
