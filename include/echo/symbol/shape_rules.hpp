// SPDX-License-Identifier: BSL-1.0
/// @file
/// The shape that an operation gives, from the shapes of its operands. Every rule refuses, with `echo::error` (no node,
/// key "shape"), operands that do not fit together.
#pragma once

#include <echo/error.hpp>
#include <echo/symbol/operation.hpp>
#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::symbol::detail {

/// Shapes contradict each other.
[[noreturn]] inline void shape_error(const char* problem) {
    throw error({}, "shape", problem, "check the shapes of the op's inputs");
}

/// Axes are matched from the last on; an extent of 1, or a missing one, is repeated.
inline shape broadcast_shapes(const shape& a, const shape& b) {
    std::vector<std::int64_t> result(a.rank() > b.rank() ? a.rank() : b.rank());
    for (std::size_t i = 0; i < result.size(); ++i) { // i counts from the last axis
        const auto x = i < a.rank() ? a[a.rank() - 1 - i] : 1;
        const auto y = i < b.rank() ? b[b.rank() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) shape_error("two shapes do not broadcast");
        result[result.size() - 1 - i] = x == 1 ? y : x;
    }
    return shape(std::move(result));
}

/// [batch.., m, k] and [batch.., k, n] → [batch.., m, n], each operand read transposed if `p` says so.
inline shape matmul_shape(const shape& a, const shape& b, const parameters& p) {
    if (a.rank() < 2 || b.rank() < 2) shape_error("a matrix product needs two axes");
    const auto m = a[a.rank() - (p.transposed[0] ? 1 : 2)];
    const auto k = a[a.rank() - (p.transposed[0] ? 2 : 1)];
    const auto n = b[b.rank() - (p.transposed[1] ? 2 : 1)];
    if (k != b[b.rank() - (p.transposed[1] ? 1 : 2)])
        shape_error("the inner extents of a matrix product differ");
    const auto x = a.extents(), y = b.extents();
    const auto batch = broadcast_shapes(shape({x.begin(), x.end() - 2}), shape({y.begin(), y.end() - 2}));
    std::vector<std::int64_t> result(batch.extents().begin(), batch.extents().end());
    result.push_back(m);
    result.push_back(n);
    return shape(std::move(result));
}

/// The last two axes change places.
inline shape transposed_shape(const shape& a) {
    if (a.rank() < 2) shape_error("a transpose needs two axes");
    std::vector<std::int64_t> result(a.extents().begin(), a.extents().end());
    std::swap(result[a.rank() - 1], result[a.rank() - 2]);
    return shape(std::move(result));
}

/// [.., n] → [m, n], where m is the product of all but the last.
inline shape shape_of_rows(const shape& a) {
    if (a.rank() < 1) shape_error("rows need an axis");
    const auto extents = a.extents();
    return {static_cast<std::int64_t>(element_count(shape({extents.begin(), extents.end() - 1}))),
            extents.back()};
}

/// [n] → [1.., n, 1..], of as many axes as `like` has: n stands at `axis`.
inline shape shape_along_axis(const shape& a, const shape& like, std::size_t axis) {
    if (a.rank() != 1 || axis >= like.rank() || like[axis] != a[0])
        shape_error("a value per channel needs one axis of as many elements");
    std::vector<std::int64_t> result(like.rank(), 1);
    result[axis] = a[0];
    return shape(std::move(result));
}

/// [n, rest..] and [index..] → [index.., rest..].
inline shape gathered_shape(const shape& table, const shape& indices) {
    if (table.rank() < 1) shape_error("a table needs an axis");
    const auto index = indices.extents(), rows = table.extents();
    std::vector<std::int64_t> result(index.begin(), index.end());
    result.insert(result.end(), rows.begin() + 1, rows.end());
    return shape(std::move(result));
}

/// Without the axes that are reduced, or with an extent of 1 for each of them.
inline shape reduced_shape(const shape& a, const axes& over) {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < a.rank(); ++i) {
        if (!over.contains(i, a.rank()))
            result.push_back(a[i]);
        else if (over.kept)
            result.push_back(1);
    }
    return shape(std::move(result));
}

/// [n, c, space..] → [n, channels, space'..].
inline shape slid_shape(const shape& x, std::int64_t channels, const window& g,
                        std::span<const std::int64_t> kernel) {
    if (x.rank() < 2 || x.rank() != kernel.size() + 2 || kernel.size() > 3)
        shape_error("a sliding window needs [n, c] and one to three spatial axes");
    std::vector<std::int64_t> result{x[0], channels};
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const auto reach = std::int64_t{g.dilation[i]} * (kernel[i] - 1) + 1;
        const auto room = x[i + 2] + 2 * std::int64_t{g.padding[i]} - reach;
        if (g.stride[i] < 1 || room < 0) shape_error("a window is larger than what it slides over");
        result.push_back(room / g.stride[i] + 1);
    }
    return shape(std::move(result));
}

/// The extents of a pooling's window, for a tensor [n, c, space..] of that rank.
inline std::vector<std::int64_t> pooled(const window& g, std::size_t rank) {
    std::vector<std::int64_t> kernel;
    for (std::size_t i = 0; i + 2 < rank && i < g.kernel.size(); ++i) kernel.push_back(g.kernel[i]);
    return kernel;
}

} // namespace echo::symbol::detail
