// SPDX-License-Identifier: BSL-1.0
/// @file
/// `type_scope`: what is known of the values of a graph, or of a body, while it is gone through. Compiled into
/// model.cpp alone.
#pragma once

#include "onnx/held_tensor.hpp"
#include "onnx/stated_extents.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace echo::format {

/// Whether all extents of a tensor are known, and its element type; of something else, whether it is known at all.
inline bool is_settled(const onnx::TypeProto& type) {
    if (!type.has_tensor_type()) return type.value_case() != onnx::TypeProto::VALUE_NOT_SET;
    const auto& tensor = type.tensor_type();
    return tensor.elem_type() != 0 && tensor.has_shape() &&
           std::all_of(tensor.shape().dim().begin(), tensor.shape().dim().end(), is_known);
}

/// The extents of a tensor, if all are known.
inline std::optional<held_extents> known_extents(const onnx::TypeProto& type) {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
    held_extents found;
    for (const auto& dim : type.tensor_type().shape().dim()) {
        if (!is_known(dim)) return std::nullopt;
        found.push_back(dim.dim_value());
    }
    return found;
}

/// Fills in what `type` leaves open by `other`. Returns whether both know something and it is not the same. Then `type`
/// stays as it is, unless it is of another rank and `other` alone is known in full.
inline bool complete(onnx::TypeProto& type, const onnx::TypeProto& other) {
    if (other.value_case() == onnx::TypeProto::VALUE_NOT_SET) return false;
    if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) {
        type = other;
        return false;
    }
    if (type.value_case() != other.value_case()) return true;
    if (!type.has_tensor_type()) return false;
    auto& mine = *type.mutable_tensor_type();
    const auto& further = other.tensor_type();
    bool differ =
        mine.elem_type() != 0 && further.elem_type() != 0 && mine.elem_type() != further.elem_type();
    if (mine.elem_type() == 0) mine.set_elem_type(further.elem_type());
    if (!further.has_shape()) return differ;
    if (!mine.has_shape()) {
        *mine.mutable_shape() = further.shape();
        return differ;
    }
    if (mine.shape().dim_size() != further.shape().dim_size()) {
        const bool more_exact = !known_extents(type) && known_extents(other);
        if (more_exact) *mine.mutable_shape() = further.shape();
        return true;
    }
    for (int axis = 0; axis < further.shape().dim_size(); ++axis) {
        auto& dim = *mine.mutable_shape()->mutable_dim(axis);
        const auto& more = further.shape().dim(axis);
        if (is_known(dim))
            differ |= is_known(more) && more.dim_value() != dim.dim_value();
        else if (is_known(more) || dim.dim_param().empty())
            dim = more;
    }
    return differ;
}

/// Keeps of `type` what holds for `other` too.
inline void restrict(onnx::TypeProto& type, const onnx::TypeProto& other) {
    if (!type.has_tensor_type() || !other.has_tensor_type()) {
        if (type.value_case() != other.value_case()) type.Clear();
        return;
    }
    auto& mine = *type.mutable_tensor_type();
    const auto& further = other.tensor_type();
    if (mine.elem_type() != further.elem_type()) mine.set_elem_type(0);
    if (!mine.has_shape()) return;
    if (!further.has_shape() || mine.shape().dim_size() != further.shape().dim_size())
        return mine.clear_shape();
    for (int axis = 0; axis < further.shape().dim_size(); ++axis) {
        auto& dim = *mine.mutable_shape()->mutable_dim(axis);
        const auto& more = further.shape().dim(axis);
        const bool same = is_known(dim) ? is_known(more) && more.dim_value() == dim.dim_value()
                                        : !is_known(more) && more.dim_param() == dim.dim_param();
        if (!same) dim.Clear();
    }
}

class type_scope {
public:
    explicit type_scope(const type_scope* around = nullptr) : outer_(around) {}

    /// nullptr: nothing is known.
    const onnx::TypeProto* type(const std::string& name) const {
        const auto found = types_.find(name);
        if (found != types_.end()) return &found->second;
        return outer_ == nullptr ? nullptr : outer_->type(name);
    }
    /// nullptr: its elements are not known.
    const held_tensor* held(const std::string& name) const {
        const auto found = held_.find(name);
        if (found != held_.end()) return &found->second;
        return outer_ == nullptr || types_.contains(name) ? nullptr : outer_->held(name);
    }
    /// A held tensor of which all elements are known, as a constant; nullptr: there is none.
    const onnx::TensorProto* constant(const std::string& name) const {
        if (const auto made = constants_.find(name); made != constants_.end()) return &made->second;
        const auto* found = held(name);
        if (found == nullptr || !found->is_known()) return nullptr;
        return &constants_.emplace(name, as_proto(*found)).first->second;
    }
    /// A vector of integers of which some are known, as extents; nullptr: there is none.
    const onnx::TensorShapeProto* extents(const std::string& name) const {
        if (const auto made = shapes_.find(name); made != shapes_.end()) return &made->second;
        const auto* found = held(name);
        auto shape = found == nullptr ? std::nullopt : as_shape(*found);
        return shape ? &shapes_.emplace(name, std::move(*shape)).first->second : nullptr;
    }

    void set(const std::string& name, onnx::TypeProto type) { types_[name] = std::move(type); }
    /// Held where it is of the shape that the value has.
    void hold(const std::string& name, held_tensor made) {
        const auto* known = type(name);
        const auto extents = known == nullptr ? std::nullopt : known_extents(*known);
        if (extents && *extents == made.extents && known->tensor_type().elem_type() == made.element)
            held_[name] = std::move(made);
    }
    const std::unordered_map<std::string, onnx::TypeProto>& types() const noexcept { return types_; }

private:
    const type_scope* outer_;
    std::unordered_map<std::string, onnx::TypeProto> types_;
    std::unordered_map<std::string, held_tensor> held_;
    mutable std::unordered_map<std::string, onnx::TensorProto> constants_;
    mutable std::unordered_map<std::string, onnx::TensorShapeProto> shapes_;
};

} // namespace echo::format
