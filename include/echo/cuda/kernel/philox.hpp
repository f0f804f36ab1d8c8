// SPDX-License-Identifier: BSL-1.0
/// @file
/// Philox4x32-10: 128 random bits for each 128-bit counter and 64-bit key, in any order. Salmon, Moraes, Dror
/// and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
#pragma once

#include <echo/config.hpp>

#include <cstdint>

namespace echo::cuda {

/// Four 32-bit words: a counter, or what comes of it.
struct philox_words {
    std::uint32_t at[4]; ///< Four words, the lowest first.

    friend constexpr bool operator==(const philox_words&, const philox_words&) = default;
};

/// The bits of one counter under one key; the key's lower 32 bits are its first word.
ECHO_HOST_DEVICE constexpr philox_words philox(philox_words counter, std::uint64_t key) noexcept {
    std::uint32_t a = counter.at[0], b = counter.at[1], c = counter.at[2], d = counter.at[3];
    auto first = static_cast<std::uint32_t>(key), second = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t left = std::uint64_t{0xD2511F53u} * a, right = std::uint64_t{0xCD9E8D57u} * c;
        a = static_cast<std::uint32_t>(right >> 32) ^ b ^ first;
        b = static_cast<std::uint32_t>(right);
        c = static_cast<std::uint32_t>(left >> 32) ^ d ^ second;
        d = static_cast<std::uint32_t>(left);
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}

} // namespace echo::cuda
