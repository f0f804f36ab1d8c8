// SPDX-License-Identifier: BSL-1.0
/// @file
/// What ops and graph share: values, lists of tensors, and what an op is handed when its gradient is built.
#pragma once

#include <echo/graph/graph_traits.hpp>
#include <echo/tensor.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

struct node;
class graph;
using value = echo::value_of<node*>;
using tensors = std::vector<echo::tensor>;
using tensor_span = std::span<const echo::tensor>;
/// Per input of an op: the gradient that flows into it, if any does.
using gradients = std::vector<std::optional<value>>;

/// A node whose gradient is to be built.
struct differentiation {
    std::vector<value> x;                       ///< its inputs
    std::vector<value> y;                       ///< its outputs
    std::span<const std::optional<value>> dy{}; ///< gradients of its outputs; none where nothing flows
};

inline echo::tensor f32(echo::shape shape) { return {.shape = std::move(shape), .type = echo::dtype::f32}; }
inline echo::tensor i32(echo::shape shape) { return {.shape = std::move(shape), .type = echo::dtype::i32}; }

inline std::string to_string(const echo::shape& shape) {
    std::string text = "[";
    for (const auto extent : shape.extents()) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

inline std::size_t elements(const echo::tensor& t) { return echo::element_count(t.shape); }
inline double count(const echo::tensor& t) { return static_cast<double>(elements(t)); }

/// Refuses inputs of an op. Who knows the node adds its name.
[[noreturn]] inline void refuse(std::string_view key, const std::string& expected, const std::string& found) {
    throw echo::error({}, key, "expected " + expected + ", found " + found, "check what the op is given");
}
inline void expect(bool holds, const std::string& expected, const echo::tensor& found) {
    if (!holds)
        refuse("shape", expected, to_string(found.shape) + " of " + std::string(echo::name_of(found.type)));
}
inline void expect_inputs(tensor_span in, std::size_t count) {
    if (in.size() != count) refuse("inputs", std::to_string(count) + " inputs", std::to_string(in.size()));
}
inline void expect_type(const echo::tensor& t, echo::dtype type) {
    if (t.type != type) refuse("dtype", std::string(echo::name_of(type)), std::string(echo::name_of(t.type)));
}

/// An axis counted from the end where it is negative. Errors: no such axis.
inline std::size_t axis_of(const echo::shape& shape, std::int64_t axis) {
    const auto rank = static_cast<std::int64_t>(shape.rank());
    const auto at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) refuse("axis", "an axis of " + to_string(shape), std::to_string(axis));
    return static_cast<std::size_t>(at);
}

/// Extents in front of an axis, along it, and behind it: how a loop along one axis runs.
struct along {
    std::size_t outer = 1, extent = 1, inner = 1;
    along(const echo::shape& shape, std::int64_t axis) {
        const std::size_t at = axis_of(shape, axis);
        for (std::size_t i = 0; i < shape.rank(); ++i)
            (i < at ? outer : i == at ? extent : inner) *= static_cast<std::size_t>(shape[i]);
    }
};

inline std::vector<std::int64_t> extents_of(const echo::shape& shape) {
    return {shape.extents().begin(), shape.extents().end()};
}

/// Shapes aligned at their last axes, extents of 1 repeated. Errors: they do not broadcast.
inline echo::shape broadcast_shape(const echo::shape& a, const echo::shape& b) {
    std::vector<std::int64_t> result(std::max(a.rank(), b.rank()));
    for (std::size_t i = 0; i < result.size(); ++i) { // i counts from the last axis
        const auto x = i < a.rank() ? a[a.rank() - 1 - i] : 1;
        const auto y = i < b.rank() ? b[b.rank() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1)
            refuse("shape", "a shape that broadcasts with " + to_string(a), to_string(b));
        result[result.size() - 1 - i] = x == 1 ? y : x;
    }
    return echo::shape(std::move(result));
}

/// About one pass over memory, and nothing that its gradient reads unless said so.
inline echo::op_facts light_facts(std::string_view name, echo::reads gradient = {}) {
    return {.name = name,
            .kind = echo::op_kind::light,
            .rerun = echo::rerun_kind::pure,
            .gradient_reads = gradient};
}
inline echo::op_facts heavy_facts(std::string_view name, echo::reads gradient = {}) {
    return {.name = name,
            .kind = echo::op_kind::heavy,
            .rerun = echo::rerun_kind::pure,
            .gradient_reads = gradient};
}
/// Output 0 lies on input 0.
inline echo::op_facts view_facts(std::string_view name) {
    return {.name = name,
            .kind = echo::op_kind::view,
            .rerun = echo::rerun_kind::pure,
            .gradient_reads = {},
            .views = {{0, 0}}};
}
/// Writes for its effect, in an order that must stay.
inline echo::op_facts update_facts(std::string_view name, echo::storage_pairs inplace = {}) {
    return {.name = name,
            .kind = echo::op_kind::light,
            .rerun = echo::rerun_kind::never,
            .gradient_reads = {},
            .inplace = inplace};
}

} // namespace engine
