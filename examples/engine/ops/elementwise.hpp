// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise ops over the lambdas of an op type: forward, gradient, what each reads, FLOPs and the CPU loop
/// all follow from the lambdas. `elementwise<echo::tanh_op>` runs `tanh_op::forward`;
/// `elementwise_gradient<echo::tanh_op, 0>` runs the component of `tanh_op::gradient` for input 0 and takes as inputs
/// exactly what that component reads, output gradients first, then inputs, then outputs.
///
/// A lambda's last `Op::scalars` inputs are numbers that the node carries, not tensors.
#pragma once

#include "engine/value.hpp"

#include <echo/op_traits.hpp>
#include <echo/symbol.hpp>

#include <array>
#include <tuple>

namespace engine::ops {

template <class Op>
constexpr std::size_t scalars_of() {
    if constexpr (requires { Op::scalars; })
        return Op::scalars;
    else
        return 0;
}
template <class Op>
inline constexpr std::size_t scalar_count = scalars_of<Op>();
/// Inputs of the node: those of the lambda that are tensors.
template <class Op>
inline constexpr std::size_t tensor_inputs = echo::input_count<Op> - scalar_count<Op>;

template <class Op>
using numbers = std::array<double, scalar_count<Op>>;

/// What one component of a gradient lambda reads. `inputs` and `outputs` are positions of the lambda's own.
template <class Op, std::size_t I>
struct component {
    using expression = std::tuple_element_t<I, decltype(echo::gradient_expression<Op>())>;
    static constexpr bool exists = !std::is_same_v<expression, echo::no_gradient>;
    /// Nothing is computed: the output's gradient is the input's.
    static constexpr bool passes = std::is_same_v<expression, echo::symbol::output_gradient<0>>;
    static constexpr echo::positions output_gradients =
        echo::symbol::reads_of<expression, echo::symbol::operation::output_gradient,
                               echo::output_count<Op>>();
    static constexpr echo::positions inputs =
        echo::symbol::reads_of<expression, echo::symbol::operation::input, tensor_inputs<Op>>();
    static constexpr echo::positions outputs =
        echo::symbol::reads_of<expression, echo::symbol::operation::output, echo::output_count<Op>>();

    static constexpr auto program() {
        return echo::symbol::flatten(std::get<I>(echo::gradient_expression<Op>()));
    }

    /// Inputs of the gradient node as arguments of the gradient lambda, by position.
    static constexpr auto arguments() {
        constexpr std::size_t most = 2 * echo::output_count<Op> + echo::input_count<Op>;
        struct {
            std::array<std::size_t, most> of{};
            std::size_t count = 0;
            echo::positions one_bit{};
        } list;
        constexpr auto flat = program();
        const auto take = [&](echo::positions read, std::size_t count, std::size_t first,
                              echo::symbol::operation role) {
            for (std::size_t i = 0; i < count; ++i) {
                if (!read.contains(i)) continue;
                if (echo::symbol::needs_one_bit(flat.view(), role, i)) list.one_bit.insert(list.count);
                list.of[list.count++] = first + i;
            }
        };
        constexpr std::size_t dys = echo::gradient_count<Op>, xs = echo::input_count<Op>;
        take(output_gradients, dys, 0, echo::symbol::operation::output_gradient);
        take(inputs, tensor_inputs<Op>, dys, echo::symbol::operation::input);
        take(outputs, echo::output_count<Op>, dys + xs, echo::symbol::operation::output);
        return list;
    }
};

/// FLOPs of a program in which every tensor has the shape `shape` and the last inputs are scalars.
template <class Op>
double elementwise_flops(const echo::symbol::program_view& program, const echo::shape& shape) {
    std::vector<echo::tensor> inputs(echo::input_count<Op>, echo::tensor{.shape = shape});
    for (std::size_t i = tensor_inputs<Op>; i < inputs.size(); ++i) inputs[i].shape = echo::shape::scalar();
    const std::vector<echo::tensor> outputs(echo::output_count<Op>, echo::tensor{.shape = shape});
    return echo::symbol::infer(program, inputs, outputs).flops;
}

/// `Op::forward` on each element of tensors of one shape.
template <class Op>
struct elementwise {
    using lambdas = Op;
    numbers<Op> scalars{};
    bool stash_input = false; ///< its gradient reads its inputs too, as cuDNN's activations do

    static constexpr std::string_view name = echo::facts_of<Op>().name;

    tensors infer(tensor_span in) const {
        expect_inputs(in, tensor_inputs<Op>);
        for (const auto& t : in) {
            expect_type(t, echo::dtype::f32);
            expect(t.shape == in[0].shape, to_string(in[0].shape), t);
        }
        return tensors(echo::output_count<Op>, f32(in[0].shape));
    }

    echo::op_facts facts() const {
        echo::op_facts f = echo::facts_of<Op>();
        f.flops = nullptr;
        f.gradient_reads.inputs = f.gradient_reads.inputs & echo::positions::first(tensor_inputs<Op>);
        if (stash_input) f.gradient_reads.inputs = echo::positions::first(tensor_inputs<Op>);
        return f;
    }
    double flops(tensor_span, tensor_span out) const {
        return elementwise_flops<Op>(echo::forward_program<Op>.view(), out[0].shape);
    }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const;
};

/// The gradient of input `I` of `elementwise<Op>`.
template <class Op, std::size_t I>
struct elementwise_gradient {
    using lambdas = Op;
    static constexpr std::size_t input = I;
    using part = component<Op, I>;
    numbers<Op> scalars{};
    bool stash_input = false; ///< also takes the op's inputs, and does not look at them

    static constexpr std::string_view name = "elementwise_gradient";

    tensors infer(tensor_span in) const {
        expect_inputs(in, part::arguments().count + (stash_input ? tensor_inputs<Op> : 0));
        for (const auto& t : in) expect(t.shape == in[0].shape, to_string(in[0].shape), t);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        f.one_bit_inputs = part::arguments().one_bit;
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span, tensor_span out) const {
        static constexpr auto program = part::program();
        return elementwise_flops<Op>(program.view(), out[0].shape);
    }
};

/// What the gradient node of component `I` reads. Errors: the gradient of an output it needs is missing.
template <class Op, std::size_t I>
std::vector<value> gradient_inputs(const differentiation& d) {
    constexpr auto list = component<Op, I>::arguments();
    constexpr std::size_t dys = echo::gradient_count<Op>, xs = echo::input_count<Op>;
    std::vector<value> read;
    for (std::size_t k = 0; k < list.count; ++k) {
        const std::size_t at = list.of[k];
        if (at < dys) {
            if (!d.dy[at]) throw echo::error({}, "gradient", "an output that is read has no gradient");
            read.push_back(*d.dy[at]);
        } else {
            read.push_back(at < dys + xs ? d.x[at - dys] : d.y[at - dys - xs]);
        }
    }
    return read;
}

template <class Op>
template <class Graph>
gradients elementwise<Op>::gradient(Graph& g, const differentiation& d) const {
    gradients made(tensor_inputs<Op>);
    if constexpr (echo::has_gradient<Op>) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(Op::gradient)>, echo::no_gradient>) {
            if (!d.dy[0]) return made;
            const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
                using part = component<Op, I>;
                if constexpr (part::passes) {
                    made[I] = d.dy[0];
                } else if constexpr (part::exists) {
                    auto inputs = gradient_inputs<Op, I>(d);
                    if (stash_input) inputs.insert(inputs.end(), d.x.begin(), d.x.end());
                    made[I] = g.add(elementwise_gradient<Op, I>{scalars, stash_input}, std::move(inputs));
                }
            };
            [&]<std::size_t... I>(std::index_sequence<I...>) {
                (one(std::integral_constant<std::size_t, I>{}), ...);
            }(std::make_index_sequence<tensor_inputs<Op>>{});
        }
    }
    return made;
}

} // namespace engine::ops
