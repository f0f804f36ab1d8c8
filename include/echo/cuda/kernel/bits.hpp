// SPDX-License-Identifier: BSL-1.0
/// @file
/// The mask: one bit per element, bit i % 32 of word i / 32 is element i's; bits behind the last element are
/// 0. And the rearrangements of bits that votes over vectors make necessary.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/arguments.hpp>
#include <echo/tensor.hpp>

#include <cstdint>

namespace echo::cuda {

/// Bytes of a mask of n ≥ 0 elements: whole words, as `echo::encoded_bytes`.
constexpr std::int64_t bytes_required(std::int64_t n) {
    if (n < 0) throw argument_error("bytes_required, n", "is negative", "give the number of elements");
    return static_cast<std::int64_t>(encoded_bytes(static_cast<std::uint64_t>(n)));
}

/// Element i's bit.
ECHO_HOST_DEVICE constexpr bool mask_bit(const std::uint32_t* mask, std::int64_t i) noexcept {
    return (mask[i / 32] >> (i % 32) & 1u) != 0;
}

namespace detail {

/// The lowest 32 / V bits of x, V places apart: bit i becomes bit V · i, all others 0.
template <int V>
ECHO_HOST_DEVICE constexpr std::uint32_t spread(std::uint32_t x) noexcept {
    static_assert(V == 1 || V == 4 || V == 8);
    if constexpr (V == 8) return ((x & 0xfu) * 0x00204081u) & 0x01010101u; // four copies, 7 places apart
    if constexpr (V == 4) {
        x &= 0xffu;
        x = (x | x << 12) & 0x000f000fu;
        x = (x | x << 6) & 0x03030303u;
        x = (x | x << 3) & 0x11111111u;
    }
    return x;
}

/// Every vector of V elements gave V votes; vote c has element c of each lane's vector. Word q of the V words
/// that they make up, in the order of elements.
template <int V>
ECHO_HOST_DEVICE constexpr std::uint32_t word_of_votes(const std::uint32_t (&votes)[V], int q) noexcept {
    std::uint32_t word = 0;
    for (int c = 0; c < V; ++c) word |= spread<V>(votes[c] >> (32 / V * q)) << c;
    return word;
}

/// The bits of two words in a row, from bit `shift` (0 to 31) of the first on.
ECHO_HOST_DEVICE constexpr std::uint32_t straddle(std::uint32_t first, std::uint32_t second,
                                                  int shift) noexcept {
    return static_cast<std::uint32_t>((std::uint64_t{second} << 32 | first) >> shift);
}

/// The lowest `count` bits set; count may be anything.
ECHO_HOST_DEVICE constexpr std::uint32_t lowest_bits(int count) noexcept {
    return count <= 0 ? 0u : count >= 32 ? ~0u : (1u << count) - 1u;
}

} // namespace detail

} // namespace echo::cuda
