// SPDX-License-Identifier: BSL-1.0
/// @file
/// Groups of four neighbouring elements: what a lane takes at a time where elements are computed one by one. Where a
/// tensor begins at a multiple of 16 bytes a group is one access; the arithmetic is the same either way.
#pragma once

#include "engine/call.hpp"

#include <echo/config.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace engine::cuda {

inline constexpr int group_size = 4;

/// f(0) to f(Count - 1), of constants: what is kept for each lies in registers.
template <int Count, class F>
ECHO_HOST_DEVICE constexpr void each(F&& f) {
    [&]<int... K>(std::integer_sequence<int, K...>) {
        (f(std::integral_constant<int, K>{}), ...);
    }(std::make_integer_sequence<int, Count>{});
}

/// The elements of a group, in registers.
struct group {
    float at[group_size];
};

/// 16 bytes, moved by one access.
struct alignas(16) sixteen_bytes {
    std::uint32_t x, y, z, w;
};

inline bool is_wide(const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(sixteen_bytes) == 0;
}

template <class Warp>
ECHO_HOST_DEVICE group load_wide(const float* from) {
    const auto v = Warp::template load<sixteen_bytes>(from);
    return {{std::bit_cast<float>(v.x), std::bit_cast<float>(v.y), std::bit_cast<float>(v.z),
             std::bit_cast<float>(v.w)}};
}

template <class Warp>
ECHO_HOST_DEVICE void store_wide(float* to, const group& v) {
    Warp::store(to,
                sixteen_bytes{std::bit_cast<std::uint32_t>(v.at[0]), std::bit_cast<std::uint32_t>(v.at[1]),
                              std::bit_cast<std::uint32_t>(v.at[2]), std::bit_cast<std::uint32_t>(v.at[3])});
}

/// A tensor that is read in groups.
struct source {
    const float* data = nullptr;
    bool wide = false;

    source() = default;
    explicit source(const float* from) : data(from), wide(is_wide(from)) {}
    explicit source(const input_view& v) : source(v.f32()) {}

    /// Elements `first` to `first` + n; 1 behind them.
    template <class Warp>
    ECHO_HOST_DEVICE group load(std::int64_t first, int n) const {
        if (wide && n == group_size) return load_wide<Warp>(data + first);
        group v;
        for (int k = 0; k < group_size; ++k) v.at[k] = k < n ? data[first + k] : 1.0f;
        return v;
    }
};

/// The same, or bits that are read as 1 and 0.
struct bit_source {
    const void* data = nullptr;
    bool packed = false, wide = false;

    bit_source() = default;
    explicit bit_source(const input_view& v) : data(v.data), packed(v.packed), wide(is_wide(v.data)) {}

    template <class Warp>
    ECHO_HOST_DEVICE group load(std::int64_t first, int n) const {
        group v;
        if (packed) {
            const std::uint32_t bits = static_cast<const std::uint32_t*>(data)[first / 32] >> (first % 32);
            for (int k = 0; k < group_size; ++k) v.at[k] = static_cast<float>(bits >> k & 1u);
            return v;
        }
        const auto* from = static_cast<const float*>(data);
        if (wide && n == group_size) return load_wide<Warp>(from + first);
        for (int k = 0; k < group_size; ++k) v.at[k] = k < n ? from[first + k] : 1.0f;
        return v;
    }
};

/// A tensor that is written in groups.
struct sink {
    float* data = nullptr;
    bool wide = false;

    sink() = default;
    explicit sink(float* to) : data(to), wide(is_wide(to)) {}
    explicit sink(const output_view& v) : sink(v.f32()) {}

    template <class Warp>
    ECHO_HOST_DEVICE void store(std::int64_t first, int n, const group& v) const {
        if (wide && n == group_size) {
            store_wide<Warp>(data + first, v);
            return;
        }
        for (int k = 0; k < group_size; ++k)
            if (k < n) data[first + k] = v.at[k];
    }
};

/// What a functor prepares once per lane, where it does.
template <class F>
ECHO_HOST_DEVICE constexpr auto prepared(const F& f) {
    if constexpr (requires { f.prepare(); })
        return f.prepare();
    else
        return nullptr;
}

/// `F` on each group of `count` elements: `f.run<Warp>(first, n, ready)`, n is less than 4 in the last group at most.
template <class F>
struct per_group {
    std::int64_t count;
    F f;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept {
        constexpr std::int64_t of_tile = group_size * echo::cuda::warp_lanes;
        return count / of_tile + (count % of_tile != 0);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        const auto ready = prepared(f);
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count())
            w.lanes([&](int lane) {
                const std::int64_t first = (tile * echo::cuda::warp_lanes + lane) * group_size;
                const std::int64_t left = count - first;
                if (left > 0)
                    f.template run<Warp>(first, left < group_size ? static_cast<int>(left) : group_size,
                                         ready);
            });
    }
};

/// Starts it.
template <class F, class Launcher>
void run_groups(std::string_view name, std::size_t count, const F& f, Launcher& launcher) {
    launcher(name, per_group<F>{static_cast<std::int64_t>(count), f});
}

} // namespace engine::cuda
