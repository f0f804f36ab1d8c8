// SPDX-License-Identifier: BSL-1.0
/// @file
/// Tiles: what a warp takes at a time. No two warps share an element or a word of mask, so nothing is atomic
/// and all may run in place.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/bits.hpp>
#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/lane_parts.hpp>
#include <echo/cuda/kernel/narrow_access.hpp>
#include <echo/cuda/kernel/warp.hpp>
#include <echo/cuda/kernel/wide_access.hpp>

#include <cstdint>
#include <initializer_list>

namespace echo::cuda {

/// How the arrays of a call lie relative to 16-byte boundaries.
struct tile_alignment {
    int head;  ///< elements before the first boundary, the same in all arrays
    bool wide; ///< false where they differ
};

/// Of arrays of T that are aligned to T at least.
template <element T>
tile_alignment alignment_of(std::initializer_list<const T*> arrays) noexcept {
    const auto head = [](const T* at) {
        return static_cast<int>((16 - reinterpret_cast<std::uintptr_t>(at) % 16) % 16 / sizeof(T));
    };
    tile_alignment out{head(*arrays.begin()), true};
    for (const T* at : arrays) out.wide = out.wide && head(at) == out.head;
    return out;
}

/// The words of a tile that begins at word `from`; those behind its end are 0 and not touched.
template <class Warp>
ECHO_HOST_DEVICE auto load_words(Warp& w, const std::uint32_t* from, int count) {
    typename Warp::template value<std::uint32_t> words;
    w.lanes([&](int lane) { words[lane] = 32 * lane < count ? from[lane] : 0u; });
    return words;
}

/// Writes the words that hold bits of the first `count` elements; bits behind them are 0.
template <class Warp>
ECHO_HOST_DEVICE void store_words(Warp& w, std::uint32_t* to, int count,
                                  const typename Warp::template value<std::uint32_t>& words) {
    w.lanes([&](int lane) {
        if (32 * lane < count) to[lane] = words[lane] & detail::lowest_bits(count - 32 * lane);
    });
}

/// y ← f(x, bit) for the elements of a tile; x and y begin there, and y may be x.
/// `Computed`: f makes other values than x and 0.
template <bool Computed, element T, class Warp, class Access, class F>
ECHO_HOST_DEVICE void map_kept(Warp& w, const Access& access, const T* x, T* y,
                               const typename Warp::template value<std::uint32_t>& bits, F&& f) {
    access.parts([&](auto part) {
        typename Warp::template value<typename Access::part_type> v;
        access.load(w, part, x, v);
        access.template store<Computed>(w, part, y, [&](int lane, int k) {
            return f(v[lane].get(k), (bits[lane] >> Access::bit_of(part, k) & 1u) != 0);
        });
    });
}

/// Calls f(access, first element) for every tile that falls to this warp, in strides of the grid.
template <element T, class Warp, class F>
ECHO_HOST_DEVICE void for_each_tile(Warp& w, std::int64_t n, tile_alignment at, F&& f) {
    for (std::int64_t tile = w.index(), last = tiles_of(n); tile < last; tile += w.count()) {
        const std::int64_t first = tile * tile_elements, left = n - first;
        if (at.wide && left >= tile_elements)
            f(wide_access<T>(at.head), first);
        else
            f(narrow_access<T>(left < tile_elements ? static_cast<int>(left) : tile_elements), first);
    }
}

} // namespace echo::cuda
