// SPDX-License-Identifier: BSL-1.0
/// @file
/// Declarations of the kernels that live in files of their own: convolution, pooling, normalisation, losses,
/// sequences, embedding, optimizers.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/context.hpp"
#include "engine/ops/convolution.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/normalisation.hpp"
#include "engine/ops/reductions.hpp"
#include "engine/ops/sequence.hpp"
#include "engine/ops/update.hpp"

namespace engine::cpu {

// convolution.cpp
void run(const ops::convolution& op, const call& c, context& on);
void run(const ops::convolution_data_gradient& op, const call& c, context& on);
void run(const ops::convolution_weight_gradient& op, const call& c, context& on);
std::uint64_t scratch(const ops::convolution& op, tensor_span in, tensor_span out, context& on);
std::uint64_t scratch(const ops::convolution_data_gradient& op, tensor_span in, tensor_span out, context& on);
std::uint64_t scratch(const ops::convolution_weight_gradient& op, tensor_span in, tensor_span out,
                      context& on);

// pooling.cpp
void run(const ops::pooling& op, const call& c, context& on);
void run(const ops::pooling_gradient& op, const call& c, context& on);
std::uint64_t scratch(const ops::pooling& op, tensor_span in, tensor_span out, context& on);

// batch_norm.cpp
void run(const ops::batch_statistics& op, const call& c, context& on);
void run(const ops::batch_norm_gradient& op, const call& c, context& on);
std::uint64_t scratch(const ops::batch_norm_gradient& op, tensor_span in, tensor_span out, context& on);

// softmax.cpp
void run(const ops::softmax& op, const call& c, context& on);
void run(const ops::softmax_gradient& op, const call& c, context& on);

// loss.cpp
void run(const ops::softmax_output& op, const call& c, context& on);
void run(const ops::softmax_output_gradient& op, const call& c, context& on);
std::uint64_t scratch(const ops::softmax_output& op, tensor_span in, tensor_span out, context& on);

// ctc.cpp: a row of labels that no alignment of its steps can spell counts 0, in loss and gradient.
void run(const ops::ctc_loss& op, const call& c, context& on);
void run(const ops::ctc_loss_gradient& op, const call& c, context& on);
std::uint64_t scratch(const ops::ctc_loss& op, tensor_span in, tensor_span out, context& on);
std::uint64_t scratch(const ops::ctc_loss_gradient& op, tensor_span in, tensor_span out, context& on);

// embedding.cpp
void run(const ops::embedding& op, const call& c, context& on);
void run(const ops::embedding_gradient& op, const call& c, context& on);

// sequence.cpp
void run(const ops::count_nonzero& op, const call& c, context& on);
void run(const ops::sequence_mask& op, const call& c, context& on);
void run(const ops::sequence_reverse& op, const call& c, context& on);
void run(const ops::sequence_last& op, const call& c, context& on);
void run(const ops::sequence_last_gradient& op, const call& c, context& on);

// update.cpp
void run(const ops::clip_factor& op, const call& c, context& on);
void run(const ops::sgd& op, const call& c, context& on);
void run(const ops::adam& op, const call& c, context& on);
void run(const ops::update_statistics& op, const call& c, context& on);
std::uint64_t scratch(const ops::clip_factor& op, tensor_span in, tensor_span out, context& on);

} // namespace engine::cpu
