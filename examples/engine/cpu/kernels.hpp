// SPDX-License-Identifier: BSL-1.0
/// @file
/// Declarations of the kernels of constants, products, reductions and movement. Element-wise ones are templates
/// (elementwise.hpp, broadcast.hpp).
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/context.hpp"
#include "engine/ops/constants.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/movement.hpp"
#include "engine/ops/reductions.hpp"

namespace engine::cpu {

void run(const ops::fill& op, const call& c, context& on);
void run(const ops::causal_bias& op, const call& c, context& on);
void run(const ops::reduce& op, const call& c, context& on);
void run(const ops::repeat& op, const call& c, context& on);
void run(const ops::fully_connected& op, const call& c, context& on);
std::uint64_t scratch(const ops::fully_connected& op, tensor_span in, tensor_span out, context& on);
void run(const ops::fully_connected_data_gradient& op, const call& c, context& on);
void run(const ops::fully_connected_weight_gradient& op, const call& c, context& on);
void run(const ops::batch_dot& op, const call& c, context& on);
std::uint64_t scratch(const ops::batch_dot& op, tensor_span in, tensor_span out, context& on);
void run(const ops::split& op, const call& c, context& on);
void run(const ops::concat& op, const call& c, context& on);
void run(const ops::transpose& op, const call& c, context& on);
void run(const ops::tile& op, const call& c, context& on);
void run(const ops::tile_gradient& op, const call& c, context& on);

} // namespace engine::cpu
