// SPDX-License-Identifier: BSL-1.0
/// @file
/// Pooling by oneDNN. The gradient is an own loop: oneDNN's gradient of maxima wants the positions that the forward
/// pass found, which would have to be stashed; here they are found again in x and y.
#include "engine/cpu/block.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/onednn.hpp"

namespace engine::cpu {
namespace {

using namespace onednn;

kernel& find(const ops::pooling& op, const echo::shape& x, const echo::shape& y, const context& on) {
    const auto& w = op.window;
    geometry key{20, op.how, w.channels_last};
    for (const auto& two : {op.kernel, w.stride, w.padding, w.dilation})
        key.insert(key.end(), two.begin(), two.end());
    key.insert(key.end(), x.extents().begin(), x.extents().end());
    return kernel_of(op.name, std::move(key), on, [&]() -> kernel {
        const desc from = image(image_dims(x, w.channels_last), w.channels_last);
        const desc to = image(image_dims(y, w.channels_last), w.channels_last);
        const dims padding{w.padding[0], w.padding[1]};
        const dnnl::pooling_v2_forward::primitive_desc how(
            {dnnl::prop_kind::forward_inference,
             op.how == ops::pooling::max ? dnnl::algorithm::pooling_max
                                         : dnnl::algorithm::pooling_avg_include_padding,
             from,
             to,
             {w.stride[0], w.stride[1]},
             {op.kernel[0], op.kernel[1]},
             {w.dilation[0] - 1, w.dilation[1] - 1},
             padding,
             padding},
            attributes(), processor());
        return {dnnl::pooling_v2_forward(how),
                how.scratchpad_desc(),
                {{DNNL_ARG_SRC, from, from}, {DNNL_ARG_DST, to, to, true}}};
    });
}

/// Positions that windows reach along one axis.
struct reach {
    std::int64_t extent, stride, padding, dilation, kernel;

    reach(const ops::pooling& op, const echo::shape& x, std::size_t i)
        : extent(x[op.window.space_axis(i)]), stride(op.window.stride[i]), padding(op.window.padding[i]),
          dilation(op.window.dilation[i]), kernel(op.kernel[i]) {}

    /// `f` on the positions of window `o` inside the image.
    template <class F>
    void each(std::int64_t o, const F& f) const {
        for (std::int64_t k = 0, at = o * stride - padding; k < kernel; ++k, at += dilation)
            if (at >= 0 && at < extent) f(static_cast<std::size_t>(at));
    }
};

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// The first element of window (r, s) of one channel that is `most`; none where that is not a number.
std::size_t first_equal(const reach& rows, const reach& columns, std::int64_t r, std::int64_t s,
                        const float* x, float most, std::size_t step) {
    std::int64_t h = r * rows.stride - rows.padding;
    for (std::int64_t i = 0; i < rows.kernel; ++i, h += rows.dilation) {
        if (h < 0 || h >= rows.extent) continue;
        std::int64_t w = s * columns.stride - columns.padding;
        for (std::int64_t j = 0; j < columns.kernel; ++j, w += columns.dilation) {
            if (w < 0 || w >= columns.extent) continue;
            const std::size_t at = static_cast<std::size_t>(h * columns.extent + w) * step;
            if (x[at] == most) return at;
        }
    }
    return nowhere;
}

/// Channels that one task takes, where they lie side by side.
constexpr std::size_t lanes = 64;

} // namespace

void run(const ops::pooling& op, const call& c, context& on) {
    find(op, c.inputs[0].shape(), c.outputs[0].shape(), on)({c.inputs[0].data, c.outputs[0].data}, c.scratch);
}

std::uint64_t scratch(const ops::pooling& op, tensor_span in, tensor_span out, context& on) {
    return find(op, in[0].shape, out[0].shape, on).scratch();
}

void run(const ops::pooling_gradient& op, const call& c, context& on) {
    const auto& shape = op.shape;
    const auto& windows = c.inputs[0].shape();
    const bool last = op.of.window.channels_last, maxima = op.of.how == ops::pooling::max;
    const reach rows(op.of, shape, 0), columns(op.of, shape, 1);
    const auto channels = static_cast<std::size_t>(shape[op.of.window.channel_axis()]);
    const auto width = static_cast<std::size_t>(columns.extent);
    const std::size_t area = static_cast<std::size_t>(rows.extent) * width;
    const auto out_rows = windows[op.of.window.space_axis(0)];
    const auto out_columns = windows[op.of.window.space_axis(1)];
    const std::size_t out_area = static_cast<std::size_t>(out_rows * out_columns);
    const float share = 1 / static_cast<float>(rows.kernel * columns.kernel);
    // A task is `n` channels of one image; elements of a channel lie `step` apart.
    const std::size_t step = last ? channels : 1;
    const std::size_t parts = last ? (channels + lanes - 1) / lanes : channels;
    const std::size_t grain = std::max<std::size_t>(1, thread_grain / (area + 1));
    const auto images = static_cast<std::size_t>(shape[0]);
    on.parallel(images * parts, grain, [&](std::size_t first, std::size_t end) {
        for (std::size_t task = first; task < end; ++task) {
            const std::size_t image = task / parts, begin = task % parts * (last ? lanes : 1);
            const std::size_t n = last ? std::min(lanes, channels - begin) : 1;
            const std::size_t from = last ? image * area * channels + begin : task * area;
            const std::size_t out = last ? image * out_area * channels + begin : task * out_area;
            float* dx = c.outputs[0].f32() + from;
            for (std::size_t i = 0; i < area; ++i) std::fill_n(dx + i * step, n, 0.0f);
            const float* dy = c.inputs[0].f32() + out;
            const float* x = maxima ? c.inputs[1].f32() + from : nullptr;
            const float* y = maxima ? c.inputs[2].f32() + out : nullptr;
            for (std::int64_t r = 0; r < out_rows; ++r)
                for (std::int64_t s = 0; s < out_columns; ++s) {
                    if (maxima && n == 1) {
                        const std::size_t at = first_equal(rows, columns, r, s, x, *y, step);
                        if (at != nowhere) dx[at] += *dy;
                    } else {
                        std::uint32_t open[lanes]; // the first element equal to the maximum takes it all
                        std::fill_n(open, n, 1u);
                        rows.each(r, [&](std::size_t h) {
                            columns.each(s, [&](std::size_t w) {
                                const std::size_t at = (h * width + w) * step;
                                if (!maxima) {
                                    for (std::size_t k = 0; k < n; ++k) dx[at + k] += dy[k] * share;
                                    return;
                                }
                                for (std::size_t k = 0; k < n; ++k) {
                                    const std::uint32_t hit = open[k] & std::uint32_t{x[at + k] == y[k]};
                                    dx[at + k] += hit ? dy[k] : 0.0f;
                                    open[k] ^= hit;
                                }
                            });
                        });
                    }
                    dy += step;
                    if (maxima) y += step;
                }
        }
    });
}

} // namespace engine::cpu
