// SPDX-License-Identifier: BSL-1.0
/// @file
/// How fused kernels reach elements: which ones of a line a group has, where each operand has them, and by 16 bytes
/// where the layout allows it.
#pragma once

#include <echo/cuda/kernel/fused_shape.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace echo::cuda::fused::detail {

/// 16 bytes as they are read and written.
struct alignas(16) quad {
    std::uint32_t x, y, z, w;
};

/// A group's elements as they are stored, so that all operands are asked for before the first is waited for: whoever
/// converts an element waits for it.
template <class T, std::uint32_t Width>
struct raw_group {
    static constexpr std::uint32_t per_word = 4 / sizeof(T);
    std::uint32_t word[Width / per_word];

    ECHO_HOST_DEVICE void set_quad(std::uint32_t p, const quad& v) noexcept {
        word[4 * p] = v.x;
        word[4 * p + 1] = v.y;
        word[4 * p + 2] = v.z;
        word[4 * p + 3] = v.w;
    }
    /// Elements are set in order.
    ECHO_HOST_DEVICE void set(std::uint32_t e, T v) noexcept {
        if constexpr (std::is_same_v<T, std::int32_t>)
            word[e] = static_cast<std::uint32_t>(v);
        else if constexpr (per_word == 1)
            word[e] = bits_of(v);
        else if (e % 2 == 0)
            word[e / 2] = bits_of(v);
        else
            word[e / 2] |= std::uint32_t{bits_of(v)} << 16;
    }
    ECHO_HOST_DEVICE float get(std::uint32_t e) const noexcept {
        if constexpr (std::is_same_v<T, std::int32_t>)
            return static_cast<float>(static_cast<std::int32_t>(word[e]));
        else if constexpr (per_word == 1)
            return std::bit_cast<float>(word[e]);
        else
            return static_cast<float>(
                T::from_bits(static_cast<std::uint16_t>(word[e / 2] >> (16 * (e % 2)))));
    }
};
/// Of a packed mask: a bit for each element.
template <std::uint32_t Width>
struct raw_group<mask_word, Width> {
    std::uint32_t bits;
    ECHO_HOST_DEVICE float get(std::uint32_t e) const noexcept { return static_cast<float>(bits >> e & 1u); }
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

/// The bit of a mask, in all its bits.
template <class Index>
ECHO_HOST_DEVICE std::uint32_t repeated_bit(const void* data, Index at) noexcept {
    return 0u - (static_cast<const std::uint32_t*>(data)[at / 32] >> (at % 32) & 1u);
}
/// The same element for the whole group.
template <class T, std::uint32_t Width, class Index>
ECHO_HOST_DEVICE void load_repeated(raw_group<T, Width>& x, const void* data, Index at) noexcept {
    if constexpr (std::is_same_v<T, mask_word>) {
        x.bits = repeated_bit(data, at);
    } else {
        const T same = static_cast<const T*>(data)[at];
        for (std::uint32_t e = 0; e < Width; ++e) x.set(e, same);
    }
}
/// A whole group that begins at element `first`, in accesses of 16 bytes. `Index` has no sign where 32 bits are enough.
template <class T, std::uint32_t Width, class Warp, class Index>
ECHO_HOST_DEVICE void load_vector(raw_group<T, Width>& x, const void* data, Index first) {
    if constexpr (std::is_same_v<T, mask_word>) {
        x.bits = static_cast<const std::uint32_t*>(data)[first / 32] >> (first % 32);
    } else {
        constexpr std::uint32_t length = 16 / sizeof(T);
        for (std::uint32_t p = 0; p < Width / length; ++p)
            x.set_quad(p, Warp::template load<quad>(static_cast<const T*>(data) + first + p * length));
    }
}

/// Loads the group's elements; those outside the line are 0. `at` is where the line begins.
template <class T, std::uint32_t Width, class Warp>
ECHO_HOST_DEVICE void load_group(raw_group<T, Width>& x, const launch_operand& o, std::int64_t at,
                                 const group_place& g) {
    if (o.how == access::repeated) return load_repeated(x, o.data, at);
    if (o.how == access::vector && g.begin == 0 && g.end == Width)
        return load_vector<T, Width, Warp>(x, o.data, at + g.first);
    if constexpr (std::is_same_v<T, mask_word>) x.bits = 0;
    for (std::uint32_t e = 0; e < Width; ++e) {
        const bool inside = e >= g.begin && e < g.end;
        const std::int64_t place = at + (g.first + e) * o.step[3];
        if constexpr (std::is_same_v<T, mask_word>) {
            if (inside) x.bits |= repeated_bit(o.data, place) & 1u << e;
        } else {
            x.set(e, inside ? static_cast<const T*>(o.data)[place] : T{});
        }
    }
}

template <class T, std::uint32_t Width, class Warp, class Index>
ECHO_HOST_DEVICE void store_vector(const float (&y)[Width], void* data, Index first) {
    constexpr std::uint32_t length = 16 / sizeof(T);
    for (std::uint32_t p = 0; p < Width / length; ++p)
        Warp::store_words(static_cast<T*>(data) + first + p * length, words_of<T>(y + p * length));
}

template <class T, std::uint32_t Width, class Warp>
ECHO_HOST_DEVICE void store_group(const float (&y)[Width], const launch_operand& o, std::int64_t at,
                                  const group_place& g) {
    if (o.how == access::vector && g.begin == 0 && g.end == Width)
        return store_vector<T, Width, Warp>(y, o.data, at + g.first);
    for (std::uint32_t e = 0; e < Width; ++e)
        if (e >= g.begin && e < g.end)
            static_cast<T*>(o.data)[at + (g.first + e) * o.step[3]] = static_cast<T>(y[e]);
}

/// A group as any layout has it: which elements lie inside its line, and where each operand has the line.
template <std::uint32_t Width, class Warp>
struct any_group {
    const launch_operand* operands;
    const std::int64_t* at;
    group_place place;

    ECHO_HOST_DEVICE bool has(std::uint32_t e) const noexcept { return e >= place.begin && e < place.end; }
    template <class T>
    ECHO_HOST_DEVICE void load(raw_group<T, Width>& x, std::size_t i) const {
        load_group<T, Width, Warp>(x, operands[i], at[i], place);
    }
    template <class T>
    ECHO_HOST_DEVICE void store(const float (&y)[Width], std::size_t i) const {
        store_group<T, Width, Warp>(y, operands[i], at[i], place);
    }
};

/// A group that is whole, with every operand a vector or, if `Repeats`, repeated along the line. `first`: where each
/// operand has the group's first element; `column`: which element of the line that is.
template <std::uint32_t Width, class Warp, bool Repeats, class Index>
struct whole_group {
    const launch_operand* operands;
    const Index* first;
    Index column;

    ECHO_HOST_DEVICE static constexpr bool has(std::uint32_t) noexcept { return true; }
    template <class T>
    ECHO_HOST_DEVICE void load(raw_group<T, Width>& x, std::size_t i) const {
        if (Repeats && operands[i].how == access::repeated)
            load_repeated(x, operands[i].data, first[i] - column);
        else
            load_vector<T, Width, Warp>(x, operands[i].data, first[i]);
    }
    template <class T>
    ECHO_HOST_DEVICE void store(const float (&y)[Width], std::size_t i) const {
        store_vector<T, Width, Warp>(y, operands[i].data, first[i]);
    }
};

} // namespace echo::cuda::fused::detail
