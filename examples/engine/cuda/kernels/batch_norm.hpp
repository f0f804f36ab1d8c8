// SPDX-License-Identifier: BSL-1.0
/// @file
/// Statistics of a batch, its normalisation and the gradient of that.
#pragma once

#include "engine/cuda/kernels/elementwise.hpp"
#include "engine/cuda/kernels/sums.hpp"

#include <cmath>

namespace engine::cuda {

/// Sums over all axes but the channels'.
inline sum_layout<1> layout_of_channels(const echo::shape& x, std::int64_t axis) {
    sum_axes<1> axes;
    const auto steps = steps_of(x);
    const std::size_t channel = axis_of(x, axis);
    for (std::size_t a = 0; a < x.rank(); ++a) axes.push(x[a], a != channel, {steps[a]});
    return axes.made();
}

struct moment_terms {
    static constexpr int operands = 1, sums = 2;
    const float* x;
    ECHO_HOST_DEVICE some_sums<2> terms(std::int64_t, const std::int32_t (&at)[1]) const {
        const auto value = static_cast<double>(x[at[0]]);
        return {{value, value * value}};
    }
};
/// Squares in double keep what a float can hold of the variance, wherever the mean is.
struct write_moments {
    float *mean, *variance;
    double terms;
    ECHO_HOST_DEVICE void finish(std::int64_t channel, const some_sums<2>& all) const {
        const double middle = all.at[0] / terms, rest = all.at[1] / terms - middle * middle;
        mean[channel] = static_cast<float>(middle);
        variance[channel] = static_cast<float>(rest < 0 ? 0 : rest);
    }
};

template <class Launcher>
void run(const ops::batch_statistics& op, const call& c, Launcher& launcher) {
    const auto over = layout_of_channels(c.inputs[0].shape(), op.axis);
    run_sums(op.name, over, moment_terms{c.inputs[0].f32()},
             write_moments{c.outputs[0].f32(), c.outputs[1].f32(), static_cast<double>(over.count)},
             scratch_of<double>(c), launcher);
}
inline std::uint64_t scratch(const ops::batch_statistics& op, tensor_span in, tensor_span) {
    return sum_scratch(layout_of_channels(in[0].shape, op.axis), 2);
}

/// Where the channel of an element is found.
struct channel_place {
    divisor inner, channels;

    channel_place(const echo::shape& x, std::int64_t axis) {
        const along a(x, axis);
        inner = divisor(a.inner);
        channels = divisor(a.extent);
    }
    /// Of the elements of a group; those behind the last may be any.
    ECHO_HOST_DEVICE constexpr void of_group(std::int64_t first, std::uint32_t (&channel)[group_size]) const {
        for (int e = 0; e < group_size; ++e)
            channel[e] = division(division(first + e, inner).quotient, channels).rest;
    }
};

/// `normalise_op` on groups.
struct normalise_groups {
    source x;
    sink y;
    const float *gamma, *beta, *mean, *variance;
    channel_place place;
    told<ops::normalise_op> epsilon;
    bool fixed_gamma;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group v = x.load<Warp>(first, n);
        std::uint32_t channel[group_size];
        place.of_group(first, channel);
        for (int e = 0; e < group_size; ++e) {
            const std::uint32_t k = channel[e];
            const float read[] = {v.at[e], fixed_gamma ? 1.0f : gamma[k], beta[k], mean[k], variance[k]};
            float made[1];
            forward<ops::normalise_op>(read, epsilon, made);
            v.at[e] = made[0];
        }
        y.store<Warp>(first, n, v);
    }
};

template <class Launcher>
void run(const ops::batch_norm& op, const call& c, Launcher& launcher) {
    const auto& in = c.inputs;
    run_groups(op.name, c.outputs[0].size(),
               normalise_groups{source(in[0]), sink(c.outputs[0]), in[1].f32(), in[2].f32(), in[3].f32(),
                                in[4].f32(), channel_place(in[0].shape(), op.axis),
                                told<ops::normalise_op>({op.epsilon}), op.fixed_gamma},
               launcher);
}

/// dy, and dy · (x − mean).
struct norm_gradient_terms {
    static constexpr int operands = 1, sums = 2;
    const float *dy, *x, *mean;
    ECHO_HOST_DEVICE some_sums<2> terms(std::int64_t channel, const std::int32_t (&at)[1]) const {
        const auto d = static_cast<double>(dy[at[0]]);
        return {{d, d * (static_cast<double>(x[at[0]]) - static_cast<double>(mean[channel]))}};
    }
};
/// dgamma and dbeta, and what dx needs of a channel: dx = dy · a + (x − mean) · b + c.
struct write_norm_gradient {
    const float *gamma, *variance;
    float *dgamma, *dbeta, *a, *b, *c;
    double terms, epsilon;
    bool fixed_gamma;
    ECHO_HOST_DEVICE void finish(std::int64_t channel, const some_sums<2>& all) const {
        const double inverse = 1 / std::sqrt(static_cast<double>(variance[channel]) + epsilon);
        const double scale = fixed_gamma ? inverse : inverse * static_cast<double>(gamma[channel]);
        dgamma[channel] = fixed_gamma ? 0.0f : static_cast<float>(all.at[1] * inverse);
        dbeta[channel] = static_cast<float>(all.at[0]);
        a[channel] = static_cast<float>(scale);
        b[channel] = static_cast<float>(-scale * inverse * inverse * all.at[1] / terms);
        c[channel] = static_cast<float>(-scale * all.at[0] / terms);
    }
};
/// dx of groups.
struct norm_gradient_groups {
    source dy, x;
    sink dx; ///< may be dy
    const float *mean, *a, *b, *c;
    channel_place place;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group v = dy.load<Warp>(first, n);
        const group from = x.load<Warp>(first, n);
        std::uint32_t channel[group_size];
        place.of_group(first, channel);
        for (int e = 0; e < group_size; ++e) {
            const std::uint32_t k = channel[e];
            v.at[e] = v.at[e] * a[k] + ((from.at[e] - mean[k]) * b[k] + c[k]);
        }
        dx.store<Warp>(first, n, v);
    }
};

// Scratch: a, b and c, then parts of the sums.

inline std::uint64_t scratch(const ops::batch_norm_gradient& op, tensor_span in, tensor_span) {
    return 3 * elements(in[2]) * sizeof(float) + sum_scratch(layout_of_channels(in[1].shape, op.axis), 2);
}

template <class Launcher>
void run(const ops::batch_norm_gradient& op, const call& c, Launcher& launcher) {
    const echo::shape& shape = c.inputs[1].shape();
    const auto over = layout_of_channels(shape, op.axis);
    const std::size_t channels = c.inputs[2].size();
    const float *dy = c.inputs[0].f32(), *x = c.inputs[1].f32(), *mean = c.inputs[3].f32();
    auto* const a = scratch_of<float>(c);
    float *const b = a + channels, *const at_zero = b + channels;
    run_sums(op.name, over, norm_gradient_terms{dy, x, mean},
             write_norm_gradient{c.inputs[2].f32(), c.inputs[4].f32(), c.outputs[1].f32(), c.outputs[2].f32(),
                                 a, b, at_zero, static_cast<double>(over.count), op.epsilon, op.fixed_gamma},
             scratch_of<double>(c, 3 * channels * sizeof(float)), launcher);
    run_groups(op.name, c.outputs[0].size(),
               norm_gradient_groups{source(dy), source(x), sink(c.outputs[0]), mean, a, b, at_zero,
                                    channel_place(shape, op.axis)},
               launcher);
}

} // namespace engine::cuda
