// SPDX-License-Identifier: BSL-1.0
/// @file
/// `onnx_op`: what is known of an ONNX op by its name alone. A unit of its own holds the table.
#pragma once

#include <echo/op_facts.hpp>

#include <cstdint>
#include <string_view>

namespace echo::format {

/// When an op may run twice.
enum class onnx_rerun : std::uint8_t {
    pure,
    random,  ///< if its node states a seed
    dropout, ///< if its node states a seed, or drops nothing
    never
};

/// Which outputs may take over an input's storage.
enum class onnx_inplace : std::uint8_t { none, elementwise };

struct onnx_op {
    std::string_view name{}; ///< `Conv`, `com.microsoft::ConvGrad`
    op_kind kind = op_kind::heavy;
    onnx_rerun rerun = onnx_rerun::never;
    onnx_inplace inplace = onnx_inplace::none;
};

/// nullptr: nobody knows the op. Standard ops go by their name, others by `domain::name`. O(log ops).
const onnx_op* find_onnx_op(std::string_view name) noexcept;

/// Whether the op computes gradients: by its name, since ONNX has no other sign of it.
inline bool is_onnx_gradient_op(std::string_view type) noexcept {
    return type.ends_with("Grad") || type.ends_with("Grad_13") || type.ends_with("Grad_dX");
}

/// Whether the op writes new parameters, new optimizer state, or a sum of gradients that outlives the step.
bool is_onnx_update_op(std::string_view name) noexcept;

} // namespace echo::format
