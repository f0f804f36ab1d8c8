// SPDX-License-Identifier: BSL-1.0
/// @file
/// What exporters compute extents by, and the ONNX library does not follow: integers that are reshaped, filled in or
/// divided, and slices by bounds that are computed. Compiled into model.cpp alone.
#pragma once

#include "onnx/headers.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// The extents, if all are known.
inline std::optional<std::vector<std::int64_t>> known_values(const onnx::TensorShapeProto& shape) {
    std::vector<std::int64_t> found;
    for (const auto& dim : shape.dim()) {
        if (!dim.has_dim_value()) return std::nullopt;
        found.push_back(dim.dim_value());
    }
    return found;
}

/// What a small tensor of integers holds, if that is known.
inline std::optional<std::vector<std::int64_t>> held_integers(onnx::InferenceContext& c, std::size_t input) {
    if (const auto* data = c.getInputData(input)) {
        if (data->data_type() != onnx::TensorProto::INT64) return std::nullopt;
        return onnx::ParseData<std::int64_t>(data);
    }
    const auto* carried = c.getSymbolicInput(input);
    return carried == nullptr ? std::nullopt : known_values(*carried);
}

/// The same integers in another shape, or along the one axis that they have.
inline void carry_same(onnx::DataPropagationContext& c) {
    const auto* data = c.getNumInputs() > 0 ? c.getInputData(0) : nullptr;
    if (data == nullptr) return;
    onnx::TensorShapeProto copy = *data;
    c.addOutputData(0, std::move(copy));
}

/// Of ConstantOfShape.
inline void carry_filled(onnx::DataPropagationContext& c) {
    constexpr std::int64_t most = 64; // extents, not data
    const auto* shape = c.getNumInputs() > 0 ? c.getInputData(0) : nullptr;
    const auto* value = c.getAttribute("value");
    if (shape == nullptr || shape->dim_size() > 1 || value == nullptr) return;
    const bool scalar = shape->dim_size() == 0;
    if (!scalar && !shape->dim(0).has_dim_value()) return;
    const std::int64_t count = scalar ? 1 : shape->dim(0).dim_value();
    if (count < 0 || count > most || value->t().data_type() != onnx::TensorProto::INT64) return;
    const auto held = onnx::ParseData<std::int64_t>(&value->t());
    if (held.empty()) return;
    onnx::TensorShapeProto made;
    for (std::int64_t i = 0; i < count; ++i) made.add_dim()->set_dim_value(held[0]);
    c.addOutputData(0, std::move(made));
}

/// `of(a, b)` of extents, where both are positive and rounding is no question.
template <class F>
void carry_each(onnx::DataPropagationContext& c, F of) {
    if (c.getNumInputs() < 2) return;
    const auto *a = c.getInputData(0), *b = c.getInputData(1);
    if (a == nullptr || b == nullptr || (b->dim_size() != 1 && b->dim_size() != a->dim_size())) return;
    onnx::TensorShapeProto made;
    for (int i = 0; i < a->dim_size(); ++i) {
        const auto &over = a->dim(i), &under = b->dim(b->dim_size() == 1 ? 0 : i);
        if (!over.has_dim_value() || !under.has_dim_value()) return;
        if (over.dim_value() < 0 || under.dim_value() < 1) return;
        made.add_dim()->set_dim_value(of(over.dim_value(), under.dim_value()));
    }
    c.addOutputData(0, std::move(made));
}

/// A slice of extents, by steps of 1.
inline void carry_slice(onnx::DataPropagationContext& c) {
    if (c.getNumInputs() < 3) return;
    const auto *data = c.getInputData(0), *starts = c.getInputData(1), *ends = c.getInputData(2);
    if (data == nullptr || starts == nullptr || ends == nullptr) return;
    const auto start = known_values(*starts), end = known_values(*ends);
    if (!start || !end || start->size() != 1 || end->size() != 1) return;
    if (c.getNumInputs() > 4 && c.getInputType(4) != nullptr) {
        const auto* steps = c.getInputData(4);
        if (steps == nullptr || steps->dim_size() != 1 || steps->dim(0).dim_value() != 1) return;
    }
    const auto bound = [size = std::int64_t{data->dim_size()}](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
    };
    onnx::TensorShapeProto made;
    for (std::int64_t i = bound(start->front()); i < bound(end->front()); ++i)
        *made.add_dim() = data->dim(static_cast<int>(i));
    c.addOutputData(0, std::move(made));
}

/// The extents of a slice whose bounds are known, but no constants; by steps of 1.
inline void complete_slice(onnx::InferenceContext& c) {
    const auto given = [&c](std::size_t input) {
        return c.getNumInputs() > input && c.getInputType(input) != nullptr;
    };
    if (!given(0) || !given(1) || !given(2) || !onnx::hasInputShape(c, 0)) return;
    auto shape = known_values(c.getInputType(0)->tensor_type().shape());
    auto& made = *c.getOutputType(0)->mutable_tensor_type();
    if (!shape || (made.has_shape() && known_values(made.shape()))) return;
    const auto starts = held_integers(c, 1), ends = held_integers(c, 2);
    if (!starts || !ends || starts->size() != ends->size()) return;
    std::vector<std::int64_t> axes(starts->size()), steps(starts->size(), 1);
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    for (auto [input, to] : {std::pair(std::size_t{3}, &axes), std::pair(std::size_t{4}, &steps)}) {
        if (!given(input)) continue;
        const auto held = held_integers(c, input);
        if (!held || held->size() != starts->size()) return;
        *to = *held;
    }
    const auto rank = static_cast<std::int64_t>(shape->size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || steps[i] != 1) return;
        auto& extent = (*shape)[static_cast<std::size_t>(axis)];
        if (extent < 0) return;
        const auto bound = [extent](std::int64_t at) {
            return std::clamp<std::int64_t>(at < 0 ? std::max(at, -extent) + extent : at, 0, extent);
        };
        extent = std::max<std::int64_t>(bound((*ends)[i]) - bound((*starts)[i]), 0);
    }
    made.mutable_shape()->clear_dim();
    for (const auto extent : *shape) made.mutable_shape()->add_dim()->set_dim_value(extent);
}

/// The library's rule with what it leaves open, or nothing where it leaves nothing open.
inline std::optional<onnx::OpSchema> with_computed_extents(const onnx::OpSchema& known) {
    const std::string& name = known.Name();
    onnx::OpSchema schema = known;
    if (name == "Slice") {
        const auto library = known.GetTypeAndShapeInferenceFunction();
        schema.TypeAndShapeInferenceFunction([library](onnx::InferenceContext& c) {
            library(c);
            complete_slice(c);
        });
        schema.PartialDataPropagationFunction(carry_slice);
    } else if (name == "Identity" || name == "Reshape" || name == "Transpose") {
        schema.PartialDataPropagationFunction(carry_same);
    } else if (name == "ConstantOfShape") {
        schema.PartialDataPropagationFunction(carry_filled);
    } else if (name == "Div") {
        schema.PartialDataPropagationFunction([](onnx::DataPropagationContext& c) {
            carry_each(c, [](std::int64_t a, std::int64_t b) { return a / b; });
        });
    } else if (name == "Mod") {
        schema.PartialDataPropagationFunction([](onnx::DataPropagationContext& c) {
            carry_each(c, [](std::int64_t a, std::int64_t b) { return a % b; });
        });
    } else {
        return std::nullopt;
    }
    return schema;
}

} // namespace echo::format
