// SPDX-License-Identifier: BSL-1.0
/// @file
/// Philox4x32-10: random numbers by element index and seed, in any order (Salmon et al., 2011).
#pragma once

#include "engine/cpu/block.hpp"

namespace engine::cpu {

/// Uniform numbers in [0, 1) of elements `first` to `first` + n; `first` is a multiple of 4. Element i is word i % 4 of
/// counter i / 4, its upper 24 bits.
inline void uniform(std::uint64_t seed, std::size_t first, std::size_t n, block& out) {
    constexpr std::size_t most = block_size / 4;
    const std::size_t count = (padded(n) + 3) / 4;
    alignas(64) std::uint32_t c0[most], c1[most], c2[most], c3[most];
    for (std::size_t j = 0; j < count; ++j) {
        const std::uint64_t counter = first / 4 + j;
        c0[j] = static_cast<std::uint32_t>(counter);
        c1[j] = static_cast<std::uint32_t>(counter >> 32);
        c2[j] = c3[j] = 0;
    }
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        for (std::size_t j = 0; j < count; ++j) {
            const std::uint64_t a = std::uint64_t{0xD2511F53} * c0[j], b = std::uint64_t{0xCD9E8D57} * c2[j];
            const std::uint32_t x = static_cast<std::uint32_t>(b >> 32) ^ c1[j] ^ k0;
            const std::uint32_t y = static_cast<std::uint32_t>(a >> 32) ^ c3[j] ^ k1;
            c0[j] = x, c1[j] = static_cast<std::uint32_t>(b);
            c2[j] = y, c3[j] = static_cast<std::uint32_t>(a);
        }
        k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    constexpr float scale = 1.0f / 16777216.0f;
    for (std::size_t j = 0; j < count; ++j) {
        out.at[4 * j] = static_cast<float>(c0[j] >> 8) * scale;
        out.at[4 * j + 1] = static_cast<float>(c1[j] >> 8) * scale;
        out.at[4 * j + 2] = static_cast<float>(c2[j] >> 8) * scale;
        out.at[4 * j + 3] = static_cast<float>(c3[j] >> 8) * scale;
    }
}

} // namespace engine::cpu
