// SPDX-License-Identifier: BSL-1.0
/// @file
/// What kernels of rows share: a warp takes a row, its lanes every 32nd element, and lanes are put together over
/// distances 16, 8, 4, 2, 1. What lane 0 has then is the result, of all lanes.
#pragma once

#include "engine/call.hpp"

#include <echo/config.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace engine::cuda {

using echo::cuda::warp_lanes;

/// Bytes of scratch memory in which `count` of `T` fit, wherever it begins: at a multiple of 4.
template <class T>
constexpr std::uint64_t scratch_bytes(std::uint64_t count) {
    return count * sizeof(T) + (alignof(T) - 4);
}

/// The first of them, behind `skipped` bytes.
template <class T>
T* scratch_of(const call& c, std::uint64_t skipped = 0) {
    std::byte* const at = c.scratch.data() + skipped;
    const auto past = reinterpret_cast<std::uintptr_t>(at) % alignof(T);
    return reinterpret_cast<T*>(at + (past ? alignof(T) - past : 0));
}

/// What lanes wrote to memory is there for all lanes.
template <class Warp>
ECHO_HOST_DEVICE void meet(Warp&) {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
}

template <class Warp, class T, class F>
ECHO_HOST_DEVICE T over_lanes(Warp& w, typename Warp::template value<T>& v, F both) {
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
        const auto other = w.shuffle(v, [distance](int lane) { return lane ^ distance; });
        w.lanes([&](int lane) { v[lane] = both(v[lane], other[lane]); });
    }
    return w.shuffle(v, [](int) { return 0; })[0];
}

template <class T>
struct add_both {
    ECHO_HOST_DEVICE constexpr T operator()(T a, T b) const { return a + b; }
};
/// The larger one; what is no number loses.
struct larger {
    ECHO_HOST_DEVICE constexpr float operator()(float a, float b) const { return b > a ? b : a; }
};

template <class Warp>
ECHO_HOST_DEVICE double sum_of_lanes(Warp& w, typename Warp::template value<double>& v) {
    return over_lanes<Warp, double>(w, v, add_both<double>{});
}

/// The sum of f(i) for i in [0, n).
template <class Warp, class F>
ECHO_HOST_DEVICE double sum_of_row(Warp& w, std::int64_t n, F&& f) {
    typename Warp::template value<double> sum;
    w.lanes([&](int lane) {
        double own = 0;
        for (std::int64_t i = lane; i < n; i += warp_lanes) own += f(i);
        sum[lane] = own;
    });
    return sum_of_lanes(w, sum);
}

template <class Warp>
ECHO_HOST_DEVICE float largest_of_row(Warp& w, std::int64_t n, const float* x) {
    typename Warp::template value<float> most;
    w.lanes([&](int lane) {
        float own = -std::numeric_limits<float>::infinity();
        for (std::int64_t i = lane; i < n; i += warp_lanes) own = larger{}(own, x[i]);
        most[lane] = own;
    });
    return over_lanes<Warp, float>(w, most, larger{});
}

/// exp(x) for x ≤ 0; what is below 1e-37 is 0.
ECHO_HOST_DEVICE inline float exp_below_zero(float x) { return x < -86 ? 0.0f : std::exp(x); }

/// `F` on each row, `f.row(w, index)`: a tile is a row.
template <class F>
struct per_row {
    std::int64_t rows;
    F f;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return rows; }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t r = w.index(); r < rows; r += w.count()) f.row(w, r);
    }
};
template <class F, class Launcher>
void run_rows(std::string_view name, std::int64_t rows, const F& f, Launcher& launcher) {
    launcher(name, per_row<F>{rows, f});
}

/// `F` on each element, `f.element<Warp>(index)`: a lane takes one at a time.
template <class F>
struct per_element {
    std::int64_t count;
    F f;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept {
        return count / warp_lanes + (count % warp_lanes != 0);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count())
            w.lanes([&](int lane) {
                const std::int64_t i = tile * warp_lanes + lane;
                if (i < count) f.template element<Warp>(i);
            });
    }
};
template <class F, class Launcher>
void run_elements(std::string_view name, std::size_t count, const F& f, Launcher& launcher) {
    launcher(name, per_element<F>{static_cast<std::int64_t>(count), f});
}

} // namespace engine::cuda
