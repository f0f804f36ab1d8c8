// SPDX-License-Identifier: BSL-1.0
/// @file
/// Rows of a table.
#pragma once

#include <echo/op_traits.hpp>

#include <tuple>

namespace echo {

/// Table [v, d], indices [..] → [.., d]. The gradient reads the indices, and of the table its shape.
struct embedding_op {
    static constexpr auto forward = [](auto table, auto indices) { return gather_rows(table, indices); };
    static constexpr auto gradient = [](auto dy, auto table, auto indices, auto) {
        return std::tuple{scatter_rows(dy, indices, shape_of(table)), no_gradient{}};
    };
};
template <>
struct op_traits<embedding_op> : data_movement<embedding_op> {};

} // namespace echo
