// SPDX-License-Identifier: BSL-1.0
/// @file
/// Nodes without inputs: data and parameters, and constants that are made where they are needed.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

/// How a parameter begins.
struct initial {
    enum kind { zeros, constant, uniform, normal };
    kind how = zeros;
    double value = 0; ///< the constant, the largest magnitude, or the standard deviation
};

/// Data, a parameter, or state of an optimizer: resident, filled from outside.
struct input {
    static constexpr std::string_view name = "input";
    echo::tensor what{};
    initial start{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 0);
        return {what};
    }
    echo::op_facts facts() const { return light_facts(name); }
};

/// A tensor of one value: zeros, ones.
struct fill {
    static constexpr std::string_view name = "fill";
    echo::tensor what{};
    double number = 0;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 0);
        return {what};
    }
    echo::op_facts facts() const { return light_facts(name); }
};

/// [1, length, length]: 0 on and below the diagonal, −10⁹ above it. What a decoder must not see.
struct causal_bias {
    static constexpr std::string_view name = "causal_bias";
    std::int64_t length = 0;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 0);
        return {f32({1, length, length})};
    }
    echo::op_facts facts() const { return light_facts(name); }
};

} // namespace engine::ops
