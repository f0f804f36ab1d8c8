// SPDX-License-Identifier: BSL-1.0
/// @file
/// Blocks: the unit in which element-wise loops run. The lambda runs on whole vectors: of a whole block where it lies
/// in memory, of the last one in padded copies. So the same vector code computes every element, wherever its tensor
/// lies, however threads share the work, and whether the result takes over an input: an element's bits depend on its
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

/// What follows a block is asked for already, so that memory is fetched while elements are computed. It may lie behind
/// the tensor: then nothing happens.
inline constexpr std::size_t blocks_ahead = 2, cache_line = 64 / sizeof(float);
inline void prefetch(const float* block) {
    for (std::size_t i = 0; i < block_size; i += cache_line)
        __builtin_prefetch(block + blocks_ahead * block_size + i);
}
inline void prefetch_to_write(const float* block) {
    for (std::size_t i = 0; i < block_size; i += cache_line)
        __builtin_prefetch(block + blocks_ahead * block_size + i, 1);
}

/// In front of a loop whose tensors overlap, if at all, element by element. (clang looks at run time.)
#ifdef __clang__
#define ENGINE_IVDEP
#else
#define ENGINE_IVDEP _Pragma("GCC ivdep")
#endif

struct alignas(64) block {
    float at[block_size];

    void load(const float* from, std::size_t n) {
        if (n == block_size) prefetch(from);
        std::memcpy(at, from, n * sizeof(float));
        pad(n);
    }
    void pad(std::size_t n) {
        for (std::size_t i = n; i < padded(n); ++i) at[i] = 1;
    }
    void store(float* to, std::size_t n) const {
        if (n == block_size) prefetch_to_write(to);
        std::memcpy(to, at, n * sizeof(float));
    }
    /// The n elements at `from`: where they lie if they are a whole block, else a copy.
    const float* read(const float* from, std::size_t n) {
        if (n == block_size) {
            prefetch(from);
            return from;
        }
        load(from, n);
        return at;
    }
    /// Where n elements that are to go to `to` are to be written: there, or here, and `finish` copies them.
    float* write(float* to, std::size_t n) {
        if (n == block_size) prefetch_to_write(to);
        return n == block_size ? to : at;
    }
    void finish(float* to, std::size_t n) const {
        if (n != block_size) std::memcpy(to, at, n * sizeof(float));
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
};

} // namespace engine::cpu
