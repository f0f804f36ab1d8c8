// SPDX-License-Identifier: BSL-1.0
/// @file
/// What softmax does with a row of scores. Sums are of 16 lanes in double, added in a fixed order.
#pragma once

#include "engine/cpu/block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace engine::cpu {

/// Sums in lanes, so that they vectorise without another order than the written one.
struct lane_sum {
    double at[vector_size] = {};

    /// Adds f(i) for i in [0, n).
    template <class F>
    void add(std::size_t n, const F& f) {
        std::size_t i = 0;
        for (; i + vector_size <= n; i += vector_size)
            for (std::size_t k = 0; k < vector_size; ++k) at[k] += f(i + k);
        for (std::size_t k = 0; i < n; ++i, ++k) at[k] += f(i);
    }
    double total() const {
        double sum = 0;
        for (const double lane : at) sum += lane;
        return sum;
    }
};

inline float largest(const float* x, std::size_t n) {
    float lanes[vector_size];
    std::fill_n(lanes, vector_size, -std::numeric_limits<float>::infinity());
    std::size_t i = 0;
    for (; i + vector_size <= n; i += vector_size)
        for (std::size_t k = 0; k < vector_size; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    return *std::max_element(lanes, lanes + vector_size);
}

/// exp(x) for x ≤ 0 on the first `n` elements, padding included; what is below 1e-37 is 0. Vector code of the C
/// library is slow there.
inline void exp_below_zero(block& v, std::size_t n) {
    constexpr float least = -86;
    for (std::size_t i = 0, last = padded(n); i < last; ++i) {
        const float x = v.at[i];
        const float e = std::exp(x < least ? least : x);
        v.at[i] = x < least ? 0.0f : e;
    }
}

/// Writes exp(x - max) where `to` is given, which may be x, and returns the sum.
inline double exp_row(const float* x, float max, float* to, std::size_t n) {
    lane_sum sum;
    block v;
    for (std::size_t at = 0; at < n; at += block_size) {
        const std::size_t count = std::min(block_size, n - at);
        v.load(x + at, count);
        for (std::size_t i = count; i < padded(count); ++i) v.at[i] = max;
        for (std::size_t i = 0; i < padded(count); ++i) v.at[i] -= max;
        exp_below_zero(v, count);
        if (to) v.store(to + at, count);
        sum.add(count, [&](std::size_t i) { return static_cast<double>(v.at[i]); });
    }
    return sum.total();
}

inline void scale_row(float* x, double factor, std::size_t n) {
    const float f = static_cast<float>(factor);
    for (std::size_t i = 0; i < n; ++i) x[i] *= f;
}

/// Rows that make up a thread's share.
inline std::size_t row_grain(std::size_t width) {
    return std::max<std::size_t>(1, thread_grain / (width + 1));
}

} // namespace engine::cpu
