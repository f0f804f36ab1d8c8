// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise ops of two tensors whose shapes broadcast, and their gradients, which sum over what was repeated.
#pragma once

#include "engine/ops/elementwise.hpp"

namespace engine::ops {

/// `Op::forward` on each element of two tensors, extents of 1 repeated.
template <class Op>
struct broadcast {
    static_assert(tensor_inputs<Op> == 2 && scalar_count<Op> == 0);
    using lambdas = Op;
    static constexpr std::string_view name = "broadcast";

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        for (const auto& t : in) expect_type(t, echo::dtype::f32);
        return {f32(broadcast_shape(in[0].shape, in[1].shape))};
    }
    echo::op_facts facts() const {
        echo::op_facts f = echo::facts_of<Op>();
        f.name = name;
        f.flops = nullptr;
        return f;
    }
    double flops(tensor_span, tensor_span out) const {
        return elementwise_flops<Op>(echo::forward_program<Op>.view(), out[0].shape);
    }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const;
};

/// The gradient of input `I` of `broadcast<Op>`: computed on the broadcast shape, summed to `shape` on the way.
template <class Op, std::size_t I>
struct broadcast_gradient {
    using lambdas = Op;
    static constexpr std::size_t input = I;
    using part = component<Op, I>;
    echo::shape shape{};

    static constexpr std::string_view name = "broadcast_gradient";

    tensors infer(tensor_span in) const {
        expect_inputs(in, part::arguments().count);
        expect(broadcast_shape(in[0].shape, shape) == in[0].shape,
               "a shape that " + to_string(shape) + " broadcasts to", in[0]);
        return {f32(shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const {
        static constexpr auto program = part::program();
        return elementwise_flops<Op>(program.view(), in[0].shape) + count(in[0]);
    }
};

template <class Op>
template <class Graph>
gradients broadcast<Op>::gradient(Graph& g, const differentiation& d) const {
    gradients made(2);
    if (!d.dy[0]) return made;
    const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
        const echo::shape shape = g[d.x[I]].shape;
        if (component<Op, I>::passes && shape == g[d.y[0]].shape)
            made[I] = d.dy[0];
        else
            made[I] = g.add(broadcast_gradient<Op, I>{shape}, gradient_inputs<Op, I>(d));
    };
    one(std::integral_constant<std::size_t, 0>{});
    one(std::integral_constant<std::size_t, 1>{});
    return made;
}

} // namespace engine::ops
