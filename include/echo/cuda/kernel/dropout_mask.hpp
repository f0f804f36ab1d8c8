// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which elements a dropout keeps: a function of seed, offset and element index alone, whatever the grid and
/// however the arrays lie.
///
/// Each element has a random number r of 40 bits and is dropped where r < p · 2^40, so that a share p is
/// dropped, exact to 2^-40. Only the top 8 bits of r are made for every element, 16 elements to a call of
/// Philox; the other 32 only where the 8 equal those of p · 2^40, for one element in 256.
/// - Philox's key is `seed`. Its counter is (index, index >> 32, offset, offset >> 32), lower words first.
/// - Element e, with i = e % 32: the top 8 bits are byte i / 8 (0 is the lowest) of word i % 4 of the result
///   for index 2 · (e / 32) + i / 4 % 2. This order lets four bytes be compared at once and their outcomes be
///   put in place.
/// - The other 32 bits are word e % 4 of the result for index 2^63 + e / 4.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/philox.hpp>

#include <bit>
#include <cstdint>

namespace echo::cuda {

/// What a dropout's randomness depends on: the same two give the same mask again. Take another `offset` for
/// every other dropout of a step, and for every step; all of them are independent.
struct dropout_seed {
    std::uint64_t seed = 0;   ///< Of the run.
    std::uint64_t offset = 0; ///< Of this dropout in this step.

    friend constexpr bool operator==(const dropout_seed&, const dropout_seed&) = default;
};

/// p · 2^40, rounded down.
struct drop_threshold {
    std::uint32_t top;  ///< its upper 8 bits
    std::uint32_t rest; ///< its lower 32
};

/// Of 0 ≤ p < 1.
constexpr drop_threshold threshold_of(double p) noexcept {
    const auto t = static_cast<std::uint64_t>(p * 0x1p40);
    return {static_cast<std::uint32_t>(t >> 32), static_cast<std::uint32_t>(t)};
}

/// What kept elements are multiplied with, so that the mean stays: 1 / (1 - p), rounded once.
constexpr float dropout_scale(double p) noexcept { return static_cast<float>(1 / (1 - p)); }

namespace detail {

ECHO_HOST_DEVICE constexpr philox_words dropout_bits(std::uint64_t index, const dropout_seed& s) noexcept {
    return philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                    static_cast<std::uint32_t>(s.offset), static_cast<std::uint32_t>(s.offset >> 32)}},
                  s.seed);
}

/// The lower 32 bits of element e's random number. No array is indexed at run time: registers cannot be.
ECHO_HOST_DEVICE constexpr std::uint32_t dropout_rest(std::uint64_t e, const dropout_seed& s) noexcept {
    const philox_words r = dropout_bits((std::uint64_t{1} << 63) + e / 4, s);
    const std::uint32_t even = (e & 2) != 0 ? r.at[2] : r.at[0], odd = (e & 2) != 0 ? r.at[3] : r.at[1];
    return (e & 1) != 0 ? odd : even;
}

/// Bit 8 b + k is set where byte b of word k of eight is at least `limit` (1 to 256, or 0: all are).
ECHO_HOST_DEVICE constexpr std::uint32_t at_least(const philox_words& low, const philox_words& high,
                                                  std::uint32_t limit) noexcept {
    // Bytes in fields of 16 bits: a byte plus 256 - limit carries into bit 8 where it is at least the limit.
    const std::uint32_t add = (256u - limit) * 0x00010001u;
    std::uint32_t out = 0;
    for (int k = 0; k < 8; ++k) {
        const std::uint32_t x = k < 4 ? low.at[k] : high.at[k - 4];
        const std::uint32_t even = (x & 0x00ff00ffu) + add, odd = (x >> 8 & 0x00ff00ffu) + add;
        out |= ((even >> 8 & 0x00010001u) | (odd & 0x01000100u)) << k;
    }
    return out;
}

/// Whether one of the 32 bytes equals `byte`.
ECHO_HOST_DEVICE constexpr bool any_byte(const philox_words& low, const philox_words& high,
                                         std::uint32_t byte) noexcept {
    std::uint32_t found = 0;
    for (int k = 0; k < 8; ++k) {
        const std::uint32_t x = (k < 4 ? low.at[k] : high.at[k - 4]) ^ (byte * 0x01010101u);
        found |= (x - 0x01010101u) & ~x & 0x80808080u; // not 0 where x has a byte 0
    }
    return found != 0;
}

} // namespace detail

/// Word `word` of the mask: bit i is set where element 32 · word + i is kept.
ECHO_HOST_DEVICE constexpr std::uint32_t keep_word(std::uint64_t word, const dropout_seed& s,
                                                   const drop_threshold& t) noexcept {
    const philox_words low = detail::dropout_bits(2 * word, s), high = detail::dropout_bits(2 * word + 1, s);
    std::uint32_t kept = detail::at_least(low, high, t.top);
    if (t.rest == 0 || !detail::any_byte(low, high, t.top)) return kept;
    std::uint32_t undecided = kept & ~detail::at_least(low, high, t.top + 1);
    while (undecided != 0) {
        const std::uint32_t bit = undecided & (0u - undecided);
        const auto i = static_cast<std::uint64_t>(std::popcount(bit - 1));
        if (detail::dropout_rest(32 * word + i, s) < t.rest) kept ^= bit;
        undecided ^= bit;
    }
    return kept;
}

/// Whether element e is kept; as `keep_word`, for code that looks at single elements.
ECHO_HOST_DEVICE constexpr bool keep_element(std::uint64_t e, const dropout_seed& s,
                                             const drop_threshold& t) noexcept {
    const auto i = static_cast<std::uint32_t>(e % 32);
    const philox_words r = detail::dropout_bits(2 * (e / 32) + i / 4 % 2, s);
    std::uint32_t word = r.at[0];
    if (i % 4 == 1) word = r.at[1];
    if (i % 4 == 2) word = r.at[2];
    if (i % 4 == 3) word = r.at[3];
    const std::uint32_t byte = word >> (8 * (i / 8)) & 0xffu;
    return byte != t.top ? byte > t.top : t.rest == 0 || detail::dropout_rest(e, s) >= t.rest;
}

} // namespace echo::cuda
