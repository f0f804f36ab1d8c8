// SPDX-License-Identifier: BSL-1.0
/// @file
/// Blocks: the unit in which element-wise loops run. Inputs are copied into aligned arrays, the lambda runs on whole
/// vectors of them, results are copied out. So the same vector code computes every element, wherever its tensor lies,
/// however threads share the work, and whether the result takes over an input: an element's bits depend on its
/// inputs alone.
#pragma once

#include "engine/cpu/vector_math.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace engine::cpu {

inline constexpr std::size_t block_size = 256;
/// A vector of any machine fits into it a whole number of times.
inline constexpr std::size_t vector_size = 16;
/// Elements below which a second thread does not pay.
inline constexpr std::size_t thread_grain = 64 * block_size;

constexpr std::size_t padded(std::size_t n) { return (n + vector_size - 1) / vector_size * vector_size; }

struct alignas(64) block {
    float at[block_size];

    void load(const float* from, std::size_t n) {
        if (n == block_size) return load_whole(from);
        std::memcpy(at, from, n * sizeof(float));
        pad(n);
    }
    void pad(std::size_t n) {
        for (std::size_t i = n; i < padded(n); ++i) at[i] = 1;
    }
    void store(float* to, std::size_t n) const {
        if (n == block_size) return store_whole(to);
        std::memcpy(to, at, n * sizeof(float));
    }

    /// 1 where the bit is set, else 0; `first` is a multiple of 32.
    void unpack(const std::int32_t* words, std::size_t first, std::size_t n) {
        words += first / 32;
        for (std::size_t i = 0; i < n; i += 32) {
            const auto word = static_cast<std::uint32_t>(words[i / 32]);
            for (std::size_t k = 0; k < 32; ++k) at[i + k] = static_cast<float>((word >> k) & 1u);
        }
        pad(n);
    }

private:
    /// What follows is asked for already, so that memory is fetched while elements are computed. It may lie behind the
    /// tensor: then nothing happens.
    static constexpr std::size_t ahead = 2 * block_size, cache_line = 64 / sizeof(float);
    void load_whole(const float* from) {
        for (std::size_t i = 0; i < block_size; i += cache_line) __builtin_prefetch(from + ahead + i);
        std::memcpy(at, from, sizeof at);
    }
    void store_whole(float* to) const {
        for (std::size_t i = 0; i < block_size; i += cache_line) __builtin_prefetch(to + ahead + i, 1);
        std::memcpy(to, at, sizeof at);
    }
};

} // namespace engine::cpu
