// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every op of the engine as one variant. An op is a plain struct with
///   name                               what reports print
///   infer(inputs) -> tensors           the outputs; refuses what it cannot take (who calls adds the node's name)
///   facts() -> echo::op_facts          what Echo asks
/// and, where it makes sense,
///   flops(inputs, outputs) -> double   none counted without it
///   gradient(graph, differentiation)   appends gradient nodes; without it nothing flows back
/// It knows nothing of a backend.
#pragma once

#include "engine/ops/broadcast.hpp"
#include "engine/ops/constants.hpp"
#include "engine/ops/convolution.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/ops/lambdas.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/movement.hpp"
#include "engine/ops/normalisation.hpp"
#include "engine/ops/reductions.hpp"
#include "engine/ops/sequence.hpp"
#include "engine/ops/update.hpp"

#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>

#include <string>
#include <variant>

namespace engine::ops {

using any =
    std::variant<input, fill, causal_bias,
                 // element-wise, and the components of their gradients that compute something
                 elementwise<echo::tanh_op>, elementwise<echo::sigmoid_op>, elementwise<echo::relu_op>,
                 elementwise<echo::add_op>, elementwise<echo::subtract_op>, elementwise<echo::multiply_op>,
                 elementwise<echo::divide_op>, elementwise<echo::square_op>, elementwise<echo::sqrt_op>,
                 elementwise<echo::rsqrt_op>, elementwise<echo::exp_op>, elementwise<echo::log_op>,
                 elementwise<echo::negate_op>, elementwise<scale_op>, elementwise<shift_op>,
                 elementwise<copy_op>, elementwise<dropout_op>, elementwise_gradient<echo::tanh_op, 0>,
                 elementwise_gradient<echo::sigmoid_op, 0>, elementwise_gradient<echo::relu_op, 0>,
                 elementwise_gradient<echo::subtract_op, 1>, elementwise_gradient<echo::multiply_op, 0>,
                 elementwise_gradient<echo::multiply_op, 1>, elementwise_gradient<echo::divide_op, 0>,
                 elementwise_gradient<echo::divide_op, 1>, elementwise_gradient<echo::square_op, 0>,
                 elementwise_gradient<echo::sqrt_op, 0>, elementwise_gradient<echo::rsqrt_op, 0>,
                 elementwise_gradient<echo::exp_op, 0>, elementwise_gradient<echo::log_op, 0>,
                 elementwise_gradient<echo::negate_op, 0>, elementwise_gradient<scale_op, 0>,
                 elementwise_gradient<dropout_op, 0>,
                 // with broadcasting
                 broadcast<echo::add_op>, broadcast<echo::subtract_op>, broadcast<echo::multiply_op>,
                 broadcast<echo::divide_op>, broadcast_gradient<echo::add_op, 0>,
                 broadcast_gradient<echo::add_op, 1>, broadcast_gradient<echo::subtract_op, 0>,
                 broadcast_gradient<echo::subtract_op, 1>, broadcast_gradient<echo::multiply_op, 0>,
                 broadcast_gradient<echo::multiply_op, 1>, broadcast_gradient<echo::divide_op, 0>,
                 broadcast_gradient<echo::divide_op, 1>,
                 // the others
                 reduce, repeat, count_nonzero, add_n, fully_connected, fully_connected_data_gradient,
                 fully_connected_weight_gradient, batch_dot, convolution, convolution_data_gradient,
                 convolution_weight_gradient, pooling, pooling_gradient, batch_statistics, batch_norm,
                 batch_norm_gradient, softmax, softmax_gradient, softmax_output, softmax_output_gradient,
                 ctc_loss, ctc_loss_gradient, embedding, embedding_gradient, split, concat, transpose,
                 reshape, tile, tile_gradient, encode, sequence_mask, sequence_reverse, sequence_last,
                 sequence_last_gradient, clip_factor, sgd, adam, update_statistics>;

} // namespace engine::ops

namespace engine {

using op = ops::any;

std::string_view name_of(const op& o);
/// Errors: `echo::error` without a node, where the op cannot take these.
tensors infer(const op& o, tensor_span in);
echo::op_facts facts(const op& o);
double flops(const op& o, tensor_span in, tensor_span out);
/// Whether backends may compute it inside what reads it, element by element, and others inside it.
bool may_fuse(const op& o);

} // namespace engine
