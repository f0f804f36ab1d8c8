// SPDX-License-Identifier: BSL-1.0
/// @file
/// Nodes of the update phase: optimizers, clipping, running statistics. They write parameters and state in place.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

inline void expect_equal_shapes(tensor_span in, std::size_t count) {
    for (const auto& t : in.first(count)) expect(t.shape == in[0].shape, to_string(in[0].shape), t);
}

/// The factor [1] that brings all gradients together to a norm of at most `limit`: min(1, limit ÷ norm).
struct clip_factor {
    static constexpr std::string_view name = "clip_factor";
    double limit = 1;
    tensors infer(tensor_span) const { return {f32({1})}; }
    echo::op_facts facts() const { return update_facts(name); }
    double flops(tensor_span in, tensor_span) const {
        double sum = 0;
        for (const auto& t : in) sum += 2 * count(t);
        return sum;
    }
};

/// w, g, momentum (and a factor [1] for g) → w, momentum. m = momentum · m + g + decay · w; w −= rate · m.
struct sgd {
    static constexpr std::string_view name = "sgd";
    double rate = 0.01, momentum = 0.9, decay = 0;
    tensors infer(tensor_span in) const {
        expect_inputs(in, in.size() == 4 ? 4 : 3);
        expect_equal_shapes(in, 3);
        return {f32(in[0].shape), f32(in[0].shape)};
    }
    echo::op_facts facts() const { return update_facts(name, {{0, 0}, {1, 2}}); }
    double flops(tensor_span in, tensor_span) const { return 6 * count(in[0]); }
};

/// w, g, m, v (and a factor [1] for g) → w, m, v. Kingma and Ba, 2015; the step number is the call's iteration.
struct adam {
    static constexpr std::string_view name = "adam";
    double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    tensors infer(tensor_span in) const {
        expect_inputs(in, in.size() == 5 ? 5 : 4);
        expect_equal_shapes(in, 4);
        return tensors(3, f32(in[0].shape));
    }
    echo::op_facts facts() const { return update_facts(name, {{0, 0}, {1, 2}, {2, 3}}); }
    double flops(tensor_span in, tensor_span) const { return 12 * count(in[0]); }
};

/// running, batch → running: running · momentum + batch · (1 − momentum).
struct update_statistics {
    static constexpr std::string_view name = "update_statistics";
    double momentum = 0.9;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        expect_equal_shapes(in, 2);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const { return update_facts(name, {{0, 0}}); }
    double flops(tensor_span in, tensor_span) const { return 3 * count(in[0]); }
};

} // namespace engine::ops
