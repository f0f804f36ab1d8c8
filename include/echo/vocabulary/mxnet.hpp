// SPDX-License-Identifier: BSL-1.0
/// @file
/// MXNet's ops by the names that its symbols use: `echo::mxnet.find("FullyConnected")`. The ops of translation models,
/// Transformers and convolutional networks.
///
/// Positions count inputs and outputs as symbols list them, hidden outputs (the mask of Dropout, the moments of a
/// normalisation) among them. What gradients read is what MXNet's own gradient nodes take as inputs: its Activation
/// reads input and output both (ReLU the output alone), and Concat reads its inputs in builds with oneDNN, which the
/// wheels are. `views`: MXNet lays the output on the input even while others read it. BatchNorm moves its statistics in
/// the gradient node, so a second run of it changes nothing. Dropout draws anew when it runs again: never.
#pragma once

#include <echo/vocabulary/row_facts.hpp>
#include <echo/vocabulary/vocabulary.hpp>

#include <cmath>
#include <span>
#include <string_view>

namespace echo {
namespace detail {

/// Multiply-adds of a product in which every output element reads one row of the weights (`inputs[1]`, rows first).
inline double mxnet_weighted_flops(std::span<const tensor> inputs, std::span<const tensor> outputs) {
    if (inputs.size() < 2 || outputs.empty() || inputs[1].shape.rank() == 0 || inputs[1].shape[0] <= 0)
        return 0;
    return 2.0 * static_cast<double>(element_count(outputs[0].shape)) *
           static_cast<double>(element_count(inputs[1].shape)) / static_cast<double>(inputs[1].shape[0]);
}
/// Of `[.., n, m]` and `[.., m, k]`, either transposed: m² = elements of both ÷ those of the output ÷ the batch.
inline double mxnet_batch_dot_flops(std::span<const tensor> inputs, std::span<const tensor> outputs) {
    if (inputs.size() < 2 || outputs.empty() || outputs[0].shape.rank() < 2) return 0;
    const shape& y = outputs[0].shape;
    const auto made = static_cast<double>(element_count(y));
    const std::size_t rank = y.rank();
    if (made == 0) return 0;
    const double batch = made / static_cast<double>(y[rank - 1]) / static_cast<double>(y[rank - 2]);
    const double read = static_cast<double>(element_count(inputs[0].shape)) *
                        static_cast<double>(element_count(inputs[1].shape));
    return 2 * made * std::sqrt(read / made / batch);
}
/// An op that MXNet always counts as an identity: no copy where the sizes agree.
constexpr op_facts mxnet_view = with_views({{0, 0}});

inline constexpr vocabulary_row mxnet_rows[] = {
    {heavy_facts(&mxnet_weighted_flops, reads{.inputs = {0, 1}}), "FullyConnected"},
    {heavy_facts(&mxnet_weighted_flops, reads{.inputs = {0, 1, 2}}), "Convolution"},
    {heavy_facts(nullptr, reads{.inputs = {0, 1, 2}}), "Deconvolution"},
    {heavy_facts(&mxnet_batch_dot_flops, reads{.inputs = {0, 1}}), "batch_dot"},
    {heavy_facts(nullptr, reads{.inputs = {0, 1}}), "dot"},
    {with(heavy_facts(), rerun_kind::never), "RNN"}, // may drop out

    {light_facts(reads_nothing, over_either),
     "elemwise_add elemwise_sub _grad_add broadcast_add broadcast_sub"},
    {light_facts(reads{.inputs = {0, 1}}, over_either),
     "elemwise_mul elemwise_div broadcast_mul broadcast_div broadcast_maximum broadcast_minimum"},
    {light_facts(reads_nothing, over_first),
     "add_n _plus_scalar _minus_scalar _rminus_scalar _mul_scalar _div_scalar negative"},
    {light_facts(reads{.inputs = {0}, .outputs = {0}}, over_first), "Activation"},
    {light_facts(reads_output, over_first), "relu sigmoid tanh exp sqrt softmax"},
    {light_facts(reads_input, over_first), "square log abs erf softsign"},
    {light_facts(reads{.inputs = {0, 1}, .outputs = {1, 2}}, over_first), "LayerNorm"},
    {light_facts(reads{.inputs = {0, 1, 2, 3, 4}, .outputs = {1, 2}}), "BatchNorm"},
    {light_facts(reads{.inputs = {0}, .outputs = positions::all()}), "Pooling"},
    {light_facts(reads{.inputs = {1}, .outputs = {0}}, over_first), "SoftmaxOutput"},
    {light_facts(reads_inputs), "Concat"},
    {light_facts(reads{.inputs = {0}}), "Embedding"},
    {light_facts(reads_nothing),
     "SliceChannel transpose SwapAxis slice slice_axis stack mean sum broadcast_axis broadcast_to"},
    {mxnet_view, "Reshape Flatten expand_dims _copy"},
    {with(light_facts(reads{.outputs = {1}}, over_first), rerun_kind::never), "Dropout"},
};

} // namespace detail

/// MXNet's and NNVM's ops by the names that their graphs use.
inline constexpr auto mxnet = make_vocabulary<detail::mxnet_rows>();

} // namespace echo
