// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which versions of ops the ONNX library knows, and whether by it a model is sound. Compiled into model.cpp alone.
#pragma once

#include "onnx/guarded.hpp"
#include "onnx/headers.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace echo::format {

/// The version of ONNX's own ops that the model asks for; 0: none.
inline std::int64_t opset_of(const onnx::ModelProto& model) {
    std::int64_t version = 0;
    for (const auto& import : model.opset_import())
        if (import.domain().empty() || import.domain() == "ai.onnx")
            version = std::max(version, import.version());
    return version;
}

/// The newest version that the installed library knows.
inline std::int64_t newest_opset() {
    return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at(onnx::ONNX_DOMAIN).second;
}

/// The model for the checker: its larger weights as inputs.
inline onnx::ModelProto without_weights(const onnx::ModelProto& model) {
    constexpr std::int64_t most_elements = 1024;
    onnx::ModelProto light;
    *light.mutable_opset_import() = model.opset_import();
    *light.mutable_functions() = model.functions();
    for (auto& import : *light.mutable_opset_import())
        if (import.domain() == "ai.onnx") import.clear_domain();
    light.set_ir_version(std::min<std::int64_t>(model.ir_version(), onnx::Version::IR_VERSION));
    auto& graph = *light.mutable_graph();
    graph.set_name(model.graph().name());
    *graph.mutable_node() = model.graph().node();
    *graph.mutable_input() = model.graph().input();
    *graph.mutable_output() = model.graph().output();
    *graph.mutable_value_info() = model.graph().value_info();
    *graph.mutable_sparse_initializer() = model.graph().sparse_initializer();
    for (auto& node : *graph.mutable_node())
        if (node.domain() == "ai.onnx") node.clear_domain();
    std::unordered_set<std::string> inputs;
    for (const auto& input : graph.input()) inputs.insert(input.name());
    for (const auto& weights : model.graph().initializer()) {
        bool small = weights.data_location() != onnx::TensorProto::EXTERNAL && weights.dims_size() <= 1;
        for (const auto extent : weights.dims()) small &= extent <= most_elements;
        if (small) {
            *graph.add_initializer() = weights;
        } else if (!inputs.contains(weights.name())) {
            auto& input = *graph.add_input();
            input.set_name(weights.name());
            auto& type = *input.mutable_type()->mutable_tensor_type();
            type.set_elem_type(weights.data_type());
            type.mutable_shape();
            for (const auto extent : weights.dims()) type.mutable_shape()->add_dim()->set_dim_value(extent);
        }
    }
    return light;
}

/// Why the checker has nothing to say of `model`; empty: it accepts it. Errors: it refuses it, though it accepts
/// `original`.
inline std::string check(const onnx::ModelProto& model, const onnx::ModelProto& original) {
    if (opset_of(model) > newest_opset())
        return "the ONNX library knows no opset " + std::to_string(opset_of(model));
    return guarded("written model", [&]() -> std::string {
        try {
            onnx::checker::check_model(without_weights(model));
        } catch (const std::exception&) {
            try {
                onnx::checker::check_model(without_weights(original));
            } catch (const std::exception& e) {
                return std::string("the checker refuses the model as it was read: ") + e.what();
            }
            throw;
        }
        return {};
    });
}

} // namespace echo::format
