// SPDX-License-Identifier: BSL-1.0
/// @file
/// Softmax along an axis and its gradient.
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

namespace engine::cpu {
namespace {

/// `f(first, n)` for each group of n columns: elements that lie side by side, `inner` apart along the axis.
template <class F>
void each_group(const along& a, context& on, const F& f) {
    const std::size_t groups = (a.inner + block_size - 1) / block_size;
    const std::size_t width = a.extent * std::min(a.inner, block_size);
    on.parallel(a.outer * groups, row_grain(width), [&](std::size_t first, std::size_t last) {
        for (std::size_t task = first; task < last; ++task) {
            const std::size_t column = task % groups * block_size;
            f(task / groups * a.extent * a.inner + column, std::min(block_size, a.inner - column));
        }
    });
}

} // namespace

void run(const ops::softmax& op, const call& c, context& on) {
    const along a(c.inputs[0].shape(), op.axis);
    const float* x = c.inputs[0].f32();
    float* y = c.outputs[0].f32();
    if (a.inner == 1) {
        on.parallel(a.outer, row_grain(a.extent), [&](std::size_t first, std::size_t last) {
            for (std::size_t r = first; r < last; ++r) {
                const float* from = x + r * a.extent;
                float* to = y + r * a.extent;
                scale_row(to, 1 / exp_row(from, largest(from, a.extent), to, a.extent), a.extent);
            }
        });
        return;
    }
    each_group(a, on, [&](std::size_t first, std::size_t n) {
        float max[block_size];
        double sum[block_size];
        block v;
        std::fill_n(max, n, -std::numeric_limits<float>::infinity());
        std::fill_n(sum, n, 0.0);
        for (std::size_t e = 0; e < a.extent; ++e)
            for (std::size_t i = 0; i < n; ++i) {
                const float score = x[first + e * a.inner + i];
                max[i] = score > max[i] ? score : max[i];
            }
        for (std::size_t e = 0; e < a.extent; ++e) {
            const std::size_t at = first + e * a.inner;
            for (std::size_t i = 0; i < n; ++i) v.at[i] = x[at + i] - max[i];
            for (std::size_t i = n; i < padded(n); ++i) v.at[i] = 0;
            exp_below_zero(v, n);
            v.store(y + at, n);
            for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(v.at[i]);
        }
        for (std::size_t i = 0; i < n; ++i) v.at[i] = static_cast<float>(1 / sum[i]);
        for (std::size_t e = 0; e < a.extent; ++e)
            for (std::size_t i = 0; i < n; ++i) y[first + e * a.inner + i] *= v.at[i];
    });
}

void run(const ops::softmax_gradient& op, const call& c, context& on) {
    const along a(c.inputs[0].shape(), op.axis);
    const float* dy = c.inputs[0].f32();
    const float* y = c.inputs[1].f32();
    float* dx = c.outputs[0].f32();
    const auto product = [](float p, float q) { return static_cast<double>(p) * static_cast<double>(q); };
    if (a.inner == 1) {
        on.parallel(a.outer, row_grain(a.extent), [&](std::size_t first, std::size_t last) {
            for (std::size_t r = first; r < last; ++r) {
                const std::size_t at = r * a.extent;
                lane_sum sum;
                sum.add(a.extent, [&](std::size_t i) { return product(dy[at + i], y[at + i]); });
                const float mean = static_cast<float>(sum.total());
                for (std::size_t i = at; i < at + a.extent; ++i) dx[i] = y[i] * (dy[i] - mean);
            }
        });
        return;
    }
    each_group(a, on, [&](std::size_t first, std::size_t n) {
        double sum[block_size];
        float mean[block_size];
        std::fill_n(sum, n, 0.0);
        for (std::size_t e = 0; e < a.extent; ++e) {
            const std::size_t at = first + e * a.inner;
            for (std::size_t i = 0; i < n; ++i) sum[i] += product(dy[at + i], y[at + i]);
        }
        for (std::size_t i = 0; i < n; ++i) mean[i] = static_cast<float>(sum[i]);
        for (std::size_t e = 0; e < a.extent; ++e) {
            const std::size_t at = first + e * a.inner;
            for (std::size_t i = 0; i < n; ++i) dx[at + i] = y[at + i] * (dy[at + i] - mean[i]);
        }
    });
}

} // namespace engine::cpu
