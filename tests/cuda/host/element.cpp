// SPDX-License-Identifier: BSL-1.0
/// @file
/// fp16 and bf16: every value, every rounding; and the rules for a set bit and for ReLU on every value.
#include <echo/cuda/kernel/element.hpp>
#include <echo/ops/activations.hpp>
#include <echo/symbol/real.hpp>

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace echo::cuda;

// Conversions in constant expressions.
static_assert(half(1.0f).bits == 0x3c00 && half(-2.0f).bits == 0xc000 && half(65504.0f).bits == 0x7bff);
static_assert(half(65519.99f).bits == 0x7bff && half(65520.0f).bits == 0x7c00);
static_assert(half(0x1p-24f).bits == 1 && half(0x1p-25f).bits == 0 && half(0x1.8p-25f).bits == 1);
static_assert(half(-0.0f).bits == 0x8000 && half(0x1.ffbp-15f).bits == 0x03ff &&
              half(0x1.ffcp-15f).bits == 0x0400);
static_assert(static_cast<float>(half::from_bits(0x0001)) == 0x1p-24f);
static_assert(bfloat16(1.0f).bits == 0x3f80 && bfloat16(0x1.01p0f).bits == 0x3f80 &&
              bfloat16(0x1.03p0f).bits == 0x3f82);
static_assert(static_cast<float>(bfloat16::from_bits(0x3f80)) == 1.0f);
// The rule for a bit.
static_assert(is_positive(1e-45f) && is_positive(std::numeric_limits<float>::infinity()));
static_assert(!is_positive(0.0f) && !is_positive(-0.0f) && !is_positive(-1e-45f));
static_assert(!is_positive(std::bit_cast<float>(0x7fc00000u)) &&
              !is_positive(std::bit_cast<float>(0x7f800001u)));
// CUDA's own types are known by name alone.
static_assert(std::same_as<element_of_t<__half>, half> &&
              std::same_as<element_of_t<const __nv_bfloat16>, const bfloat16>);
static_assert(std::same_as<element_of_t<const float>, const float> && !element<double>);

namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// Of the 16-bit numbers next to x the nearer one, of two the even one, found by search and double
/// arithmetic. All finite numbers of either sign are in ascending order by their magnitude bits; infinity
/// stands for the next power of 2.
template <class T>
std::uint16_t nearest(float x, double beyond_largest) {
    constexpr int infinity = std::same_as<T, half> ? 0x7c00 : 0x7f80;
    const auto value = [&](int magnitude) {
        return magnitude == infinity
                   ? beyond_largest
                   : double{static_cast<float>(T::from_bits(static_cast<std::uint16_t>(magnitude)))};
    };
    const double target = std::fabs(double{x});
    int low = 0, high = infinity; // value(low) <= target < value(high), if target is not beyond
    if (target >= beyond_largest) low = high;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (value(middle) <= target ? low : high) = middle;
    }
    if (low != high) {
        const double below = target - value(low), above = value(high) - target;
        if (above < below || (above == below && high % 2 == 0)) low = high;
    }
    return static_cast<std::uint16_t>(low | (std::signbit(x) ? 0x8000 : 0));
}

/// All that is near a 16-bit number or between two, and every 257th pattern of all 2^32, without NaN.
template <class T, class F>
void for_floats(F&& f) {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        const auto at = T::from_bits(static_cast<std::uint16_t>(i));
        if (static_cast<float>(at) != static_cast<float>(at)) continue;
        const std::uint32_t center = bits(static_cast<float>(at));
        const std::uint32_t half_way = std::same_as<T, half> ? 0x1000 : 0x8000;
        for (const std::uint32_t b : {center, center + half_way, center + half_way / 2})
            for (const std::uint32_t step : {b - 1, b, b + 1})
                if ((step & 0x7fffffff) <= 0x7f800000) f(std::bit_cast<float>(step));
    }
}

} // namespace

TEST_CASE("every half becomes the float that it is, and comes back") {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        const auto h = half::from_bits(static_cast<std::uint16_t>(i));
        const auto x = static_cast<float>(h);
        const int exponent = static_cast<int>(i >> 10 & 31), fraction = static_cast<int>(i & 1023);
        double expected =
            exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31) expected = fraction == 0 ? HUGE_VAL : NAN;
        if (i & 0x8000) expected = -expected;
        if (std::isnan(expected)) {
            if (!std::isnan(x) || half(x).bits != 0x7fff) FAIL(i);
        } else if (double{x} != expected || std::signbit(x) != std::signbit(expected) || half(x).bits != i) {
            FAIL(i);
        }
    }
}

TEST_CASE("every bfloat16 is the upper half of a float, and comes back") {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        const auto x = static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(i)));
        if (bits(x) != i << 16) FAIL(i);
        if (bfloat16(x).bits != (std::isnan(x) ? 0x7fff : i)) FAIL(i);
    }
}

TEST_CASE("a float becomes the nearest half or bfloat16, of two the even one") {
    std::size_t tried = 0;
    for_floats<half>([&](float x) {
        ++tried;
        if (half(x).bits != nearest<half>(x, 65536)) FAIL(bits(x));
    });
    for_floats<bfloat16>([&](float x) {
        ++tried;
        if (bfloat16(x).bits != nearest<bfloat16>(x, 0x1p128)) FAIL(bits(x));
    });
    CHECK(tried > 1'000'000);
    for (std::uint64_t b = 0; b < 0x1'0000'0000; b += 65537) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(b));
        if (std::isnan(x)) {
            if (half(x).bits != 0x7fff || bfloat16(x).bits != 0x7fff) FAIL(b);
        } else if (half(x).bits != nearest<half>(x, 65536) ||
                   bfloat16(x).bits != nearest<bfloat16>(x, 0x1p128)) {
            FAIL(b);
        }
    }
}

#if defined(__FLT16_MANT_DIG__)
TEST_CASE("the compiler's own fp16 agrees on every 1,021st float") {
    for (std::uint64_t b = 0; b < 0x1'0000'0000; b += 1021) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(b));
        if (!std::isnan(x) && half(x).bits != std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))) FAIL(b);
    }
}
#endif

namespace {

/// The bit and ReLU, as the op's own lambda has them.
template <class T>
void compare_with_the_op(T x) {
    const echo::real<T> y = decltype(echo::relu_op::forward){}(echo::real<T>(x));
    const bool bit = (y > 0).holds();
    const T found = relu(x);
    const auto pattern = bits_of(x);
    if (is_positive(x) != bit || is_positive(found) != bit) FAIL("the bit of " << pattern);
    if (std::isnan(y.value()) ? bits_of(found) != pattern : bits_of(found) != bits_of(static_cast<T>(y)))
        FAIL("ReLU of " << pattern);
    // The gradient lambda needs no more than the bit.
    const auto dx = decltype(echo::relu_op::gradient){}(echo::real<T>(T(3.0f)), echo::real<T>(x), y);
    if (dx.value() != (bit ? 3.0f : 0.0f)) FAIL("the gradient at " << pattern);
}

} // namespace

TEST_CASE("a set bit and ReLU are what relu_op says: every half and bfloat16") {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        compare_with_the_op(half::from_bits(static_cast<std::uint16_t>(i)));
        compare_with_the_op(bfloat16::from_bits(static_cast<std::uint16_t>(i)));
    }
}

TEST_CASE("a set bit and ReLU are what relu_op says: floats of every kind") {
    for (const std::uint32_t edge :
         {0x00000000u, 0x00000001u, 0x007fffffu, 0x00800000u, 0x3f800000u, 0x7f7fffffu, 0x7f800000u,
          0x7f800001u, 0x7fbfffffu, 0x7fc00000u, 0x7fffffffu})
        for (const std::uint32_t sign : {0u, 0x80000000u})
            compare_with_the_op(std::bit_cast<float>(edge | sign));
    for (std::uint64_t b = 0; b < 0x1'0000'0000; b += 65537 / 16)
        compare_with_the_op(std::bit_cast<float>(static_cast<std::uint32_t>(b)));
}
