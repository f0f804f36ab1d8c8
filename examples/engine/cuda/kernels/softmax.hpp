// SPDX-License-Identifier: BSL-1.0
/// @file
/// Softmax along an axis and its gradient: a warp for each row, or a lane where rows lie side by side.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/rows.hpp"
#include "engine/op.hpp"

namespace engine::cuda {

struct softmax_row {
    const float* x;
    float* y; ///< may be x
    std::int64_t extent;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const float* const from = x + r * extent;
        float* const to = y + r * extent;
        const float most = largest_of_row(w, extent, from);
        const double sum = sum_of_row(
            w, extent, [&](std::int64_t i) { return static_cast<double>(exp_below_zero(from[i] - most)); });
        const float factor = static_cast<float>(1 / sum);
        w.lanes([&](int lane) {
            for (std::int64_t i = lane; i < extent; i += warp_lanes)
                to[i] = exp_below_zero(from[i] - most) * factor;
        });
    }
};

/// One row whose elements lie `inner` apart.
struct softmax_column {
    const float* x;
    float* y; ///< may be x
    std::int64_t extent;
    divisor inner;

    template <class>
    ECHO_HOST_DEVICE void element(std::int64_t column) const {
        const auto step = static_cast<std::int64_t>(inner.value());
        const division d(column, inner);
        const std::int64_t first =
            static_cast<std::int64_t>(d.quotient) * extent * step + static_cast<std::int64_t>(d.rest);
        float most = -std::numeric_limits<float>::infinity();
        for (std::int64_t e = 0; e < extent; ++e) most = larger{}(most, x[first + e * step]);
        double sum = 0;
        for (std::int64_t e = 0; e < extent; ++e)
            sum += static_cast<double>(exp_below_zero(x[first + e * step] - most));
        const float factor = static_cast<float>(1 / sum);
        for (std::int64_t e = 0; e < extent; ++e)
            y[first + e * step] = exp_below_zero(x[first + e * step] - most) * factor;
    }
};

template <class Launcher>
void run(const ops::softmax& op, const call& c, Launcher& launcher) {
    const along a(c.inputs[0].shape(), op.axis);
    const auto extent = static_cast<std::int64_t>(a.extent);
    if (a.inner == 1)
        run_rows(op.name, static_cast<std::int64_t>(a.outer),
                 softmax_row{c.inputs[0].f32(), c.outputs[0].f32(), extent}, launcher);
    else
        run_elements(op.name, a.outer * a.inner,
                     softmax_column{c.inputs[0].f32(), c.outputs[0].f32(), extent, divisor(a.inner)},
                     launcher);
}

ECHO_HOST_DEVICE constexpr double product(float a, float b) {
    return static_cast<double>(a) * static_cast<double>(b);
}

struct softmax_gradient_row {
    const float *dy, *y;
    float* dx; ///< may be dy
    std::int64_t extent;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const std::int64_t first = r * extent;
        const float mean = static_cast<float>(
            sum_of_row(w, extent, [&](std::int64_t i) { return product(dy[first + i], y[first + i]); }));
        w.lanes([&](int lane) {
            for (std::int64_t i = first + lane; i < first + extent; i += warp_lanes)
                dx[i] = y[i] * (dy[i] - mean);
        });
    }
};

struct softmax_gradient_column {
    const float *dy, *y;
    float* dx; ///< may be dy
    std::int64_t extent;
    divisor inner;

    template <class>
    ECHO_HOST_DEVICE void element(std::int64_t column) const {
        const auto step = static_cast<std::int64_t>(inner.value());
        const division d(column, inner);
        const std::int64_t first =
            static_cast<std::int64_t>(d.quotient) * extent * step + static_cast<std::int64_t>(d.rest);
        const std::int64_t end = first + extent * step;
        double sum = 0;
        for (std::int64_t i = first; i < end; i += step) sum += product(dy[i], y[i]);
        const float mean = static_cast<float>(sum);
        for (std::int64_t i = first; i < end; i += step) dx[i] = y[i] * (dy[i] - mean);
    }
};

template <class Launcher>
void run(const ops::softmax_gradient& op, const call& c, Launcher& launcher) {
    const along a(c.inputs[0].shape(), op.axis);
    const auto extent = static_cast<std::int64_t>(a.extent);
    const float *dy = c.inputs[0].f32(), *y = c.inputs[1].f32();
    if (a.inner == 1)
        run_rows(op.name, static_cast<std::int64_t>(a.outer),
                 softmax_gradient_row{dy, y, c.outputs[0].f32(), extent}, launcher);
    else
        run_elements(op.name, a.outer * a.inner,
                     softmax_gradient_column{dy, y, c.outputs[0].f32(), extent, divisor(a.inner)}, launcher);
}

} // namespace engine::cuda
