// SPDX-License-Identifier: BSL-1.0
/// @file
/// How fused kernels reach elements: which ones of a line a group has, where each operand has them, and by 16 bytes where
/// the layout allows it.
#pragma once

#include <echo/cuda/kernel/fused_layout.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace echo::cuda::fused::detail {

/// 16 bytes of elements.
template <class T>
struct alignas(16) packet {
    T of[16 / sizeof(T)];
};

/// 16 bytes as they are written.
struct alignas(16) quad {
    std::uint32_t x, y, z, w;
};

/// Word `I` of elements with these values.
template <class T, std::size_t I>
ECHO_HOST_DEVICE std::uint32_t word_of(const float* y) noexcept {
    if constexpr (sizeof(T) == 4)
        return bits_of(T(y[I]));
    else
        return bits_of(T(y[2 * I])) | std::uint32_t{bits_of(T(y[2 * I + 1]))} << 16;
}
template <class T>
ECHO_HOST_DEVICE quad words_of(const float* y) noexcept {
    return {word_of<T, 0>(y), word_of<T, 1>(y), word_of<T, 2>(y), word_of<T, 3>(y)};
}

/// One access. nvcc 13 takes a structure's store apart here and does not put it together again, hence the assembly.
template <class Warp>
ECHO_HOST_DEVICE void store_quad(void* to, const quad& v) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(v.x),
                 "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
#else
    Warp::store(to, v);
#endif
}

/// n / d, in 32 bits where they are enough, which a device does several times faster.
ECHO_HOST_DEVICE constexpr std::uint64_t divide(std::uint64_t n, std::uint64_t d) noexcept {
    if (((n | d) >> 32) == 0) return static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(d);
    return n / d;
}

/// Where each of `Count` operands has the element that a number, divided by three extents, points to.
template <std::size_t Count>
ECHO_HOST_DEVICE constexpr void add_offsets(std::int64_t* offset, const launch_operand* of,
                                            std::uint64_t number, const std::uint64_t* by) noexcept {
    if (number == 0) return;
    for (int axis = 2; axis >= 0; --axis) {
        if (by[axis] == 1) continue;
        const std::uint64_t rest = divide(number, by[axis]);
        const auto at = static_cast<std::int64_t>(number - rest * by[axis]);
        for (std::size_t i = 0; i < Count; ++i) offset[i] += at * of[i].step[axis];
        number = rest;
    }
}

/// The elements of a group that lie inside the line: [begin, end) of `Width`.
struct group_place {
    std::int64_t first; ///< position in the line of the group's element 0; may be negative
    std::uint32_t begin, end;
};

template <std::uint32_t Width>
ECHO_HOST_DEVICE constexpr group_place place_of(std::uint64_t group, const launch_shape& s) noexcept {
    const std::int64_t first = static_cast<std::int64_t>(group * Width) - static_cast<std::int64_t>(s.shift);
    const std::int64_t left = s.line - first;
    return {first, first < 0 ? static_cast<std::uint32_t>(-first) : 0u,
            left < static_cast<std::int64_t>(Width) ? static_cast<std::uint32_t>(left) : Width};
}

template <class T>
ECHO_HOST_DEVICE float load_one(const void* data, std::int64_t at) noexcept {
    if constexpr (std::is_same_v<T, mask_word>) {
        const auto word = static_cast<const std::uint32_t*>(data)[at / 32];
        return static_cast<float>(word >> (at % 32) & 1u);
    } else {
        return static_cast<float>(static_cast<const T*>(data)[at]);
    }
}

/// Loads the group's elements; those outside the line are 0. `at` is where the line begins.
template <class T, std::uint32_t Width, class Warp>
ECHO_HOST_DEVICE void load_group(float (&x)[Width], const launch_operand& o, std::int64_t at,
                                 const group_place& g) {
    if (o.how == access::repeated) {
        const float same = load_one<T>(o.data, at);
        for (std::uint32_t e = 0; e < Width; ++e) x[e] = same;
        return;
    }
    if (o.how == access::vector && g.begin == 0 && g.end == Width) {
        const std::int64_t first = at + g.first;
        if constexpr (std::is_same_v<T, mask_word>) {
            const std::uint32_t word = static_cast<const std::uint32_t*>(o.data)[first / 32] >> (first % 32);
            for (std::uint32_t e = 0; e < Width; ++e) x[e] = static_cast<float>(word >> e & 1u);
        } else {
            constexpr std::uint32_t length = 16 / sizeof(T);
            for (std::uint32_t p = 0; p < Width / length; ++p) {
                const auto in =
                    Warp::template load<packet<T>>(static_cast<const T*>(o.data) + first + p * length);
                for (std::uint32_t e = 0; e < length; ++e) x[p * length + e] = static_cast<float>(in.of[e]);
            }
        }
        return;
    }
    for (std::uint32_t e = 0; e < Width; ++e) {
        x[e] = 0;
        if (e >= g.begin && e < g.end) x[e] = load_one<T>(o.data, at + (g.first + e) * o.step[3]);
    }
}

template <class T, std::uint32_t Width, class Warp>
ECHO_HOST_DEVICE void store_group(const float (&y)[Width], const launch_operand& o, std::int64_t at,
                                  const group_place& g) {
    if (o.how == access::vector && g.begin == 0 && g.end == Width) {
        constexpr std::uint32_t length = 16 / sizeof(T);
        for (std::uint32_t p = 0; p < Width / length; ++p)
            store_quad<Warp>(static_cast<T*>(o.data) + at + g.first + p * length,
                             words_of<T>(y + p * length));
        return;
    }
    for (std::uint32_t e = 0; e < Width; ++e)
        if (e >= g.begin && e < g.end)
            static_cast<T*>(o.data)[at + (g.first + e) * o.step[3]] = static_cast<T>(y[e]);
}

} // namespace echo::cuda::fused::detail
