// SPDX-License-Identifier: BSL-1.0
/// @file
/// One function per op: what models are written in. Shapes as in the ops' own headers (ops/); negative axes count from
/// the last.
#pragma once

#include "engine/graph.hpp"

#include <initializer_list>

namespace engine {

using ops::cross_entropy;
using ops::initial;
using ops::pair;
using ops::sliding;

// Inputs of the graph.
inline value data(graph& g, std::string name, echo::tensor what) {
    return g.add_input(std::move(name), std::move(what), role::data);
}
inline value parameter(graph& g, std::string name, echo::shape shape, ops::initial start) {
    return g.add_input(std::move(name), f32(std::move(shape)), role::parameter, start);
}
/// Resident from step to step and not trained: momenta, running statistics.
inline value state(graph& g, std::string name, echo::shape shape, ops::initial start = {}) {
    return g.add_input(std::move(name), f32(std::move(shape)), role::state, start);
}
/// Names the node of a value.
inline value named(graph& g, std::string name, value v) {
    g.rename(v, std::move(name));
    return v;
}
/// Output `k` of the node whose first output `v` is.
inline value output(value v, std::size_t k) { return {v.producer, k}; }

// Constants.
inline value zeros(graph& g, echo::shape shape) { return g.add(ops::fill{f32(std::move(shape)), 0}, {}); }
inline value ones(graph& g, echo::shape shape) { return g.add(ops::fill{f32(std::move(shape)), 1}, {}); }
inline value causal_mask(graph& g, std::int64_t length) { return g.add(ops::causal_bias{length}, {}); }

// Element-wise.
template <class Op>
value apply(graph& g, std::vector<value> inputs, ops::numbers<Op> scalars = {}, bool stash_input = false) {
    return g.add(ops::elementwise<Op>{scalars, stash_input}, std::move(inputs));
}
/// An activation: in the `paper` baseline it stashes its input as well.
template <class Op>
value activation(graph& g, value x) {
    return apply<Op>(g, {x}, {}, g.habits() == baseline::paper);
}
inline value tanh(graph& g, value x) { return activation<echo::tanh_op>(g, x); }
inline value sigmoid(graph& g, value x) { return activation<echo::sigmoid_op>(g, x); }
inline value relu(graph& g, value x) { return activation<echo::relu_op>(g, x); }
inline value add(graph& g, value a, value b) { return apply<echo::add_op>(g, {a, b}); }
inline value subtract(graph& g, value a, value b) { return apply<echo::subtract_op>(g, {a, b}); }
inline value multiply(graph& g, value a, value b) { return apply<echo::multiply_op>(g, {a, b}); }
inline value divide(graph& g, value a, value b) { return apply<echo::divide_op>(g, {a, b}); }
inline value square(graph& g, value x) { return apply<echo::square_op>(g, {x}); }
inline value sqrt(graph& g, value x) { return apply<echo::sqrt_op>(g, {x}); }
inline value rsqrt(graph& g, value x) { return apply<echo::rsqrt_op>(g, {x}); }
inline value exp(graph& g, value x) { return apply<echo::exp_op>(g, {x}); }
inline value log(graph& g, value x) { return apply<echo::log_op>(g, {x}); }
inline value negate(graph& g, value x) { return apply<echo::negate_op>(g, {x}); }
inline value copy(graph& g, value x) { return apply<ops::copy_op>(g, {x}); }
inline value scale(graph& g, value x, double factor) { return apply<ops::scale_op>(g, {x}, {factor}); }
inline value shift(graph& g, value x, double offset) { return apply<ops::shift_op>(g, {x}, {offset}); }
/// x itself where the rate is 0. Output 1 of the node is the mask.
inline value dropout(graph& g, value x, double rate) {
    if (rate == 0) return x;
    if (!(rate > 0 && rate < 1))
        throw echo::error({}, "dropout", "the rate is " + std::to_string(rate), "give 0 or more, below 1");
    return apply<ops::dropout_op>(g, {x}, {rate});
}

// Element-wise with broadcasting.
inline value broadcast_add(graph& g, value a, value b) {
    return g.add(ops::broadcast<echo::add_op>{}, {a, b});
}
inline value broadcast_subtract(graph& g, value a, value b) {
    return g.add(ops::broadcast<echo::subtract_op>{}, {a, b});
}
inline value broadcast_multiply(graph& g, value a, value b) {
    return g.add(ops::broadcast<echo::multiply_op>{}, {a, b});
}
inline value broadcast_divide(graph& g, value a, value b) {
    return g.add(ops::broadcast<echo::divide_op>{}, {a, b});
}

// Products.
inline value fully_connected(graph& g, value x, value w, bool flatten = false) {
    return g.add(ops::fully_connected{false, flatten}, {x, w});
}
inline value fully_connected(graph& g, value x, value w, value b, bool flatten = false) {
    return g.add(ops::fully_connected{true, flatten}, {x, w, b});
}
inline value batch_dot(graph& g, value a, value b, bool transpose_a = false, bool transpose_b = false) {
    return g.add(ops::batch_dot{transpose_a, transpose_b}, {a, b});
}

// Convolution, pooling, normalisation.
inline value convolution(graph& g, value x, value w, sliding window = {}) {
    return g.add(ops::convolution{window}, {x, w});
}
inline value max_pool(graph& g, value x, pair kernel, sliding window = {}) {
    return g.add(ops::pooling{ops::pooling::max, kernel, window}, {x});
}
inline value mean_pool(graph& g, value x, pair kernel, sliding window = {}) {
    return g.add(ops::pooling{ops::pooling::mean, kernel, window}, {x});
}
/// Extents of 1 remain.
inline value global_mean_pool(graph& g, value x, bool channels_last = false) {
    const sliding window{.channels_last = channels_last};
    const auto& shape = g[x].shape;
    return mean_pool(g, x, {shape[window.space_axis(0)], shape[window.space_axis(1)]}, window);
}
/// The mean; output 1 is the variance. They are kept: to make them again reads all of x for two numbers per channel.
inline value batch_statistics(graph& g, value x, std::int64_t axis = 1) {
    const value mean = g.add(ops::batch_statistics{axis}, {x});
    mean.producer->keep = true;
    return mean;
}
inline value batch_norm(graph& g, value x, value gamma, value beta, ops::batch_norm how = {}) {
    const value mean = batch_statistics(g, x, how.axis);
    return g.add(how, {x, gamma, beta, mean, output(mean, 1)});
}
inline value softmax(graph& g, value x, std::int64_t axis = -1) { return g.add(ops::softmax{axis}, {x}); }

// Losses: the value is the loss [1]; output 1 of `softmax_output` are the probabilities.
inline value softmax_output(graph& g, value scores, value labels, cross_entropy how = {}) {
    if (g.habits() == baseline::paper) how.over_output = false;
    return g.add(ops::softmax_output{how}, {scores, labels});
}
inline value ctc_loss(graph& g, value scores, value labels, double factor = 1) {
    return g.add(ops::ctc_loss{factor}, {scores, labels});
}

// Movement.
inline value embedding(graph& g, value table, value indices) {
    return g.add(ops::embedding{}, {table, indices});
}
inline std::int64_t from_front(const graph& g, const value& v, std::int64_t axis) {
    return static_cast<std::int64_t>(axis_of(g[v].shape, axis));
}
inline value concat(graph& g, std::vector<value> parts, std::int64_t axis) {
    if (parts.empty()) throw echo::error({}, "concat", "of nothing", "give at least one part");
    axis = from_front(g, parts[0], axis);
    return g.add(ops::concat{axis, false}, std::move(parts));
}
/// Joins along a new axis.
inline value stack(graph& g, std::vector<value> parts, std::int64_t axis) {
    return g.add(ops::concat{axis, true}, std::move(parts));
}
inline std::vector<value> split(graph& g, value x, std::vector<std::int64_t> sizes, std::int64_t axis,
                                bool squeeze = false) {
    const std::size_t count = sizes.size();
    const value first = g.add(ops::split{from_front(g, x, axis), std::move(sizes), squeeze}, {x});
    std::vector<value> parts;
    for (std::size_t k = 0; k < count; ++k) parts.push_back(output(first, k));
    return parts;
}
/// MXNet's SliceChannel: `count` equal parts; with `squeeze` each has extent 1 there and the axis goes.
inline std::vector<value> slice_channel(graph& g, value x, std::size_t count, std::int64_t axis = 1,
                                        bool squeeze = false) {
    const auto extent = g[x].shape[axis_of(g[x].shape, axis)];
    return split(g, x, std::vector<std::int64_t>(count, extent / static_cast<std::int64_t>(count)), axis,
                 squeeze);
}
inline value transpose(graph& g, value x, std::vector<std::int64_t> order) {
    return g.add(ops::transpose{std::move(order)}, {x});
}
inline value swap_axes(graph& g, value x, std::int64_t a, std::int64_t b) {
    std::vector<std::int64_t> order(g[x].shape.rank());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::swap(order[axis_of(g[x].shape, a)], order[axis_of(g[x].shape, b)]);
    return transpose(g, x, std::move(order));
}
inline value reshape(graph& g, value x, echo::shape shape) {
    return g.add(ops::reshape{std::move(shape)}, {x});
}
/// [n, ..] → [n, the rest].
inline value flatten(graph& g, value x) {
    const auto n = g[x].shape[0];
    return reshape(g, x, {n, n ? static_cast<std::int64_t>(elements(g[x])) / n : 0});
}
inline value expand_dims(graph& g, value x, std::size_t axis) {
    auto made = extents_of(g[x].shape);
    made.insert(made.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    return reshape(g, x, echo::shape(std::move(made)));
}
inline value tile(graph& g, value x, std::vector<std::int64_t> times) {
    return g.add(ops::tile{std::move(times)}, {x});
}

// Reductions.
inline value reduce_over(graph& g, ops::reduce::kind how, value x, std::vector<std::int64_t> axes,
                         bool keep) {
    for (auto& axis : axes) axis = from_front(g, x, axis);
    std::sort(axes.begin(), axes.end());
    return g.add(ops::reduce{how, std::move(axes), keep}, {x});
}
inline value sum(graph& g, value x, std::vector<std::int64_t> axes, bool keep = false) {
    return reduce_over(g, ops::reduce::sum, x, std::move(axes), keep);
}
inline value mean(graph& g, value x, std::vector<std::int64_t> axes, bool keep = false) {
    return reduce_over(g, ops::reduce::mean, x, std::move(axes), keep);
}
/// Lengths i32 [batch] of sequences i32 [batch, longest] that are padded with 0.
inline value sequence_lengths(graph& g, value tokens) { return g.add(ops::count_nonzero{}, {tokens}); }

// Sequences [steps, batch, ..] with lengths [batch].
inline value sequence_mask(graph& g, value x, value lengths, double number = 0) {
    return g.add(ops::sequence_mask{number}, {x, lengths});
}
inline value sequence_reverse(graph& g, value x, value lengths) {
    return g.add(ops::sequence_reverse{}, {x, lengths});
}
inline value sequence_last(graph& g, value x, value lengths) {
    return g.add(ops::sequence_last{}, {x, lengths});
}

/// Layer normalisation over the last axis out of light ops, as Sockeye has it.
inline value layer_norm(graph& g, value x, value gamma, value beta, double epsilon = 1e-6) {
    const value centred = broadcast_subtract(g, x, mean(g, x, {-1}, true));
    const value variance = mean(g, square(g, centred), {-1}, true);
    const value normal = broadcast_multiply(g, centred, rsqrt(g, shift(g, variance, epsilon)));
    return broadcast_add(g, broadcast_multiply(g, normal, gamma), beta);
}

} // namespace engine
