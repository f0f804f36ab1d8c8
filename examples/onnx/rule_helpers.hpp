// SPDX-License-Identifier: BSL-1.0
/// @file
/// What shape rules have in common. Compiled into model.cpp alone.
#pragma once

#include "onnx/held_tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echo::format {

/// The extents, if all are known.
inline std::optional<held_extents> known_values(const onnx::TensorShapeProto& shape) {
    held_extents found;
    for (const auto& dim : shape.dim()) {
        if (!dim.has_dim_value()) return std::nullopt;
        found.push_back(dim.dim_value());
    }
    return found;
}

/// What a small tensor of integers holds, if that is known.
inline std::optional<std::vector<std::int64_t>> held_integers(onnx::InferenceContext& c, std::size_t input) {
    const auto* data = input < c.getNumInputs() ? c.getInputData(input) : nullptr;
    const auto found = data == nullptr ? std::nullopt : held(*data);
    return found ? found->integers() : std::nullopt;
}

inline const onnx::TypeProto* tensor_type(onnx::InferenceContext& c, std::size_t input) {
    if (input >= c.getNumInputs()) return nullptr;
    const auto* type = c.getInputType(input);
    return type != nullptr && type->has_tensor_type() ? type : nullptr;
}

/// The extents of an input, if all are known.
inline std::optional<held_extents> extents(onnx::InferenceContext& c, std::size_t input) {
    const auto* type = tensor_type(c, input);
    if (type == nullptr || !type->tensor_type().has_shape()) return std::nullopt;
    return known_values(type->tensor_type().shape());
}

inline void set_shape(onnx::TypeProto::Tensor& made, const held_extents& extents) {
    made.mutable_shape()->clear_dim();
    for (const auto extent : extents) made.mutable_shape()->add_dim()->set_dim_value(extent);
}

/// Output `k` with these extents and, unless it is known already, the type of an input.
inline void give(onnx::InferenceContext& c, std::size_t k, const held_extents& extents,
                 std::size_t typed_like = 0) {
    if (k >= c.getNumOutputs()) return;
    auto& made = *c.getOutputType(k)->mutable_tensor_type();
    if (const auto* like = tensor_type(c, typed_like); like != nullptr && made.elem_type() == 0)
        made.set_elem_type(like->tensor_type().elem_type());
    set_shape(made, extents);
}

/// The type and the shape of an input.
inline void give_like(onnx::InferenceContext& c, std::size_t k, std::size_t input) {
    if (const auto* like = tensor_type(c, input); like != nullptr && k < c.getNumOutputs())
        *c.getOutputType(k)->mutable_tensor_type() = like->tensor_type();
}

inline std::int64_t number(onnx::InferenceContext& c, const std::string& name, std::int64_t otherwise) {
    return onnx::getAttribute(c, name, otherwise);
}
inline bool flag(onnx::InferenceContext& c, const std::string& name, bool otherwise) {
    return number(c, name, std::int64_t{otherwise}) != 0;
}
inline std::optional<std::vector<std::int64_t>> list(onnx::InferenceContext& c, const std::string& name) {
    const auto* a = c.getAttribute(name);
    if (a == nullptr) return std::nullopt;
    return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}
inline onnx::TypeProto::Tensor& typed_like_first(onnx::InferenceContext& c) {
    onnx::propagateElemTypeFromInputToOutput(c, 0, 0);
    return *c.getOutputType(0)->mutable_tensor_type();
}

/// Whether an input is there at all.
inline bool is_given(onnx::InferenceContext& c, std::size_t input) {
    return input < c.getNumInputs() && c.getInputType(input) != nullptr;
}

} // namespace echo::format
