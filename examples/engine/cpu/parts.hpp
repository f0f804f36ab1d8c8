// SPDX-License-Identifier: BSL-1.0
/// @file
/// Loops over elements of ops that have no lambdas, as functions of the elements [first, last): see backend.hpp.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/strided.hpp"
#include "engine/ops/movement.hpp"
#include "engine/ops/normalisation.hpp"
#include "engine/ops/reductions.hpp"

#include <algorithm>
#include <cmath>

namespace engine::cpu {

inline auto part(const ops::add_n&, const call& c) {
    return [&c](std::size_t first, std::size_t last) {
        block total, term;
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            total.load(c.inputs[0].f32() + at, n);
            for (const input_view& in : c.inputs.subspan(1)) {
                const float* added = term.read(in.f32() + at, n);
                for (std::size_t i = 0; i < padded(n); ++i) total.at[i] += added[i];
            }
            total.store(c.outputs[0].f32() + at, n);
        }
    };
}

/// Elements of the input are counted, 32 to a word.
inline auto part(const ops::encode&, const call& c) {
    return [&c](std::size_t first, std::size_t last) {
        const float* x = c.inputs[0].f32();
        for (std::size_t at = first; at < last; at += 32) {
            std::uint32_t word = 0;
            const std::size_t count = std::min<std::size_t>(32, last - at);
            for (std::size_t k = 0; k < count; ++k) word |= std::uint32_t{x[at + k] > 0} << k;
            c.outputs[0].i32()[at / 32] = static_cast<std::int32_t>(word);
        }
    };
}

/// `normalise_op`; what hangs on the channel alone is computed once, in double.
inline auto part(const ops::batch_norm& op, const call& c) {
    const echo::shape& shape = c.inputs[0].shape();
    const std::size_t channels = c.inputs[1].size();
    std::vector<float> scales(channels);
    for (std::size_t k = 0; k < channels; ++k) {
        const double gamma = op.fixed_gamma ? 1 : static_cast<double>(c.inputs[1].f32()[k]);
        scales[k] =
            static_cast<float>(gamma / std::sqrt(static_cast<double>(c.inputs[4].f32()[k]) + op.epsilon));
    }
    return [&c, scales = std::move(scales), shape, axis = axis_of(shape, op.axis)](std::size_t first,
                                                                                   std::size_t last) {
        std::vector<std::size_t> strides(shape.rank(), 0);
        strides[axis] = 1;
        const strided<float> mean(c.inputs[3].f32(), shape, strides), scale(scales.data(), shape, strides),
            beta(c.inputs[2].f32(), shape, strides);
        block x, m, s, b;
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            x.load(c.inputs[0].f32() + at, n);
            mean.read(at, n, m.at);
            scale.read(at, n, s.at);
            beta.read(at, n, b.at);
            for (std::size_t i = 0; i < padded(n); ++i) x.at[i] = (x.at[i] - m.at[i]) * s.at[i] + b.at[i];
            x.store(c.outputs[0].f32() + at, n);
        }
    };
}

} // namespace engine::cpu
