// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fold_node`: a node whose inputs are held, as the functions see it that evaluate ops. Compiled into model.cpp alone.
#pragma once

#include "onnx/held_tensor.hpp"
#include "onnx/node_proto.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

/// What a node makes, by output; nothing where it is not known.
using folded = std::vector<std::optional<held_tensor>>;

struct fold_node {
    const onnx::NodeProto& proto;
    std::int64_t opset;                         ///< of ONNX's own ops
    std::vector<const held_tensor*> inputs{};   ///< nullptr: not held
    std::vector<const onnx::TypeProto*> read{}; ///< types by input; nullptr: not known
    std::vector<held_extents> extents{};        ///< by output, as the op's rule has them
    std::vector<bool> has_extents{};            ///< whether they are known

    bool given(std::size_t k) const {
        const auto size = static_cast<std::size_t>(proto.input_size());
        return k < size && !proto.input(static_cast<int>(k)).empty();
    }
    /// nullptr: not held.
    const held_tensor* input(std::size_t k) const { return k < inputs.size() ? inputs[k] : nullptr; }
    /// The integers of an input, all of them known.
    std::optional<std::vector<std::int64_t>> integers(std::size_t k) const {
        return input(k) == nullptr ? std::nullopt : input(k)->integers();
    }
    std::int64_t number(std::string_view name, std::int64_t otherwise) const {
        const auto* a = attribute(proto, name);
        return a == nullptr || !a->has_i() ? otherwise : a->i();
    }
    std::optional<std::vector<std::int64_t>> list(std::string_view name) const {
        const auto* a = attribute(proto, name);
        if (a == nullptr) return std::nullopt;
        return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
    }
    /// Input `k`, or in older opsets the attribute. Nothing: neither is given. The list is empty if it is not known.
    std::optional<std::optional<std::vector<std::int64_t>>> input_or_list(std::size_t k,
                                                                          std::string_view name) const {
        if (given(k)) return integers(k);
        if (const auto found = list(name)) return std::optional(*found);
        return std::nullopt;
    }
};

/// −1 for the last of `rank` axes, and so on; nothing if there is no such axis.
inline std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
    const auto size = static_cast<std::int64_t>(rank);
    if (axis < -size || axis >= size) return std::nullopt;
    return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

/// One output.
inline folded fold_one(std::optional<held_tensor> made) {
    folded all;
    all.push_back(std::move(made));
    return all;
}

/// Calls `f(index)` for every index of a tensor, in row-major order.
template <class F>
void each_index(const held_extents& extents, const F& f) {
    held_extents at(extents.size(), 0);
    const auto count = held_count(extents).value_or(0);
    for (std::size_t n = 0; n < count; ++n) {
        f(std::as_const(at));
        for (std::size_t axis = extents.size(); axis-- > 0;) {
            if (++at[axis] < extents[axis]) break;
            at[axis] = 0;
        }
    }
}

/// The element at an index. Where an extent is 1, or axes are missing in front, it is repeated.
inline const held_number& element_at(const held_tensor& h, const held_extents& index) {
    std::size_t offset = 0;
    const std::size_t skipped = index.size() - h.extents.size();
    for (std::size_t axis = 0; axis < h.extents.size(); ++axis) {
        const auto i = h.extents[axis] == 1 ? 0 : index[skipped + axis];
        offset = offset * static_cast<std::size_t>(h.extents[axis]) + static_cast<std::size_t>(i);
    }
    return h.numbers[offset];
}

/// A tensor whose elements are those of `h` at the indices that `source` gives, by the index of the result.
template <class F>
std::optional<held_tensor> rearranged(const held_tensor& h, held_extents extents, const F& source) {
    if (!held_count(extents)) return std::nullopt;
    held_tensor made{.element = h.element, .extents = std::move(extents)};
    each_index(made.extents,
               [&](const held_extents& at) { made.numbers.push_back(element_at(h, source(at))); });
    return made;
}

} // namespace echo::format
