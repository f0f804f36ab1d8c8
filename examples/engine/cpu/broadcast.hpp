// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CPU loops of element-wise ops whose inputs are repeated, and of their gradients, which are summed while they
/// are computed.
#pragma once

#include "engine/cpu/elementwise.hpp"
#include "engine/cpu/strided.hpp"
#include "engine/cpu/sum_over.hpp"

namespace engine::cpu {

/// The inputs of a call as tensors of the shape `shape`.
inline std::vector<strided<float>> inputs_as(const call& c, std::size_t count, const echo::shape& shape) {
    std::vector<strided<float>> made;
    for (std::size_t i = 0; i < count; ++i)
        made.push_back(strided<float>::repeated(c.inputs[i].f32(), c.inputs[i].shape(), shape));
    return made;
}

/// Elements [first, first + n) of an input that is `repeated` to `all` elements.
inline const float* read(const input_view& in, const strided<float>& repeated, std::size_t all,
                         std::size_t first, std::size_t n, block& to) {
    if (in.size() == all) return to.read(in.f32() + first, n); // it may lie in a slot
    repeated.read(first, n, to.at);
    to.pad(n);
    return to.at;
}

template <class Op>
auto part(const ops::broadcast<Op>&, const call& c) {
    return [&c, inputs = inputs_as(c, 2, c.outputs[0].shape())](std::size_t first, std::size_t last) {
        block ins[2], out;
        const float* in[2];
        const std::size_t all = c.outputs[0].size();
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            for (std::size_t i = 0; i < 2; ++i) in[i] = read(c.inputs[i], inputs[i], all, at, n, ins[i]);
            float* const to = c.outputs[0].f32() + at;
            float* const computed[] = {out.write(to, n)};
            forward_block<Op>(in, {}, computed, n);
            out.finish(to, n);
        }
    };
}

template <class Op, std::size_t I>
void run(const ops::broadcast_gradient<Op, I>& op, const call& c, context& on) {
    constexpr std::size_t reads = ops::component<Op, I>::arguments().count;
    const echo::shape& whole = c.inputs[0].shape();
    const auto inputs = inputs_as(c, reads, whole);
    std::vector<bool> summed(whole.rank(), true);
    for (std::size_t i = 0; i < op.shape.rank(); ++i) {
        const std::size_t axis = whole.rank() - op.shape.rank() + i;
        summed[axis] = op.shape[i] == 1 && whole[axis] != 1;
    }
    const std::size_t all = c.inputs[0].size();
    const auto values = [&](std::size_t first, std::size_t n, block& out) {
        block ins[reads];
        const float* in[reads];
        for (std::size_t i = 0; i < reads; ++i) in[i] = read(c.inputs[i], inputs[i], all, first, n, ins[i]);
        gradient_block<Op, I>(in, {}, out.at, n);
    };
    sum_over(sum_axes(whole, summed), values, 1, c.outputs[0].f32(), on);
}

} // namespace engine::cpu
