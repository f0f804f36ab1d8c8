// SPDX-License-Identifier: BSL-1.0
/// @file
/// How a warp moves a whole tile in 16-byte accesses, at any misalignment that its arrays have in common.
///
/// Where arrays begin `head` elements before a 16-byte boundary, a tile is seen rotated by `head`: position p
/// is element (p + head) % 1024, so that every vector of positions is aligned but the last, whose elements
/// (the tile's head and tail) lane 31 moves one by one.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/bits.hpp>
#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/lane_parts.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <bit>
#include <cstdint>

namespace echo::cuda {

namespace detail {

/// One access. Elements stay packed until they are used: two of 16 bits share a register.
struct alignas(16) sixteen_bytes {
    std::uint32_t at[4];

    template <element T>
    ECHO_HOST_DEVICE constexpr T get(int c) const noexcept {
        if constexpr (sizeof(T) == 4)
            return std::bit_cast<T>(at[c]);
        else
            return T::from_bits(static_cast<std::uint16_t>(at[c / 2] >> (16 * (c % 2))));
    }
    /// Elements are set in order.
    template <element T>
    ECHO_HOST_DEVICE constexpr void set(int c, T v) noexcept {
        if constexpr (sizeof(T) == 4)
            at[c] = bits_of(v);
        else if (c % 2 == 0)
            at[c / 2] = bits_of(v);
        else
            at[c / 2] |= std::uint32_t{bits_of(v)} << 16;
    }
};
static_assert(std::endian::native == std::endian::little,
              "echo: kernel bodies expect the device's order of bytes");

} // namespace detail

/// An access, see lane_parts.hpp.
template <element T>
class wide_access {
    static constexpr int per_access = 16 / sizeof(T);
    static constexpr int part_accesses = 4;
    static constexpr int part_elements = part_accesses * per_access;
    static constexpr int part_count = lane_elements / part_elements;
    static constexpr int accesses = part_count * part_accesses;

public:
    struct part_type {
        detail::sixteen_bytes at[part_accesses]; ///< Four accesses of 16 bytes.

        ECHO_HOST_DEVICE constexpr T get(int k) const noexcept {
            return at[k / per_access].template get<T>(k % per_access);
        }
    };

    /// A lane's votes: those of the vectors that make up its word.
    struct votes_type {
        std::uint32_t at[per_access] = {}; ///< One word for each element of an access.
    };

    /// `head` elements lie in front of the first aligned access.
    ECHO_HOST_DEVICE explicit constexpr wide_access(int head) noexcept : head_(head) {}

    template <class F>
    ECHO_HOST_DEVICE static constexpr void parts(F&& f) {
        detail::for_each_part<part_count>(f);
    }
    ECHO_HOST_DEVICE static constexpr int bit_of(int part, int k) noexcept {
        return part * part_elements + k;
    }
    ECHO_HOST_DEVICE static constexpr int count() noexcept { return tile_elements; }

    template <class Warp>
    ECHO_HOST_DEVICE void load(Warp& w, int part, const T* from,
                               typename Warp::template value<part_type>& into) const {
        w.lanes([&](int lane) {
            for (int i = 0; i < part_accesses; ++i) {
                const int p = position(part, i, lane);
                if (whole(part, i, lane)) {
                    into[lane].at[i] = Warp::template load<detail::sixteen_bytes>(from + p + head_);
                } else {
                    for (int c = 0; c < per_access; ++c)
                        into[lane].at[i].set(c, from[(p + head_ + c) % tile_elements]);
                }
            }
        });
    }

    template <bool Computed = false, class Warp, class F>
    ECHO_HOST_DEVICE void store(Warp& w, int part, T* to, F&& value) const {
        w.lanes([&](int lane) {
            for (int i = 0; i < part_accesses; ++i) {
                const int p = position(part, i, lane);
                detail::sixteen_bytes v;
                for (int c = 0; c < per_access; ++c) v.set(c, value(lane, i * per_access + c));
                if (whole(part, i, lane)) {
                    if constexpr (Computed && sizeof(T) == 2)
                        Warp::store_words(to + p + head_, v);
                    else
                        Warp::store(to + p + head_, v);
                } else {
                    for (int c = 0; c < per_access; ++c)
                        to[(p + head_ + c) % tile_elements] = v.template get<T>(c);
                }
            }
        });
    }

    template <class Warp, class F>
    ECHO_HOST_DEVICE void vote(Warp& w, int part, typename Warp::template value<votes_type>& votes,
                               F&& bit) const {
        for (int i = 0; i < part_accesses; ++i)
            for (int c = 0; c < per_access; ++c) {
                const std::uint32_t vote = w.ballot([&](int lane) { return bit(lane, i * per_access + c); });
                w.lanes([&](int lane) {
                    if (lane / per_access == part * part_accesses + i) votes[lane].at[c] = vote;
                });
            }
    }

    template <class Warp>
    ECHO_HOST_DEVICE auto words(Warp& w, const typename Warp::template value<votes_type>& votes) const {
        typename Warp::template value<std::uint32_t> out;
        w.lanes([&](int lane) {
            out[lane] = detail::word_of_votes<per_access>(votes[lane].at, lane % per_access);
        });
        if (head_ == 0) return out;
        const auto before = w.shuffle(out, [](int lane) { return (lane + warp_lanes - 1) % warp_lanes; });
        w.lanes([&](int lane) { out[lane] = detail::straddle(before[lane], out[lane], 32 - head_); });
        return out;
    }

    template <class Warp>
    ECHO_HOST_DEVICE auto unpack(Warp& w, typename Warp::template value<std::uint32_t> words) const {
        if (head_ != 0) {
            const auto behind = w.shuffle(words, [](int lane) { return (lane + 1) % warp_lanes; });
            w.lanes([&](int lane) { words[lane] = detail::straddle(words[lane], behind[lane], head_); });
        }
        typename Warp::template value<std::uint32_t> bits;
        w.lanes([&](int lane) { bits[lane] = 0; });
        for (int j = 0; j < accesses; ++j) {
            const auto word =
                w.shuffle(words, [&](int lane) { return j * per_access + lane * per_access / 32; });
            w.lanes([&](int lane) {
                const std::uint32_t own = word[lane] >> (lane * per_access % 32);
                bits[lane] |= (own & detail::lowest_bits(per_access)) << (j * per_access);
            });
        }
        return bits;
    }

private:
    ECHO_HOST_DEVICE static constexpr int position(int part, int i, int lane) noexcept {
        return ((part * part_accesses + i) * warp_lanes + lane) * per_access;
    }
    /// Whether the access stays within the tile.
    ECHO_HOST_DEVICE constexpr bool whole(int part, int i, int lane) const noexcept {
        return part * part_accesses + i + 1 < accesses || lane + 1 < warp_lanes || head_ == 0;
    }

    int head_;
};

} // namespace echo::cuda
