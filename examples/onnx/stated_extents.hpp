// SPDX-License-Identifier: BSL-1.0
/// @file
/// `stated_extents`: what the command line says of extents and shapes that the model leaves open. Compiled into
/// model.cpp alone.
#pragma once

#include "onnx/headers.hpp"
#include "onnx/model.hpp"

#include <echo/error.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace echo::format {

/// Whether an extent is known. Some exporters write −1 for one that is not.
inline bool is_known(const onnx::TensorShapeProto::Dimension& dim) {
    return dim.has_dim_value() && dim.dim_value() >= 0;
}

/// `4x8`, with the names of symbolic extents and `?` for others; `scalar` for one element.
inline std::string shown(const onnx::TensorShapeProto& shape) {
    std::string text;
    for (const auto& dim : shape.dim()) {
        if (!text.empty()) text += 'x';
        text += is_known(dim)             ? std::to_string(dim.dim_value())
                : dim.dim_param().empty() ? "?"
                                          : dim.dim_param();
    }
    return text.empty() ? "scalar" : text;
}

class stated_extents {
public:
    explicit stated_extents(const onnx_options& asked)
        : asked_(asked), dims_(asked.dims.begin(), asked.dims.end()) {
        for (const auto& one : asked.shapes) shapes_.emplace(one.value, &one);
    }

    /// Gives symbolic extents their values. An extent that stays open has neither a value nor −1 then, nor the name
    /// `?`, by which some exporters mean that it has none.
    void bind_names(onnx::TypeProto& type) {
        if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
        for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
            if (is_known(dim)) continue;
            if (dim.has_dim_value()) dim.clear_dim_value();
            if (const auto* stated = find(dim.dim_param()))
                dim.set_dim_value(*stated);
            else if (dim.dim_param() == "?")
                dim.clear_dim_param();
            else if (!dim.dim_param().empty())
                names_.insert(dim.dim_param());
        }
    }
    /// The same, and fills in what is said of this value alone: for a type of which all else is known.
    /// Errors: a shape contradicts what is known.
    void bind(const std::string& value, onnx::TypeProto& type) {
        if (const auto shape = shapes_.find(value); shape != shapes_.end()) apply(*shape->second, type);
        bind_names(type);
        if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
        auto& shape = *type.mutable_tensor_type()->mutable_shape();
        for (int axis = 0; axis < shape.dim_size(); ++axis)
            if (!is_known(shape.dim(axis)))
                if (const auto* stated = find(value + ":" + std::to_string(axis)))
                    shape.mutable_dim(axis)->set_dim_value(*stated);
    }

    /// Errors: something is said of what is not there, or is known.
    void check_all_used() const {
        for (const auto& [name, value] : asked_.dims) {
            if (used_.contains(name)) continue;
            std::set<std::string> known(names_.begin(), names_.end());
            known.insert(used_.begin(), used_.end());
            std::string list;
            for (const auto& one : known) list += (list.empty() ? "" : ", ") + one;
            throw error({}, "--dim " + name, "no dimension has this name and no value, axis that is symbolic",
                        known.empty() ? "all dimensions are known" : "there are: " + list);
        }
        for (const auto& one : asked_.shapes)
            if (!used_shapes_.contains(one.value))
                throw error({}, "--shape " + one.value, "the model has no tensor of this name",
                            "name an input, or an output of a node");
    }

private:
    const std::int64_t* find(const std::string& name) {
        const auto found = name.empty() ? dims_.end() : dims_.find(name);
        if (found == dims_.end()) return nullptr;
        used_.insert(name);
        return &found->second;
    }

    void apply(const stated_shape& stated, onnx::TypeProto& type) {
        if (!type.has_tensor_type() && type.value_case() != onnx::TypeProto::VALUE_NOT_SET) return;
        used_shapes_.insert(stated.value);
        auto& tensor = *type.mutable_tensor_type();
        if (stated.element != 0 && tensor.elem_type() == 0) tensor.set_elem_type(stated.element);
        bool fits = stated.element == 0 || stated.element == tensor.elem_type();
        if (tensor.has_shape()) {
            fits = fits && tensor.shape().dim_size() == static_cast<int>(stated.extents.size());
            for (int axis = 0; fits && axis < tensor.shape().dim_size(); ++axis) {
                const auto& dim = tensor.shape().dim(axis);
                fits = !is_known(dim) || dim.dim_value() == stated.extents[static_cast<std::size_t>(axis)];
            }
        }
        if (!fits)
            throw error({}, "--shape " + stated.value,
                        "contradicts the model, by which it is " +
                            std::string(stated.element == 0 || stated.element == tensor.elem_type()
                                            ? shown(tensor.shape())
                                            : "of another type"),
                        "state what the model leaves open");
        tensor.mutable_shape()->clear_dim();
        for (const auto extent : stated.extents) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
    }

    const onnx_options& asked_;
    std::unordered_map<std::string, std::int64_t> dims_;
    std::unordered_map<std::string, const stated_shape*> shapes_;
    std::unordered_set<std::string> used_, names_, used_shapes_;
};

} // namespace echo::format
