// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops on padded sequences: x [steps, batch, ..] and i32 lengths [batch]. Their gradients read the lengths.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

inline void expect_sequence(tensor_span in) {
    expect_inputs(in, 2);
    expect_type(in[1], echo::dtype::i32);
    expect(in[0].shape.rank() >= 2, "a sequence [steps, batch, ..]", in[0]);
    expect(in[1].shape == echo::shape{in[0].shape[1]}, "lengths " + to_string({in[0].shape[1]}), in[1]);
}
inline echo::op_facts sequence_facts(std::string_view name) { return light_facts(name, {.inputs = {1}}); }

/// `number` in place of what lies behind the end of each sequence.
struct sequence_mask {
    static constexpr std::string_view name = "sequence_mask";
    double number = 0;
    tensors infer(tensor_span in) const {
        expect_sequence(in);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = sequence_facts(name);
        f.inplace = {{0, 0}};
        return f;
    }
    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(sequence_mask{0}, {*d.dy[0], d.x[1]});
        return made;
    }
};

/// Each sequence turned round; what lies behind its end stays.
struct sequence_reverse {
    static constexpr std::string_view name = "sequence_reverse";
    tensors infer(tensor_span in) const {
        expect_sequence(in);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const { return sequence_facts(name); }
    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(sequence_reverse{}, {*d.dy[0], d.x[1]});
        return made;
    }
};

/// dy [batch, ..], lengths → dx: dy at each last step, 0 elsewhere.
struct sequence_last_gradient {
    static constexpr std::string_view name = "sequence_last_gradient";
    echo::shape shape{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
};

/// The last step of each sequence: [batch, ..]. Lengths are 1 or more.
struct sequence_last {
    static constexpr std::string_view name = "sequence_last";
    tensors infer(tensor_span in) const {
        expect_sequence(in);
        auto made = extents_of(in[0].shape);
        made.erase(made.begin());
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return sequence_facts(name); }
    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(sequence_last_gradient{g[d.x[0]].shape}, {*d.dy[0], d.x[1]});
        return made;
    }
};

} // namespace engine::ops
