// SPDX-License-Identifier: BSL-1.0
/// @file
/// Matrix products. No transposed copies: a product says which operand it reads transposed.
#pragma once

#include "engine/ops/reductions.hpp"
#include "engine/value.hpp"

namespace engine::ops {

/// dy [.., out], w [out, in] → dx of the shape told.
struct fully_connected_data_gradient {
    static constexpr std::string_view name = "fully_connected_data_gradient";
    echo::shape shape{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return heavy_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const {
        return 2 * count(in[0]) * static_cast<double>(in[1].shape[1]);
    }
};

/// dy [.., out], x [.., in] (and gradients [out, in] so far) → dw [out, in], added to those.
struct fully_connected_weight_gradient {
    static constexpr std::string_view name = "fully_connected_weight_gradient";
    echo::shape shape{};
    bool adds = false;

    tensors infer(tensor_span in) const {
        expect_inputs(in, adds ? 3 : 2);
        if (adds) expect(in[2].shape == shape, to_string(shape), in[2]);
        return {f32(shape)};
    }
    echo::op_facts facts() const {
        auto f = heavy_facts(name, echo::reads::everything());
        if (adds) f.inplace = {{0, 2}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const {
        return 2 * count(in[0]) * static_cast<double>(shape[1]);
    }
};

/// x [.., in] · w [out, in]ᵀ (+ b [out]) → [.., out]; with `flatten` x is [n, the rest]. The gradient reads x and w.
struct fully_connected {
    static constexpr std::string_view name = "fully_connected";
    bool bias = true;
    bool flatten = false;

    tensors infer(tensor_span in) const {
        expect_inputs(in, bias ? 3 : 2);
        for (const auto& t : in) expect_type(t, echo::dtype::f32);
        expect(in[1].shape.rank() == 2, "weights [out, in]", in[1]);
        expect(in[0].shape.rank() >= 1, "at least one axis", in[0]);
        std::vector<std::int64_t> made;
        std::int64_t inner = 1;
        const std::size_t first = flatten ? 1 : in[0].shape.rank() - 1;
        for (std::size_t i = 0; i < in[0].shape.rank(); ++i)
            if (i < first)
                made.push_back(in[0].shape[i]);
            else
                inner *= in[0].shape[i];
        expect(inner == in[1].shape[1], "weights [out, " + std::to_string(inner) + "]", in[1]);
        if (bias) expect(in[2].shape == echo::shape{in[1].shape[0]}, to_string({in[1].shape[0]}), in[2]);
        made.push_back(in[1].shape[0]);
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return heavy_facts(name, {.inputs = {0, 1}}); }
    double flops(tensor_span in, tensor_span out) const {
        return 2 * count(out[0]) * static_cast<double>(in[1].shape[1]) + (bias ? count(out[0]) : 0);
    }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(d.x.size());
        if (!d.dy[0]) return made;
        const value dy = *d.dy[0];
        made[1] = g.add(fully_connected_weight_gradient{g[d.x[1]].shape}, {dy, d.x[0]});
        if (bias) {
            std::vector<std::int64_t> axes;
            for (std::size_t i = 0; i + 1 < g[dy].shape.rank(); ++i)
                axes.push_back(static_cast<std::int64_t>(i));
            made[2] = g.add(reduce{reduce::sum, axes, false}, {dy});
        }
        made[0] = g.add(fully_connected_data_gradient{g[d.x[0]].shape}, {dy, d.x[1]});
        return made;
    }
};

/// a [b.., m, k] · b [b.., k, n], either read transposed. The gradient reads both inputs.
struct batch_dot {
    static constexpr std::string_view name = "batch_dot";
    bool transpose_a = false, transpose_b = false;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        for (const auto& t : in) {
            expect_type(t, echo::dtype::f32);
            expect(t.shape.rank() >= 2 && t.shape.rank() == in[0].shape.rank(),
                   "two tensors of equal rank, 2 or more", t);
        }
        const auto rank = in[0].shape.rank();
        auto made = extents_of(in[0].shape);
        for (std::size_t i = 0; i + 2 < rank; ++i)
            expect(in[1].shape[i] == made[i], "the leading axes of " + to_string(in[0].shape), in[1]);
        const auto k = in[0].shape[rank - (transpose_a ? 2 : 1)];
        expect(in[1].shape[rank - (transpose_b ? 1 : 2)] == k, "an inner extent of " + std::to_string(k),
               in[1]);
        made[rank - 2] = in[0].shape[rank - (transpose_a ? 1 : 2)];
        made[rank - 1] = in[1].shape[rank - (transpose_b ? 2 : 1)];
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return heavy_facts(name, {.inputs = {0, 1}}); }
    double flops(tensor_span in, tensor_span out) const {
        return 2 * count(out[0]) *
               static_cast<double>(in[0].shape[in[0].shape.rank() - (transpose_a ? 2 : 1)]);
    }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        if (!d.dy[0]) return gradients(2);
        const value dy = *d.dy[0], a = d.x[0], b = d.x[1];
        gradients made(2);
        made[0] = transpose_a ? g.add(batch_dot{transpose_b, true}, {b, dy})
                              : g.add(batch_dot{false, !transpose_b}, {dy, b});
        made[1] = transpose_b ? g.add(batch_dot{true, transpose_a}, {dy, a})
                              : g.add(batch_dot{!transpose_a, false}, {a, dy});
        return made;
    }
};

} // namespace engine::ops
