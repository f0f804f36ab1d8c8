// SPDX-License-Identifier: BSL-1.0
/// @file
/// The warp policy over which kernel bodies are written, so that the same text runs on the device and,
/// between votes 32 lanes in turn, on the host. `host_warp` is the stricter of the two: it refuses a vector
/// access that is not aligned.
#pragma once

#include <echo/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace echo::cuda {

inline constexpr int warp_lanes = 32; ///< Threads of a warp.

/// A warp on the host. What a policy offers, here and on the device:
/// - `value<T>`: one T for each lane, `v[lane]`;
/// - `lanes(f)`: f(lane) on every lane, in no particular order;
/// - `ballot(f)`: bit i is f(i); `shuffle(v, f)`: a `value` whose lane i is v[f(i)];
/// - `load<V>(p)`, `store(p, v)`: one access of sizeof(V) bytes at a multiple of as many; `store_words(p, v)`: 16
/// bytes,
///   in one access whatever the compiler makes of what they are computed from;
/// - `index()`, `count()`: which warp of how many of the grid.
///
/// Votes and shuffles stand where the whole warp comes along, never inside `lanes`. Lanes may not read what
/// another lane wrote since the last vote.
class host_warp {
public:
    /// One `T` for each lane.
    template <class T>
    class value {
    public:
        /// A lane's.
        constexpr T& operator[](int lane) noexcept { return of_[lane]; }
        /// A lane's.
        constexpr const T& operator[](int lane) const noexcept { return of_[lane]; }

    private:
        T of_[warp_lanes];
    };

    /// `backwards`: lanes run from the last to the first, which may change nothing.
    constexpr host_warp(std::int64_t index, std::int64_t count, bool backwards = false) noexcept
        : index_(index), count_(count), backwards_(backwards) {}

    /// Which warp of the grid it is.
    constexpr std::int64_t index() const noexcept { return index_; }
    /// How many warps the grid has.
    constexpr std::int64_t count() const noexcept { return count_; }

    /// Calls `f(lane)` for each lane.
    template <class F>
    constexpr void lanes(F&& f) const {
        for (int i = 0; i < warp_lanes; ++i) f(backwards_ ? warp_lanes - 1 - i : i);
    }

    /// Bit i is `f(i)`.
    template <class F>
    constexpr std::uint32_t ballot(F&& f) const {
        std::uint32_t votes = 0;
        for (int i = 0; i < warp_lanes; ++i) votes |= (f(i) ? 1u : 0u) << i;
        return votes;
    }

    /// Lane i gets what lane `source(i)` has.
    template <class T, class F>
    constexpr value<T> shuffle(const value<T>& from, F&& source) const {
        value<T> out;
        for (int i = 0; i < warp_lanes; ++i) out[i] = from[source(i)];
        return out;
    }

    /// One access of the size of `V`. Errors: std::logic_error where the device would refuse the address.
    template <class V>
    static constexpr V load(const void* from) {
        expect_aligned<V>(from);
        V out;
        std::memcpy(&out, from, sizeof(V));
        return out;
    }

    /// One access of the size of `V`. Errors: std::logic_error where the device would refuse the address.
    template <class V>
    static constexpr void store(void* to, const V& v) {
        expect_aligned<V>(to);
        std::memcpy(to, &v, sizeof(V));
    }
    /// As `store`, of whole words of memory.
    template <class V>
    static constexpr void store_words(void* to, const V& v) {
        store(to, v);
    }

private:
    template <class V>
    static constexpr void expect_aligned(const void* at) {
        if (reinterpret_cast<std::uintptr_t>(at) % sizeof(V) != 0)
            throw std::logic_error("echo::cuda: a vector access that the device would refuse: not aligned");
    }

    std::int64_t index_, count_;
    bool backwards_;
};

#if defined(__CUDACC__)

/// A warp of 32 threads of a one-dimensional grid, whose blocks are whole warps. Names as in `host_warp`.
class device_warp {
public:
    template <class T>
    class value {
    public:
        __device__ T& operator[](int) noexcept { return own_; }
        __device__ const T& operator[](int) const noexcept { return own_; }

    private:
        T own_;
    };

    __device__ std::int64_t index() const {
        return std::int64_t{blockIdx.x} * (blockDim.x / warp_lanes) + threadIdx.x / warp_lanes;
    }
    __device__ std::int64_t count() const { return std::int64_t{gridDim.x} * (blockDim.x / warp_lanes); }

    template <class F>
    __device__ void lanes(F&& f) const {
        f(lane());
    }

    template <class F>
    __device__ std::uint32_t ballot(F&& f) const {
        return __ballot_sync(~0u, f(lane()));
    }

    template <class T, class F>
    __device__ value<T> shuffle(const value<T>& from, F&& source) const {
        value<T> out;
        out[0] = __shfl_sync(~0u, from[0], source(lane()));
        return out;
    }

    template <class V>
    static __device__ V load(const void* from) {
        return *static_cast<const V*>(from);
    }

    template <class V>
    static __device__ void store(void* to, const V& v) {
        *static_cast<V*>(to) = v;
    }

    /// nvcc 13 takes a structure's store apart and puts it together again only where all of its words are ready at
    /// once, hence the assembly. It costs an addition for the address, so `store` is the better one for what is only
    /// copied.
    template <class V>
    static __device__ void store_words(void* to, const V& v) {
        static_assert(sizeof(V) == 16);
        std::uint32_t word[4];
        memcpy(word, &v, 16);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    }

private:
    static __device__ int lane() { return static_cast<int>(threadIdx.x % warp_lanes); }
};

#endif

} // namespace echo::cuda
