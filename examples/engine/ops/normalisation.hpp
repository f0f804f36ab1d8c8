// SPDX-License-Identifier: BSL-1.0
/// @file
/// Batch normalisation and softmax.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

/// dy, x, gamma, mean, variance → dx, dgamma, dbeta. With `fixed_gamma` gamma counts as 1 and dgamma is 0.
struct batch_norm_gradient {
    static constexpr std::string_view name = "batch_norm_gradient";
    std::int64_t axis = 1;
    double epsilon = 1e-5;
    bool fixed_gamma = false;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 5);
        return {f32(in[1].shape), f32(in[2].shape), f32(in[2].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const { return 10 * count(in[0]); }
};

/// x → mean [c], variance [c] (of the population), c along `axis`: a node of its own, so that a normalisation that is
/// recomputed takes them as they are. No gradient flows through them: `batch_norm_gradient` has them in dx.
struct batch_statistics {
    static constexpr std::string_view name = "batch_statistics";
    std::int64_t axis = 1;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect_type(in[0], echo::dtype::f32);
        const auto c = in[0].shape[axis_of(in[0].shape, axis)];
        return {f32({c}), f32({c})};
    }
    echo::op_facts facts() const { return light_facts(name); }
    double flops(tensor_span in, tensor_span) const { return 4 * count(in[0]); }

    template <class Graph>
    gradients gradient(Graph&, const differentiation&) const {
        return gradients(1);
    }
};

/// x, gamma [c], beta [c] and x's own mean [c] and variance [c] → y, c along `axis`: `normalise_op` of each element,
/// gamma 1 where `fixed_gamma`. Pure: running statistics are another node's to update. The gradient reads x, gamma,
/// mean and variance.
struct batch_norm {
    static constexpr std::string_view name = "batch_norm";
    std::int64_t axis = 1;
    double epsilon = 1e-5;
    bool fixed_gamma = false;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 5);
        const auto c = in[0].shape[axis_of(in[0].shape, axis)];
        for (const auto& t : in.subspan(1)) expect(t.shape == echo::shape{c}, to_string({c}), t);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const { return light_facts(name, {.inputs = {0, 1, 3, 4}, .outputs = {}}); }
    double flops(tensor_span in, tensor_span) const { return 3 * count(in[0]); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(5);
        if (!d.dy[0]) return made;
        const value first = g.add(batch_norm_gradient{axis, epsilon, fixed_gamma},
                                  {*d.dy[0], d.x[0], d.x[1], d.x[3], d.x[4]});
        for (std::size_t i = 0; i < 3; ++i)
            if (i != 1 || !fixed_gamma) made[i] = value{first.producer, i};
        return made;
    }
};

/// dy, y → dx.
struct softmax_gradient {
    static constexpr std::string_view name = "softmax_gradient";
    std::int64_t axis = -1;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        expect(in[1].shape == in[0].shape, to_string(in[0].shape), in[1]);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const { return 4 * count(in[0]); }
};

/// Along one axis. The gradient reads y only.
struct softmax {
    static constexpr std::string_view name = "softmax";
    std::int64_t axis = -1;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect_type(in[0], echo::dtype::f32);
        axis_of(in[0].shape, axis);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, {.inputs = {}, .outputs = {0}});
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const { return 5 * count(in[0]); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(1);
        if (d.dy[0]) made[0] = g.add(softmax_gradient{axis}, {*d.dy[0], d.y[0]});
        return made;
    }
};

} // namespace engine::ops
