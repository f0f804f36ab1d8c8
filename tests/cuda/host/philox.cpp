// SPDX-License-Identifier: BSL-1.0
/// @file
/// Philox4x32-10 gives the words that its authors published (Random123's known answers).
#include <echo/cuda/kernel/philox.hpp>

#include <catch2/catch.hpp>

#include <bit>
#include <cstdint>
#include <cstdlib>

using echo::cuda::philox;
using echo::cuda::philox_words;

static_assert(philox({{0, 0, 0, 0}}, 0) == philox_words{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
static_assert(philox({{~0u, ~0u, ~0u, ~0u}}, ~std::uint64_t{0}) ==
              philox_words{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
// Digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
static_assert(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0'a4093822) ==
              philox_words{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
// A near miss: the words of the key the wrong way round.
static_assert(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822'299f31d0) !=
              philox_words{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});

TEST_CASE("at run time Philox gives the published words too") {
    volatile std::uint32_t zero = 0;
    CHECK(philox({{zero, zero, zero, zero}}, zero) ==
          philox_words{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
    const std::uint32_t ones = ~zero;
    CHECK(philox({{ones, ones, ones, ones}}, std::uint64_t{ones} << 32 | ones) ==
          philox_words{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
}

TEST_CASE("every bit of counter and key changes half of the bits") {
    const philox_words counter{{1, 2, 3, 4}};
    const std::uint64_t key = 5;
    const auto differ = [before = philox(counter, key)](const philox_words& now) {
        int bits = 0;
        for (int k = 0; k < 4; ++k) bits += std::popcount(before.at[k] ^ now.at[k]);
        return bits;
    };
    for (int bit = 0; bit < 128; ++bit) {
        philox_words other = counter;
        other.at[bit / 32] ^= 1u << (bit % 32);
        CHECK(std::abs(differ(philox(other, key)) - 64) < 30); // 5 standard errors
        if (bit < 64) CHECK(std::abs(differ(philox(counter, key ^ std::uint64_t{1} << bit)) - 64) < 30);
    }
}
