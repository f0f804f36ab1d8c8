// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CPU loops of element-wise ops and of the components of their gradients: the lambdas themselves, run on
/// `echo::real<float>` over blocks. `part(op, call)` is the loop as a function of the elements [first, last) to
/// compute, which a backend shares among threads and runs in chains.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/block.hpp"
#include "engine/cpu/philox.hpp"
#include "engine/cpu/vector_math.hpp"
#include "engine/op.hpp"

namespace engine::cpu {

template <class... T>
std::tuple<T...> as_tuple(std::tuple<T...> t) {
    return t;
}
template <class T>
std::tuple<T> as_tuple(T t) {
    return {t};
}

using number = echo::real<float>;

/// `Op::forward` on the first n elements; a random op's draws stand behind its tensors.
template <class Op, std::size_t Results>
void forward_block(const float* const* in, const ops::numbers<Op>& scalars, float* const (&out)[Results],
                   std::size_t n) {
    constexpr std::size_t tensors = ops::tensor_inputs<Op>;
    number told[ops::scalar_count<Op> + 1]{};
    for (std::size_t i = 0; i < ops::scalar_count<Op>; ++i) told[i] = number(scalars[i]);
    const auto one = [&]<std::size_t... I, std::size_t... S, std::size_t... K>(
                         std::index_sequence<I...>, std::index_sequence<S...>, std::index_sequence<K...>) {
        const std::size_t last = padded(n);
        ENGINE_IVDEP
        for (std::size_t i = 0; i < last; ++i) {
            const auto y = [&] {
                if constexpr (echo::is_random<Op>)
                    return as_tuple(
                        decltype(Op::forward){}(number(in[I][i])..., told[S]..., number(in[tensors][i])));
                else
                    return as_tuple(decltype(Op::forward){}(number(in[I][i])..., told[S]...));
            }();
            ((out[K][i] = std::get<K>(y).value()), ...);
        }
    };
    one(std::make_index_sequence<tensors>{}, std::make_index_sequence<ops::scalar_count<Op>>{},
        std::make_index_sequence<Results>{});
}

/// Where argument `A` of the gradient lambda stands among what component `I` reads; the number of those if it is not
/// read.
template <class Op, std::size_t I, std::size_t A>
consteval std::size_t place_of() {
    constexpr auto list = ops::component<Op, I>::arguments();
    for (std::size_t k = 0; k < list.count; ++k)
        if (list.of[k] == A) return k;
    return list.count;
}

/// Component `I` of `Op::gradient` on the first n elements of what it reads, in the order of
/// `ops::component::arguments`.
template <class Op, std::size_t I>
void gradient_block(const float* const* in, const ops::numbers<Op>& scalars, float* out, std::size_t n) {
    constexpr std::size_t dys = echo::gradient_count<Op>, xs = echo::input_count<Op>;
    constexpr std::size_t reads = ops::component<Op, I>::arguments().count;
    constexpr std::size_t first_scalar = dys + ops::tensor_inputs<Op>;
    number told[ops::scalar_count<Op> + 1]{};
    for (std::size_t i = 0; i < ops::scalar_count<Op>; ++i) told[i] = number(scalars[i]);
    const auto argument = [&]<std::size_t A>(std::integral_constant<std::size_t, A>, std::size_t i) {
        constexpr std::size_t at = place_of<Op, I, A>();
        if constexpr (A >= first_scalar && A < dys + xs)
            return told[A - first_scalar];
        else if constexpr (at < reads)
            return number(in[at][i]);
        else
            return number(1); // it is not looked at
    };
    [&]<std::size_t... A>(std::index_sequence<A...>) {
        const std::size_t last = padded(n);
        ENGINE_IVDEP
        for (std::size_t i = 0; i < last; ++i) {
            const auto dx =
                as_tuple(decltype(Op::gradient){}(argument(std::integral_constant<std::size_t, A>{}, i)...));
            out[i] = std::get<I>(dx).value();
        }
    }(std::make_index_sequence<dys + xs + echo::output_count<Op>>{});
}

template <class Op>
auto part(const ops::elementwise<Op>& op, const call& c) {
    return [&op, &c](std::size_t first, std::size_t last) {
        constexpr std::size_t tensors = ops::tensor_inputs<Op>, results = echo::output_count<Op>;
        block ins[tensors + 1], outs[results];
        const float* in[tensors + 1];
        float* out[results];
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            for (std::size_t i = 0; i < tensors; ++i) in[i] = ins[i].read(c.inputs[i].f32() + at, n);
            if constexpr (echo::is_random<Op>) {
                uniform(c.seed, at, n, ins[tensors]);
                in[tensors] = ins[tensors].at;
            }
            for (std::size_t k = 0; k < results; ++k) out[k] = outs[k].write(c.outputs[k].f32() + at, n);
            forward_block<Op>(in, op.scalars, out, n);
            for (std::size_t k = 0; k < results; ++k) outs[k].finish(c.outputs[k].f32() + at, n);
        }
    };
}

template <class Op, std::size_t I>
auto part(const ops::elementwise_gradient<Op, I>& op, const call& c) {
    return [&op, &c](std::size_t first, std::size_t last) {
        constexpr std::size_t reads = ops::component<Op, I>::arguments().count;
        block ins[reads], out;
        const float* in[reads];
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            for (std::size_t i = 0; i < reads; ++i)
                if (c.inputs[i].packed) {
                    ins[i].unpack(c.inputs[i].i32(), at, n);
                    in[i] = ins[i].at;
                } else {
                    in[i] = ins[i].read(c.inputs[i].f32() + at, n);
                }
            float* const to = c.outputs[0].f32() + at;
            gradient_block<Op, I>(in, op.scalars, out.write(to, n), n);
            out.finish(to, n);
        }
    };
}

} // namespace engine::cpu
