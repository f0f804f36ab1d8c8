// SPDX-License-Identifier: BSL-1.0
/// @file
/// Philox4x32-10: 128 random bits for each 128-bit counter and 64-bit key, in any order. Salmon, Moraes, Dror
/// and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
#pragma once

#include <echo/config.hpp>

#include <cstdint>

namespace echo::cuda {

/// The numbers of Philox4x32-10. Code that does the rounds in another way, on a processor's vectors, takes them from
/// here. The text of generated kernels (source_access.hpp) has them a second time: it is no code that could include
/// this, and tests/cuda/host/source.cpp compares what it draws with `philox`.
namespace philox_numbers {
inline constexpr int rounds = 10;                         ///< How often counter and key are mixed.
inline constexpr std::uint32_t first_factor = 0xD2511F53; ///< Times the counter's first word.
inline constexpr std::uint32_t third_factor = 0xCD9E8D57; ///< Times its third word.
inline constexpr std::uint32_t first_step = 0x9E3779B9;   ///< Added to the key's first word in each round.
inline constexpr std::uint32_t second_step = 0xBB67AE85;  ///< Added to its second word.
} // namespace philox_numbers

/// Four 32-bit words: a counter, or what comes of it.
struct philox_words {
    std::uint32_t at[4]; ///< Four words, the lowest first.

    friend constexpr bool operator==(const philox_words&, const philox_words&) = default;
};

/// The bits of one counter under one key; the key's lower 32 bits are its first word.
ECHO_HOST_DEVICE constexpr philox_words philox(philox_words counter, std::uint64_t key) noexcept {
    std::uint32_t a = counter.at[0], b = counter.at[1], c = counter.at[2], d = counter.at[3];
    auto first = static_cast<std::uint32_t>(key), second = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < philox_numbers::rounds; ++round) {
        const std::uint64_t left = std::uint64_t{philox_numbers::first_factor} * a;
        const std::uint64_t right = std::uint64_t{philox_numbers::third_factor} * c;
        a = static_cast<std::uint32_t>(right >> 32) ^ b ^ first;
        b = static_cast<std::uint32_t>(right);
        c = static_cast<std::uint32_t>(left >> 32) ^ d ^ second;
        d = static_cast<std::uint32_t>(left);
        first += philox_numbers::first_step;
        second += philox_numbers::second_step;
    }
    return {{a, b, c, d}};
}

} // namespace echo::cuda
