// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the calls of `graph` (graph.hpp) check of an op and its arguments before anything is linked.
#pragma once

#include <echo/cuda/jit/registry.hpp>
#include <echo/cuda/kernel/arguments.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace echo::cuda::jit::detail {

/// How messages name an op.
inline std::string op_named(std::string_view op) { return "op '" + std::string(op) + "'"; }

/// Errors: `argument_error` where another number of `what` is given than the op takes.
inline void expect_count(std::string_view op, const char* what, std::size_t given, std::size_t taken) {
    if (given != taken)
        throw argument_error(op_named(op), std::to_string(given) + " " + what + " given",
                             "it takes " + std::to_string(taken));
}

/// Errors: `argument_error` where the op has no `what` (input, output) of that number.
inline void expect_below(std::string_view op, const char* what, std::size_t given, std::size_t count) {
    if (given >= count)
        throw argument_error(op_named(op), std::string("has no ") + what + " " + std::to_string(given),
                             "it has " + std::to_string(count));
}

/// Errors: `argument_error` for an op without gradient.
inline void expect_gradient(std::string_view op, const registered_op& r) {
    if (r.gradients == 0)
        throw argument_error(op_named(op), "has no gradient", "nothing flows back through it");
}

} // namespace echo::cuda::jit::detail
