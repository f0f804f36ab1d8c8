// SPDX-License-Identifier: BSL-1.0
/// @file
/// How a warp moves elements one by one, a warp's next to each other: tiles that are not whole, and arrays
/// whose misalignments differ.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/lane_parts.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cstdint>

namespace echo::cuda {

/// An access, see lane_parts.hpp, for 1 to 1,024 elements that lie anywhere. A lane's element k is element 32
/// k + lane of the tile.
template <element T>
class narrow_access {
    static constexpr int part_elements = 16;

public:
    struct part_type {
        T at[part_elements]; ///< The elements.

        ECHO_HOST_DEVICE constexpr T get(int k) const noexcept { return at[k]; }
    };
    /// Lane i's is word i.
    using votes_type = std::uint32_t;

    /// `count` elements, 1 to 1,024, wherever they lie.
    ECHO_HOST_DEVICE explicit constexpr narrow_access(int count) noexcept : count_(count) {}

    template <class F>
    ECHO_HOST_DEVICE static constexpr void parts(F&& f) {
        detail::for_each_part<lane_elements / part_elements>(f);
    }
    ECHO_HOST_DEVICE static constexpr int bit_of(int part, int k) noexcept {
        return part * part_elements + k;
    }
    ECHO_HOST_DEVICE constexpr int count() const noexcept { return count_; }

    template <class Warp>
    ECHO_HOST_DEVICE void load(Warp& w, int part, const T* from,
                               typename Warp::template value<part_type>& into) const {
        w.lanes([&](int lane) {
            for (int k = 0; k < part_elements; ++k)
                into[lane].at[k] = has(part, k, lane) ? from[place(part, k, lane)] : zero<T>();
        });
    }

    template <bool Computed = false, class Warp, class F>
    ECHO_HOST_DEVICE void store(Warp& w, int part, T* to, F&& value) const {
        w.lanes([&](int lane) {
            for (int k = 0; k < part_elements; ++k)
                if (has(part, k, lane)) to[place(part, k, lane)] = value(lane, k);
        });
    }

    template <class Warp, class F>
    ECHO_HOST_DEVICE void vote(Warp& w, int part, typename Warp::template value<votes_type>& votes,
                               F&& bit) const {
        for (int k = 0; k < part_elements; ++k) {
            const std::uint32_t vote = w.ballot([&](int lane) { return has(part, k, lane) && bit(lane, k); });
            w.lanes([&](int lane) {
                if (lane == bit_of(part, k)) votes[lane] = vote;
            });
        }
    }

    template <class Warp>
    ECHO_HOST_DEVICE auto words(Warp&, const typename Warp::template value<votes_type>& votes) const {
        return votes;
    }

    /// A transposition of 32 × 32 bits: halves of halves change places.
    template <class Warp>
    ECHO_HOST_DEVICE auto unpack(Warp& w, typename Warp::template value<std::uint32_t> words) const {
        std::uint32_t low = 0x0000ffffu; // bits whose index has no `step` in it
        for (int step = 16; step > 0; step /= 2, low ^= low << step) {
            const auto other = w.shuffle(words, [&](int lane) { return lane ^ step; });
            w.lanes([&](int lane) {
                words[lane] = (lane & step) == 0 ? (words[lane] & low) | (other[lane] & low) << step
                                                 : (words[lane] & ~low) | (other[lane] >> step & low);
            });
        }
        return words;
    }

private:
    ECHO_HOST_DEVICE static constexpr int place(int part, int k, int lane) noexcept {
        return warp_lanes * bit_of(part, k) + lane;
    }
    ECHO_HOST_DEVICE constexpr bool has(int part, int k, int lane) const noexcept {
        return place(part, k, lane) < count_;
    }

    int count_;
};

} // namespace echo::cuda
