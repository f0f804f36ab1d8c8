// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fold`: what a node makes, where its inputs are held: the arithmetic by which exporters compute shapes. Compiled
/// into model.cpp alone.
#pragma once

#include "onnx/fold_elementwise.hpp"
#include "onnx/fold_layout.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo::format {

namespace detail {

inline held_tensor vector_of(std::int32_t element, std::vector<held_number> numbers) {
    return {.element = element,
            .extents = {static_cast<std::int64_t>(numbers.size())},
            .numbers = std::move(numbers)};
}
inline held_tensor scalar_of(std::int32_t element, held_number number) {
    return {.element = element, .extents = {}, .numbers = {number}};
}

} // namespace detail

/// From the shape of its input, which needs no element of it.
inline folded fold_shape(const fold_node& n) {
    if (n.read.empty() || n.read[0] == nullptr || !n.read[0]->has_tensor_type() ||
        !n.read[0]->tensor_type().has_shape())
        return {};
    const auto& shape = n.read[0]->tensor_type().shape();
    const std::int64_t rank = shape.dim_size();
    const auto clamped = [rank](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    std::vector<held_number> numbers;
    const auto end = clamped(n.number("end", rank));
    for (auto i = clamped(n.number("start", 0)); i < end; ++i) {
        const auto& dim = shape.dim(static_cast<int>(i));
        numbers.push_back(dim.has_dim_value() ? held_number::of(dim.dim_value()) : held_number{});
    }
    return fold_one(detail::vector_of(onnx::TensorProto::INT64, std::move(numbers)));
}

inline folded fold_size(const fold_node& n) {
    folded shape = fold_shape(n);
    if (shape.empty()) return {};
    held_number count = held_number::of(1);
    for (const auto& extent : shape[0]->numbers)
        count = count.known && extent.known ? detail::multiply(count.i, extent.i) : held_number{};
    return fold_one(detail::scalar_of(onnx::TensorProto::INT64, count));
}

inline folded fold_constant(const fold_node& n) {
    if (n.proto.attribute_size() != 1) return {};
    const auto& a = n.proto.attribute(0);
    std::vector<held_number> numbers;
    if (a.name() == "value") return fold_one(held(a.t()));
    if (a.name() == "value_int")
        return fold_one(detail::scalar_of(onnx::TensorProto::INT64, held_number::of(a.i())));
    if (a.name() == "value_float")
        return fold_one(detail::scalar_of(onnx::TensorProto::FLOAT, held_number::of_real(a.f())));
    if (a.ints_size() > most_held || a.floats_size() > most_held) return {};
    for (const auto value : a.ints()) numbers.push_back(held_number::of(value));
    if (a.name() == "value_ints") return fold_one(detail::vector_of(onnx::TensorProto::INT64, numbers));
    for (const auto value : a.floats()) numbers.push_back(held_number::of_real(value));
    if (a.name() == "value_floats") return fold_one(detail::vector_of(onnx::TensorProto::FLOAT, numbers));
    return {};
}

inline folded fold_constant_of_shape(const fold_node& n) {
    if (n.extents.empty() || !n.has_extents[0]) return {};
    const auto count = held_count(n.extents[0]);
    const auto* value = attribute(n.proto, "value");
    auto filling = value == nullptr
                       ? std::optional(detail::scalar_of(onnx::TensorProto::FLOAT, held_number::of_real(0)))
                       : held(value->t());
    if (!count || !filling || filling->numbers.size() != 1) return {};
    filling->extents = n.extents[0];
    filling->numbers.resize(*count, filling->numbers[0]);
    return fold_one(std::move(filling));
}

/// Integers from one number to another; in floating point it depends on rounding how many there are.
inline folded fold_range(const fold_node& n) {
    const auto *first = n.input(0), *end = n.input(1), *step = n.input(2);
    if (first == nullptr || end == nullptr || step == nullptr || !first->integers() || !end->integers() ||
        !step->integers() || first->numbers.size() != 1 || end->numbers.size() != 1 ||
        step->numbers.size() != 1)
        return {};
    const std::int64_t begin = first->numbers[0].i, by = step->numbers[0].i;
    if (by == 0) return {};
    std::vector<held_number> numbers;
    for (held_number at = held_number::of(begin);
         by > 0 ? at.i < end->numbers[0].i : at.i > end->numbers[0].i; at = detail::add(at.i, by)) {
        if (!at.known || numbers.size() > std::size_t{most_held}) return {};
        numbers.push_back(at);
    }
    if (numbers.size() > std::size_t{most_held}) return {};
    return fold_one(detail::vector_of(first->element, std::move(numbers)));
}

/// Indices of what is not 0, an axis in each row.
inline folded fold_non_zero(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr || !a->is_known() || a->extents.empty()) return {};
    std::vector<held_extents> found;
    each_index(a->extents, [&](const held_extents& at) {
        const auto& number = element_at(*a, at);
        if (number.i != 0 || number.f != 0) found.push_back(at);
    });
    held_tensor made{
        .element = onnx::TensorProto::INT64,
        .extents = {static_cast<std::int64_t>(a->extents.size()), static_cast<std::int64_t>(found.size())}};
    if (!held_count(made.extents)) return {};
    for (std::size_t axis = 0; axis < a->extents.size(); ++axis)
        for (const auto& at : found) made.numbers.push_back(held_number::of(at[axis]));
    return fold_one(std::move(made));
}

/// ReduceSum, ReduceProd, ReduceMin and ReduceMax of integers.
inline folded fold_reduce(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr || holds_reals(a->element) || a->element == onnx::TensorProto::BOOL) return {};
    const auto axes = n.input_or_list(1, "axes");
    if (axes && !*axes) return {};
    const bool all = !axes || (*axes)->empty();
    if (all && n.number("noop_with_empty_axes", 0) != 0) return fold_one(*a);
    const std::size_t rank = a->extents.size();
    std::vector<bool> reduced(rank, all);
    for (std::size_t i = 0; !all && i < (*axes)->size(); ++i) {
        const auto axis = axis_of((**axes)[i], rank);
        if (!axis) return {};
        reduced[*axis] = true;
    }
    held_tensor made{.element = a->element};
    for (std::size_t i = 0; i < rank; ++i) made.extents.push_back(reduced[i] ? 1 : a->extents[i]);
    const std::string_view op = n.proto.op_type();
    const std::string_view by = op == "ReduceSum"    ? "Add"
                                : op == "ReduceProd" ? "Mul"
                                : op == "ReduceMin"  ? "Min"
                                                     : "Max";
    if (by.size() == 3 && by[0] == 'M' && by != "Mul" && a->numbers.empty())
        return {}; // the least of nothing
    each_index(made.extents, [&](const held_extents& at) {
        std::optional<held_number> sum;
        held_extents inside(rank, 1);
        for (std::size_t i = 0; i < rank; ++i)
            if (reduced[i]) inside[i] = a->extents[i];
        each_index(inside, [&](const held_extents& further) {
            held_extents from = at;
            for (std::size_t i = 0; i < rank; ++i) from[i] += further[i];
            const auto& number = element_at(*a, from);
            sum = sum ? detail::of_two(by, a->element, *sum, number, false) : number;
        });
        made.numbers.push_back(sum.value_or(held_number::of(op == "ReduceProd")));
    });
    if (n.number("keepdims", 1) == 0)
        for (std::size_t i = rank; i-- > 0;)
            if (reduced[i]) made.extents.erase(made.extents.begin() + static_cast<std::ptrdiff_t>(i));
    return fold_one(std::move(made));
}

/// The ops that are evaluated. tests/onnx/fold.py asks the reference implementation about each.
inline folded (*folder_of(const std::string& name))(const fold_node&) {
    static const auto table = [] {
        std::unordered_map<std::string, folded (*)(const fold_node&)> made{
            {"Cast", fold_cast},
            {"CastLike", fold_cast},
            {"Clip", fold_clip},
            {"Concat", fold_concat},
            {"Constant", fold_constant},
            {"ConstantOfShape", fold_constant_of_shape},
            {"Gather", fold_gather},
            {"GatherElements", fold_gather_elements},
            {"NonZero", fold_non_zero},
            {"Range", fold_range},
            {"ScatterND", fold_scatter_nd},
            {"Shape", fold_shape},
            {"Size", fold_size},
            {"Slice", fold_slice},
            {"Split", fold_split},
            {"Transpose", fold_transpose},
            {"Where", fold_where}};
        for (const auto* op : {"Abs", "Ceil", "Floor", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sqrt"})
            made[op] = fold_unary;
        for (const auto* op : {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
                               "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Xor"})
            made[op] = fold_binary;
        for (const auto* op : {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
            made[op] = fold_reshaped;
        for (const auto* op : {"Expand", "Tile"}) made[op] = fold_repeated;
        for (const auto* op : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"}) made[op] = fold_reduce;
        return made;
    }();
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

/// What the node makes, by output; empty, or nothing in its place, where it is not known.
inline folded fold(const fold_node& n) {
    if (!n.proto.domain().empty() && n.proto.domain() != "ai.onnx") return {};
    const auto evaluate = folder_of(n.proto.op_type());
    return evaluate == nullptr ? folded{} : evaluate(n);
}

} // namespace echo::format
