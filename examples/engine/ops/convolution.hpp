// SPDX-License-Identifier: BSL-1.0
/// @file
/// Convolution and pooling over two spatial axes. x is [n, c, h, w], or [n, h, w, c] with `channels_last`; weights are
/// [o, c / groups, kh, kw] either way.
#pragma once

#include "engine/value.hpp"

#include <array>

namespace engine::ops {

using pair = std::array<std::int64_t, 2>;

/// How a window slides.
struct sliding {
    pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
    std::int64_t groups = 1;
    bool channels_last = false;

    std::size_t channel_axis() const { return channels_last ? 3 : 1; }
    std::size_t space_axis(std::size_t i) const { return (channels_last ? 1 : 2) + i; }

    /// The shape of the result. Errors: no room for the window.
    echo::shape slide(const echo::tensor& x, std::int64_t channels, const pair& kernel) const {
        expect(x.shape.rank() == 4, "four axes", x);
        auto made = extents_of(x.shape);
        made[channel_axis()] = channels;
        for (std::size_t i = 0; i < 2; ++i) {
            const auto reach = dilation[i] * (kernel[i] - 1) + 1;
            auto& extent = made[space_axis(i)];
            const auto room = extent + 2 * padding[i] - reach;
            expect(room >= 0, "room for a window of " + std::to_string(reach), x);
            extent = room / stride[i] + 1;
        }
        return echo::shape(std::move(made));
    }
};

inline double convolution_flops(const echo::tensor& result, const echo::shape& weights) {
    return 2 * count(result) * static_cast<double>(weights[1] * weights[2] * weights[3]);
}

/// dy, w → dx of the shape told.
struct convolution_data_gradient {
    static constexpr std::string_view name = "convolution_data_gradient";
    sliding window{};
    echo::shape shape{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return heavy_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const { return convolution_flops(in[0], in[1].shape); }
};

/// dy, x → dw of the shape told.
struct convolution_weight_gradient {
    static constexpr std::string_view name = "convolution_weight_gradient";
    sliding window{};
    echo::shape shape{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return heavy_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const { return convolution_flops(in[0], shape); }
};

/// x, w → y, no bias. The gradient reads x and w.
struct convolution {
    static constexpr std::string_view name = "convolution";
    sliding window{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        for (const auto& t : in) expect_type(t, echo::dtype::f32);
        expect(in[0].shape.rank() == 4, "four axes", in[0]);
        const auto channels = in[0].shape[window.channel_axis()];
        expect(in[1].shape.rank() == 4 && in[1].shape[1] * window.groups == channels &&
                   in[1].shape[0] % window.groups == 0,
               "weights [o, " + std::to_string(channels / window.groups) + ", kh, kw]", in[1]);
        return {f32(window.slide(in[0], in[1].shape[0], {in[1].shape[2], in[1].shape[3]}))};
    }
    echo::op_facts facts() const { return heavy_facts(name, {.inputs = {0, 1}}); }
    double flops(tensor_span in, tensor_span out) const { return convolution_flops(out[0], in[1].shape); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (!d.dy[0]) return made;
        made[1] = g.add(convolution_weight_gradient{window, g[d.x[1]].shape}, {*d.dy[0], d.x[0]});
        made[0] = g.add(convolution_data_gradient{window, g[d.x[0]].shape}, {*d.dy[0], d.x[1]});
        return made;
    }
};

/// Maxima: dy, x, y → dx. Means: dy → dx.
struct pooling_gradient;

/// The gradient of maxima reads x and y, that of means nothing. A mean counts padding as elements.
struct pooling {
    static constexpr std::string_view name = "pooling";
    enum kind { max, mean };
    kind how = max;
    pair kernel{1, 1};
    sliding window{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect(in[0].shape.rank() == 4, "four axes", in[0]);
        return {f32(window.slide(in[0], in[0].shape[window.channel_axis()], kernel))};
    }
    echo::op_facts facts() const {
        return light_facts(name, how == max ? echo::reads{.inputs = {0}, .outputs = {0}} : echo::reads{});
    }
    double flops(tensor_span, tensor_span out) const {
        return count(out[0]) * static_cast<double>(kernel[0] * kernel[1]);
    }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const;
};

struct pooling_gradient {
    static constexpr std::string_view name = "pooling_gradient";
    pooling of{};
    echo::shape shape{}; ///< of x
    tensors infer(tensor_span in) const {
        expect_inputs(in, of.how == pooling::max ? 3 : 1);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const {
        return count(in[0]) * static_cast<double>(of.kernel[0] * of.kernel[1]);
    }
};

template <class Graph>
gradients pooling::gradient(Graph& g, const differentiation& d) const {
    gradients made(1);
    if (!d.dy[0]) return made;
    std::vector<value> read{*d.dy[0]};
    if (how == max) read.insert(read.end(), {d.x[0], d.y[0]});
    made[0] = g.add(pooling_gradient{*this, g[d.x[0]].shape}, std::move(read));
    return made;
}

} // namespace engine::ops
