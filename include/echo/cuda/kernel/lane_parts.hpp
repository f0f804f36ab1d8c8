// SPDX-License-Identifier: BSL-1.0
/// @file
/// Tiles and how a lane holds its share of one. A tile is 1,024 elements, so 32 words of mask, one for each
/// lane.
///
/// A lane takes its 32 elements of a tile in one or two parts, one after the other, so that enough accesses
/// are under way and enough warps find room. How they are moved is an access: `wide_access` or
/// `narrow_access`. Both offer, with k counting a lane's elements within a part and `bit_of(part, k)` within
/// the tile:
/// - `parts(f)`: f(part) for each part; `part_type`: registers for a lane's elements of one, `.get(k)`;
/// - `load(w, part, from, into)`, `store<Computed>(w, part, to, value)`: of the tile that begins there; value(lane, k),
///   `Computed` where it is more than a copy of what was loaded;
/// - `vote(w, part, votes, bit)`: takes bit(lane, k) of a part's elements into account; `words(w, votes)`:
///   after all parts, the words of the tile, lane i's is word i;
/// - `unpack(w, words)`: the inverse, bit `bit_of(part, k)` of what a lane gets is its element's;
/// - `count()`: elements of the tile.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cstdint>
#include <type_traits>

namespace echo::cuda {

inline constexpr int tile_elements = 1024;                       ///< Elements that a warp takes at once.
inline constexpr int tile_words = tile_elements / 32;            ///< Words of mask of a tile.
inline constexpr int lane_elements = tile_elements / warp_lanes; ///< Elements of a tile that are one lane's.

/// Tiles of n elements.
ECHO_HOST_DEVICE constexpr std::int64_t tiles_of(std::int64_t n) noexcept {
    return n / tile_elements + (n % tile_elements != 0);
}

namespace detail {

template <int Count, class F>
ECHO_HOST_DEVICE constexpr void for_each_part(F&& f) {
    if constexpr (Count == 2) {
        f(std::integral_constant<int, 0>{});
        f(std::integral_constant<int, 1>{});
    } else {
        static_assert(Count == 1);
        f(std::integral_constant<int, 0>{});
    }
}

} // namespace detail

} // namespace echo::cuda
