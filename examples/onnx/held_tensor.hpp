// SPDX-License-Identifier: BSL-1.0
/// @file
/// `held_tensor`: a small tensor whose elements are known before the graph runs, all of them or some: extents, indices,
/// conditions. Compiled into model.cpp alone.
#pragma once

#include "onnx/headers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// An element, if it is known. Integers and booleans are in `i`, floating point is in `f`.
struct held_number {
    std::int64_t i = 0;
    double f = 0;
    bool known = false;

    static held_number of(std::int64_t value) { return {.i = value, .known = true}; }
    static held_number of_real(double value) { return {.f = value, .known = std::isfinite(value)}; }
};

using held_extents = std::vector<std::int64_t>;

/// Row-major, as every tensor of ONNX.
struct held_tensor {
    std::int32_t element = 0;
    held_extents extents{};
    std::vector<held_number> numbers{};

    bool is_known() const {
        return std::all_of(numbers.begin(), numbers.end(), [](const auto& n) { return n.known; });
    }
    /// The integers, if all are known.
    std::optional<std::vector<std::int64_t>> integers() const;
};

/// Tensors with more elements are data, and are not held.
inline constexpr std::int64_t most_held = 1024;

constexpr bool holds_reals(std::int32_t element) {
    return element == onnx::TensorProto::FLOAT || element == onnx::TensorProto::DOUBLE;
}
constexpr bool can_hold(std::int32_t element) {
    return element == onnx::TensorProto::INT64 || element == onnx::TensorProto::INT32 ||
           element == onnx::TensorProto::BOOL || holds_reals(element);
}

inline std::optional<std::vector<std::int64_t>> held_tensor::integers() const {
    if (holds_reals(element) || !is_known()) return std::nullopt;
    std::vector<std::int64_t> found;
    for (const auto& n : numbers) found.push_back(n.i);
    return found;
}

/// How many elements there are; nothing: an extent is negative, or they are too many to be held.
inline std::optional<std::size_t> held_count(const held_extents& extents) {
    std::int64_t count = 1;
    if (std::ranges::find(extents, 0) != extents.end()) return 0;
    for (const auto extent : extents) {
        if (extent < 0 || extent > most_held) return std::nullopt;
        count *= extent;
        if (count > most_held) return std::nullopt;
    }
    return static_cast<std::size_t>(count);
}

namespace detail {

template <class T>
std::vector<held_number> numbers_of(const std::string& raw) {
    std::vector<held_number> found(raw.size() / sizeof(T));
    for (std::size_t k = 0; k < found.size(); ++k) {
        T value;
        std::memcpy(&value, raw.data() + k * sizeof(T), sizeof(T));
        if constexpr (std::is_floating_point_v<T>)
            found[k] = held_number::of_real(value);
        else
            found[k] = held_number::of(value);
    }
    return found;
}

template <class Field>
std::vector<held_number> numbers_of_field(const Field& field) {
    std::vector<held_number> found;
    for (const auto value : field)
        if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>)
            found.push_back(held_number::of_real(value));
        else
            found.push_back(held_number::of(value));
    return found;
}

inline std::vector<held_number> numbers_of(const onnx::TensorProto& t) {
    static_assert(std::endian::native == std::endian::little); // as raw data is
    const std::string& raw = t.raw_data();
    switch (t.data_type()) {
    case onnx::TensorProto::INT64:
        return t.has_raw_data() ? numbers_of<std::int64_t>(raw) : numbers_of_field(t.int64_data());
    case onnx::TensorProto::INT32:
        return t.has_raw_data() ? numbers_of<std::int32_t>(raw) : numbers_of_field(t.int32_data());
    case onnx::TensorProto::BOOL:
        return t.has_raw_data() ? numbers_of<std::uint8_t>(raw) : numbers_of_field(t.int32_data());
    case onnx::TensorProto::FLOAT:
        return t.has_raw_data() ? numbers_of<float>(raw) : numbers_of_field(t.float_data());
    case onnx::TensorProto::DOUBLE:
        return t.has_raw_data() ? numbers_of<double>(raw) : numbers_of_field(t.double_data());
    default:
        return {};
    }
}

} // namespace detail

/// Nothing for a tensor that is large, lies in another file, or is of another type.
inline std::optional<held_tensor> held(const onnx::TensorProto& t) {
    if (!can_hold(t.data_type()) || t.data_location() == onnx::TensorProto::EXTERNAL || t.has_segment())
        return std::nullopt;
    held_tensor made{.element = t.data_type(), .extents = {t.dims().begin(), t.dims().end()}};
    const auto count = held_count(made.extents);
    if (!count) return std::nullopt;
    made.numbers = detail::numbers_of(t);
    if (made.numbers.size() != *count) return std::nullopt;
    return made;
}

/// As a constant, for the rules of the library. All elements are known.
inline onnx::TensorProto as_proto(const held_tensor& h) {
    onnx::TensorProto t;
    t.set_data_type(h.element);
    for (const auto extent : h.extents) t.add_dims(extent);
    for (const auto& n : h.numbers)
        if (h.element == onnx::TensorProto::INT64)
            t.add_int64_data(n.i);
        else if (h.element == onnx::TensorProto::FLOAT)
            t.add_float_data(static_cast<float>(n.f));
        else if (h.element == onnx::TensorProto::DOUBLE)
            t.add_double_data(n.f);
        else
            t.add_int32_data(static_cast<std::int32_t>(n.i));
    return t;
}

/// A vector of integers as extents, of which some may be unknown; nothing for another tensor.
inline std::optional<onnx::TensorShapeProto> as_shape(const held_tensor& h) {
    if (h.extents.size() != 1 || h.element != onnx::TensorProto::INT64) return std::nullopt;
    onnx::TensorShapeProto made;
    for (const auto& n : h.numbers) {
        auto& dim = *made.add_dim();
        if (n.known) dim.set_dim_value(n.i);
    }
    return made;
}

} // namespace echo::format
