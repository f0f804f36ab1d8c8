// SPDX-License-Identifier: BSL-1.0
/// @file
/// Rows of a table.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

/// dy [.., d], indices [..] → gradient of the table [rows, d].
struct embedding_gradient {
    static constexpr std::string_view name = "embedding_gradient";
    echo::shape shape{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const { return count(in[0]); }
};

/// Table [rows, d], i32 indices [..] → [.., d]. The gradient reads the indices.
struct embedding {
    static constexpr std::string_view name = "embedding";
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        expect(in[0].shape.rank() == 2, "a table [rows, d]", in[0]);
        expect_type(in[1], echo::dtype::i32);
        auto made = extents_of(in[1].shape);
        made.push_back(in[0].shape[1]);
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return light_facts(name, {.inputs = {1}}); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(embedding_gradient{g[d.x[0]].shape}, {*d.dy[0], d.x[1]});
        return made;
    }
};

} // namespace engine::ops
