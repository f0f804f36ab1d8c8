// SPDX-License-Identifier: BSL-1.0
/// @file
/// Philox4x32-10: random numbers by element index and seed, in any order (Salmon et al., 2011), in a processor's
/// vectors. The same words as echo/cuda/kernel/philox.hpp gives one by one.
#pragma once

#include "engine/cpu/block.hpp"

#include <echo/cuda/kernel/philox.hpp>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace engine::cpu {

#if defined(__AVX512F__)
inline constexpr std::size_t philox_lanes = 8;
#elif defined(__AVX2__)
inline constexpr std::size_t philox_lanes = 4;
#else
inline constexpr std::size_t philox_lanes = 2;
#endif
/// The same word of some counters, each in the lower half of a lane; what stands above it is not looked at.
using philox_words = std::uint64_t __attribute__((vector_size(8 * philox_lanes)));

/// Products of the lower halves, for which there are instructions that compilers do not find.
inline void multiply(const philox_words& a, const philox_words& b, philox_words& products) {
#if defined(__AVX512F__)
    products = reinterpret_cast<philox_words>(
        _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
    products = reinterpret_cast<philox_words>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
    products = reinterpret_cast<philox_words>(
        _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    products = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

/// Uniform numbers in [0, 1) of elements `first` to `first` + n; `first` is a multiple of 4. Element i is word i % 4 of
/// counter i / 4, its upper 24 bits.
inline void uniform(std::uint64_t seed, std::size_t first, std::size_t n, block& out) {
    const std::size_t count = padded(n) / 4; // a multiple of 4
    alignas(64) std::uint64_t words[4][block_size / 4];
    for (std::size_t j = 0; j < block_size / 4; ++j) words[0][j] = first / 4 + j;
    namespace numbers = echo::cuda::philox_numbers;
    const philox_words factor0 = philox_words{} + numbers::first_factor;
    const philox_words factor2 = philox_words{} + numbers::third_factor;
    for (std::size_t j = 0; j < count; j += philox_lanes) {
        philox_words c0, c1, c2{}, c3{}, p0, p2;
        std::memcpy(&c0, words[0] + j, sizeof c0);
        c1 = c0 >> 32;
        std::uint64_t k0 = seed & 0xFFFFFFFFu, k1 = seed >> 32;
        for (int round = 0; round < numbers::rounds; ++round) {
            multiply(c0, factor0, p0);
            multiply(c2, factor2, p2);
            c0 = (p2 >> 32) ^ c1 ^ k0, c1 = p2;
            c2 = (p0 >> 32) ^ c3 ^ k1, c3 = p0;
            k0 += numbers::first_step, k1 += numbers::second_step;
        }
        std::memcpy(words[0] + j, &c0, sizeof c0);
        std::memcpy(words[1] + j, &c1, sizeof c1);
        std::memcpy(words[2] + j, &c2, sizeof c2);
        std::memcpy(words[3] + j, &c3, sizeof c3);
    }
    constexpr float scale = 1.0f / 16777216.0f;
    for (std::size_t j = 0; j < count; ++j)
        for (std::size_t k = 0; k < 4; ++k)
            out.at[4 * j + k] =
                static_cast<float>(static_cast<std::int32_t>(words[k][j] >> 8 & 0xFFFFFFu)) * scale;
}

} // namespace engine::cpu
