// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a node of an ONNX file says of itself. Compiled into model.cpp alone.
#pragma once

#include "onnx/headers.hpp"

#include <string>
#include <string_view>

namespace echo::format {

/// `Conv` of ONNX's own ops, `com.microsoft::ConvGrad` of others.
inline std::string op_name(const onnx::NodeProto& node) {
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    return own ? node.op_type() : node.domain() + "::" + node.op_type();
}

/// The name by which messages speak of a node.
inline std::string shown(const onnx::NodeProto& node, int position) {
    if (!node.name().empty()) return node.name();
    for (const auto& output : node.output())
        if (!output.empty()) return output;
    return node.op_type() + " #" + std::to_string(position);
}

inline const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name) {
    for (const auto& one : node.attribute())
        if (one.name() == name) return &one;
    return nullptr;
}

inline void set_float(onnx::NodeProto& node, const std::string& name, float value) {
    for (auto& one : *node.mutable_attribute())
        if (one.name() == name) return one.set_f(value);
    auto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::FLOAT);
    one.set_f(value);
}

inline bool is_constant(const onnx::NodeProto& node) {
    return op_name(node) == "Constant" && node.input_size() == 0;
}

/// Whether a tensor of one boolean says no; what lies in another file says nothing.
inline bool is_false(const onnx::TensorProto& t) {
    if (t.data_type() != onnx::TensorProto::BOOL || t.data_location() == onnx::TensorProto::EXTERNAL)
        return false;
    if (!t.raw_data().empty()) return t.raw_data()[0] == 0;
    return t.int32_data_size() > 0 && t.int32_data(0) == 0;
}

/// Batch normalisation in training: onnxruntime writes outputs 1 and 2, the running statistics, over inputs 3 and 4, so
/// that they move each time that it runs.
inline bool moves_statistics(const onnx::NodeProto& node) {
    if (op_name(node) == "com.microsoft::BatchNormInternal") return true;
    const auto* const mode = attribute(node, "training_mode");
    return op_name(node) == "BatchNormalization" &&
           ((mode != nullptr && mode->i() != 0) || node.output_size() > 1);
}

/// The position of an output among those that the node names.
inline std::size_t named_outputs_before(const onnx::NodeProto& node, int output) {
    std::size_t before = 0;
    for (int k = 0; k < output; ++k) before += !node.output(k).empty();
    return before;
}

} // namespace echo::format
