// SPDX-License-Identifier: BSL-1.0
/// @file
/// `value_types`: element type and extents of every value of a model, by inference, with symbolic dimensions bound.
/// Compiled into model.cpp alone.
#pragma once

#include "onnx/element_type.hpp"
#include "onnx/library.hpp"
#include "onnx/model.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace echo::format {

/// Symbolic dimensions and what they stand for.
class dim_values {
public:
    explicit dim_values(const std::vector<std::pair<std::string, std::int64_t>>& stated)
        : values_(stated.begin(), stated.end()) {}

    /// Gives the extents of `value` that are symbolic, or stated by `VALUE:AXIS`, their values. Returns whether any
    /// changed.
    bool bind(onnx::ValueInfoProto& value) {
        if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape()) return false;
        bool changed = false;
        auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
        for (int axis = 0; axis < shape.dim_size(); ++axis) {
            auto& dim = *shape.mutable_dim(axis);
            if (dim.has_dim_value()) continue;
            const auto* stated = find(dim.dim_param());
            if (stated == nullptr) stated = find(value.name() + ":" + std::to_string(axis));
            if (stated == nullptr) {
                if (!dim.dim_param().empty()) names_.insert(dim.dim_param());
                continue;
            }
            dim.set_dim_value(*stated);
            changed = true;
        }
        return changed;
    }

    /// Errors: a name stands for nothing.
    void check_all_used(const std::vector<std::pair<std::string, std::int64_t>>& stated) const {
        for (const auto& [name, value] : stated) {
            if (used_.contains(name)) continue;
            std::vector<std::string> known(names_.begin(), names_.end());
            known.insert(known.end(), used_.begin(), used_.end());
            std::ranges::sort(known);
            std::string list;
            for (const auto& one : known) list += (list.empty() ? "" : ", ") + one;
            throw error({}, "--dim " + name, "no dimension has this name and no value, axis that is symbolic",
                        known.empty() ? "all dimensions are known" : "there are: " + list);
        }
    }

private:
    const std::int64_t* find(const std::string& name) {
        const auto found = name.empty() ? values_.end() : values_.find(name);
        if (found == values_.end()) return nullptr;
        used_.insert(name);
        return &found->second;
    }

    std::unordered_map<std::string, std::int64_t> values_;
    std::unordered_set<std::string> used_, names_;
};

/// What is known of a value.
struct value_type {
    std::int32_t element = 0; ///< ONNX's number of the type
    std::vector<std::int64_t> extents{};
    /// Not empty: the value cannot be counted, and this is why; `advice` says what to do.
    std::string problem{}, advice{};
};

class value_types {
public:
    /// Errors: an input has a symbolic dimension that nothing binds; a name in `dims` stands for nothing; as
    /// `inferred`.
    value_types(const onnx::ModelProto& model,
                const std::vector<std::pair<std::string, std::int64_t>>& dims) {
        onnx::ModelProto light = without_weights(model);
        dim_values bound(dims);
        auto& graph = *light.mutable_graph();
        for (auto& input : *graph.mutable_input()) {
            bound.bind(input);
            require_extents(input);
        }
        // What stays symbolic of the other values is found out by inference.
        for (auto* values : {graph.mutable_value_info(), graph.mutable_output()})
            for (auto& value : *values) {
                bound.bind(value);
                if (value.type().has_tensor_type() && value.type().tensor_type().has_shape())
                    for (auto& dim :
                         *value.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
                        if (dim.has_dim_param()) dim.clear_dim_param();
            }
        onnx::GraphProto types = inferred(light);
        // Extents that hang on data may be stated one after another.
        for (std::size_t round = 0; round < dims.size(); ++round) {
            bool changed = false;
            for (auto* values : {types.mutable_value_info(), types.mutable_output()})
                for (auto& value : *values) changed |= bound.bind(value);
            if (!changed) break;
            *graph.mutable_value_info() = types.value_info();
            *graph.mutable_output() = types.output();
            types = inferred(light);
        }
        bound.check_all_used(dims);
        for (const auto* values : {&types.value_info(), &types.output(), &types.input()})
            for (const auto& value : *values) types_[value.name()] = describe(value.name(), value.type());
        for (const auto& weights : model.graph().initializer()) {
            value_type& type = types_[weights.name()];
            type = {.element = weights.data_type(),
                    .extents = {weights.dims().begin(), weights.dims().end()}};
        }
        for (const auto& weights : model.graph().sparse_initializer()) {
            value_type& type = types_[weights.values().name()];
            type = {.element = weights.values().data_type(),
                    .extents = {weights.dims().begin(), weights.dims().end()}};
        }
    }

    /// Of a value that nobody knows: one with a problem.
    const value_type& operator[](const std::string& name) const {
        static const value_type nothing{
            .problem = "nothing tells its type and shape",
            .advice = "the ONNX library has no rule for this op: state the output in the model's value_info"};
        const auto found = types_.find(name);
        return found == types_.end() ? nothing : found->second;
    }

private:
    static void require_extents(const onnx::ValueInfoProto& input) {
        if (!input.type().has_tensor_type()) return; // refused where it is described
        if (!input.type().tensor_type().has_shape())
            throw error(input.name(), "shape", "this input states none", "state its shape in the model");
        const auto& shape = input.type().tensor_type().shape();
        for (int axis = 0; axis < shape.dim_size(); ++axis) {
            const auto& dim = shape.dim(axis);
            if (dim.has_dim_value() && dim.dim_value() < 0)
                throw error(input.name(), "shape", "its extent " + std::to_string(axis) + " is negative",
                            "give extents of 0 or more");
            if (dim.has_dim_value()) continue;
            if (dim.dim_param().empty()) {
                const std::string name = input.name() + ":" + std::to_string(axis);
                throw error(input.name(), "shape", "its extent " + std::to_string(axis) + " is not stated",
                            "give it as --dim " + name + "=VALUE");
            }
            throw error(input.name(), "shape", "its dimension '" + dim.dim_param() + "' is symbolic",
                        "give it as --dim " + dim.dim_param() + "=VALUE");
        }
    }

    static value_type describe(const std::string& name, const onnx::TypeProto& type) {
        const auto not_a_tensor = [](const char* what) -> value_type {
            return {.problem = std::string("is ") + what + ", and only tensors have a size that is known",
                    .advice = "plan a graph of tensors"};
        };
        if (type.has_sequence_type()) return not_a_tensor("a sequence");
        if (type.has_map_type()) return not_a_tensor("a map");
        if (type.has_optional_type()) return not_a_tensor("an optional value");
        if (type.has_sparse_tensor_type()) return not_a_tensor("a sparse tensor");
        if (!type.has_tensor_type()) return value_types::unknown();
        value_type made{.element = type.tensor_type().elem_type()};
        if (!type.tensor_type().has_shape()) return value_types::unknown();
        const auto& shape = type.tensor_type().shape();
        for (int axis = 0; axis < shape.dim_size() && made.problem.empty(); ++axis) {
            if (!shape.dim(axis).has_dim_value()) {
                made.problem = "extent " + std::to_string(axis) + " is not known before the graph runs";
                made.advice = "give it as --dim " + name + ":" + std::to_string(axis) + "=VALUE";
            }
            made.extents.push_back(shape.dim(axis).dim_value());
        }
        return made;
    }
    static value_type unknown() {
        return {.problem = "its shape could not be inferred",
                .advice = "state it in the model's value_info, or check the inputs of its node"};
    }

    std::unordered_map<std::string, value_type> types_;
};

} // namespace echo::format
