// SPDX-License-Identifier: BSL-1.0
/// @file
/// The Transformer (Vaswani et al., 2017) as Sockeye builds it, op by op: a block normalises first and adds to its
/// input behind a dropout. Layers: `embedding`, `attention` (with the norm behind the encoder), `feed-forward`,
/// `output` (with the norm behind the decoder); nodes are named like `encoder.l1.self.softmax`,
/// `decoder.l0.cross.query`.
#pragma once

#include "engine/models/pieces.hpp"

#include <span>
#include <vector>

namespace models {

/// Defaults: WMT16 English to German.
struct transformer_options {
    std::int64_t batch = 64;
    std::int64_t source_length = 100, target_length = 100; ///< of the bucket
    std::int64_t source_vocabulary = 36500, target_vocabulary = 36500;
    std::int64_t encoder_layers = 6, decoder_layers = 6;
    std::int64_t hidden = 512, heads = 8, feed_forward = 2048;
    double attention_dropout = 0.1,
           relu_dropout = 0.1;  ///< of attention's weights, of the feed-forward's relu
    double block_dropout = 0.1; ///< of embeddings, and of what a block adds
    double smoothing = 0.1;     ///< of the labels
    models::tied tied = models::tied::all;
    std::string data{}; ///< a file of lines `source<TAB>target`; empty: sentences to reverse
};

/// Errors: sizes below 1, a `hidden` that does not split into heads or into sines and cosines, rates not in [0, 1),
/// embeddings that cannot be tied.
inline void check(const transformer_options& o) {
    expect_sizes({{"batch", o.batch},
                  {"source_length", o.source_length},
                  {"target_length", o.target_length},
                  {"source_vocabulary", o.source_vocabulary},
                  {"target_vocabulary", o.target_vocabulary},
                  {"encoder_layers", o.encoder_layers},
                  {"decoder_layers", o.decoder_layers},
                  {"hidden", o.hidden},
                  {"heads", o.heads},
                  {"feed_forward", o.feed_forward}});
    expect_parts({{"attention_dropout", o.attention_dropout},
                  {"relu_dropout", o.relu_dropout},
                  {"block_dropout", o.block_dropout},
                  {"smoothing", o.smoothing}});
    if (o.hidden % o.heads)
        throw echo::error({}, "heads",
                          std::to_string(o.hidden) + " does not split into " + std::to_string(o.heads),
                          "give a divisor of hidden");
    if (o.hidden % 2)
        throw echo::error({}, "hidden",
                          std::to_string(o.hidden) + " does not halve into sines and cosines of positions",
                          "give an even number");
    expect_tied(o.tied, o.source_vocabulary, o.target_vocabulary, o.hidden, o.hidden);
}

struct transformer_values : translation_values {
    /// Of source and target: [1, length, hidden], to be filled by `write_positions`.
    engine::value source_positions{}, target_positions{};
};

/// Sines in the first half of each row, cosines in the second: [1, length, hidden].
inline void write_positions(std::span<float> positions, std::int64_t length) {
    const auto rows = static_cast<std::size_t>(length), hidden = positions.size() / rows, half = hidden / 2;
    for (std::size_t t = 0; t < rows; ++t)
        for (std::size_t k = 0; k < half; ++k) {
            const double exponent = 2 * static_cast<double>(k) / static_cast<double>(hidden);
            const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
            positions[t * hidden + k] = static_cast<float>(std::sin(angle));
            positions[t * hidden + half + k] = static_cast<float>(std::cos(angle));
        }
}

namespace detail {

/// Builds the forward graph piece by piece. Feature maps are [batch, length, hidden] where nothing else is said.
class transformer_builder {
public:
    transformer_builder(engine::graph& g, const transformer_options& o) : graph_(g), options_(o) {}

    transformer_values build() {
        engine::graph& g = graph_;
        const auto& o = options_;
        check(o);
        transformer_values v{translation_values::make(g, o.batch, o.source_length, o.target_length)};
        v.source_positions = engine::data(g, "source.positions", engine::f32({1, o.source_length, o.hidden}));
        v.target_positions = engine::data(g, "target.positions", engine::f32({1, o.target_length, o.hidden}));
        source_lengths_ = engine::named(g, "source.lengths", engine::sequence_lengths(g, v.source));
        target_lengths_ = engine::named(g, "target.lengths", engine::sequence_lengths(g, v.target));
        table_ = table("source", o.source_vocabulary);
        const auto memory = encode(embed("source", v.source, v.source_positions));
        if (o.tied == tied::none) table_ = table("target", o.target_vocabulary);
        const auto x = decode(embed("target", v.target, v.target_positions), memory);
        const in_layer layer(g, "output");
        const auto w =
            o.tied == tied::all ? table_ : weights(g, "output.weight", o.target_vocabulary, o.hidden);
        const auto y = layer_norm::make(g, "decoder.norm", o.hidden)(g, x);
        const auto rows =
            engine::named(g, "output.reshape", engine::reshape(g, y, {o.batch * o.target_length, o.hidden}));
        v.classify(g, rows, w, o.smoothing);
        return v;
    }

private:
    using in_layer = engine::graph::in_layer;
    using scope = engine::graph::scope;

    engine::value table(const std::string& side, std::int64_t words) {
        const in_layer layer(graph_, "embedding");
        return weights(graph_, side + ".embedding.weight", words, options_.hidden);
    }
    engine::value drop(const std::string& name, engine::value x, double rate) {
        if (rate == 0) return x;
        return engine::named(graph_, name, engine::dropout(graph_, x, rate));
    }

    /// i32 [batch, length] → a feature map.
    engine::value embed(const std::string& side, engine::value tokens, engine::value positions) {
        engine::graph& g = graph_;
        const in_layer layer(g, "embedding");
        const scope named(g, side);
        auto x = engine::named(g, "embedding", engine::embedding(g, table_, tokens));
        x = engine::named(g, "scale", engine::scale(g, x, std::sqrt(static_cast<double>(options_.hidden))));
        x = engine::named(g, "place", engine::broadcast_add(g, x, positions));
        return drop("dropout", x, options_.block_dropout);
    }

    /// → [batch · heads, length, hidden / heads].
    engine::value split_heads(const std::string& name, engine::value x) {
        engine::graph& g = graph_;
        const scope named(g, name);
        const auto b = options_.batch, h = options_.heads, t = g[x].shape[1], d = options_.hidden / h;
        x = engine::named(g, "split", engine::reshape(g, x, {b, t, h, d}));
        x = engine::named(g, "transpose", engine::transpose(g, x, {0, 2, 1, 3}));
        return engine::named(g, "heads", engine::reshape(g, x, {b * h, t, d}));
    }
    engine::value join_heads(engine::value x) {
        engine::graph& g = graph_;
        const auto b = options_.batch, h = options_.heads, t = g[x].shape[1];
        x = engine::named(g, "split", engine::reshape(g, x, {b, h, t, options_.hidden / h}));
        x = engine::named(g, "transpose", engine::transpose(g, x, {0, 2, 1, 3}));
        return engine::named(g, "join", engine::reshape(g, x, {b, t, options_.hidden}));
    }
    /// Scores [batch · heads, queries, keys] without those of keys behind the end of their sentence.
    engine::value mask(engine::value x, engine::value lengths) {
        engine::graph& g = graph_;
        const auto b = options_.batch, h = options_.heads, q = g[x].shape[1], k = g[x].shape[2];
        x = engine::named(g, "mask.split", engine::reshape(g, x, {b, h * q, k}));
        x = engine::named(g, "mask.time_major", engine::transpose(g, x, {2, 0, 1}));
        x = engine::named(g, "mask", engine::sequence_mask(g, x, lengths, -1e8));
        x = engine::named(g, "mask.batch_major", engine::transpose(g, x, {1, 2, 0}));
        return engine::named(g, "mask.join", engine::reshape(g, x, {b * h, q, k}));
    }
    /// Attention by all heads. `bias` is added to the scores where there is one.
    engine::value attend(engine::value queries, engine::value keys, engine::value values,
                         engine::value lengths, const std::optional<engine::value>& bias) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const double shrink = 1 / std::sqrt(static_cast<double>(o.hidden / o.heads));
        const auto scaled = engine::named(g, "queries.scale", engine::scale(g, queries, shrink));
        const auto q = split_heads("queries", scaled);
        const auto k = split_heads("keys", keys);
        const auto v = split_heads("values", values);
        auto x = engine::named(g, "scores", engine::batch_dot(g, q, k, false, true));
        x = mask(x, lengths);
        if (bias) x = engine::named(g, "ahead", engine::broadcast_add(g, x, *bias));
        x = engine::named(g, "softmax", engine::softmax(g, x));
        x = drop("softmax.dropout", x, o.attention_dropout);
        x = engine::named(g, "contexts", engine::batch_dot(g, x, v));
        return join_heads(x);
    }

    /// What a block makes of x, dropped and added to x.
    engine::value add_to(engine::value x, engine::value made) {
        made = drop("dropout", made, options_.block_dropout);
        return engine::named(graph_, "add", engine::add(graph_, made, x));
    }
    engine::value normal(engine::value x) {
        return layer_norm::make(graph_, "norm", options_.hidden)(graph_, x);
    }
    engine::value self_attention(engine::value x, engine::value lengths,
                                 const std::optional<engine::value>& bias) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const in_layer layer(g, "attention");
        const scope named(g, "self");
        const auto from = normal(x);
        const auto in = dense::make(g, "i2h", 3 * o.hidden, o.hidden);
        const auto all = in(g, from);
        const auto parts = engine::slice_channel(g, all, 3, 2);
        engine::named(g, "slice", parts[0]);
        const auto context = attend(parts[0], parts[1], parts[2], lengths, bias);
        const auto out = dense::make(g, "h2o", o.hidden, o.hidden);
        return add_to(x, out(g, context));
    }
    engine::value cross_attention(engine::value x, engine::value memory) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const in_layer layer(g, "attention");
        const scope named(g, "cross");
        const auto from = normal(x);
        const auto in = dense::make(g, "memory", 2 * o.hidden, o.hidden);
        const auto both = in(g, memory);
        const auto parts = engine::slice_channel(g, both, 2, 2);
        engine::named(g, "slice", parts[0]);
        const auto query = dense::make(g, "query", o.hidden, o.hidden);
        const auto context = attend(query(g, from), parts[0], parts[1], source_lengths_, {});
        const auto out = dense::make(g, "h2o", o.hidden, o.hidden);
        return add_to(x, out(g, context));
    }
    engine::value feed_forward(engine::value x) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const in_layer layer(g, "feed-forward");
        const scope named(g, "feed_forward");
        const auto from = normal(x);
        const auto in = dense::make(g, "i2h", o.feed_forward, o.hidden);
        auto y = in(g, from);
        y = engine::named(g, "relu", engine::relu(g, y));
        y = drop("relu.dropout", y, o.relu_dropout);
        const auto out = dense::make(g, "h2o", o.hidden, o.feed_forward);
        return add_to(x, out(g, y));
    }

    engine::value encode(engine::value x) {
        const scope encoder(graph_, "encoder");
        for (std::int64_t l = 0; l < options_.encoder_layers; ++l) {
            const scope named(graph_, "l" + std::to_string(l));
            x = self_attention(x, source_lengths_, {});
            x = feed_forward(x);
        }
        const in_layer layer(graph_, "attention");
        return normal(x);
    }
    engine::value decode(engine::value x, engine::value memory) {
        const scope decoder(graph_, "decoder");
        engine::value bias;
        {
            const in_layer layer(graph_, "attention");
            bias = engine::named(graph_, "bias", engine::causal_mask(graph_, options_.target_length));
        }
        for (std::int64_t l = 0; l < options_.decoder_layers; ++l) {
            const scope named(graph_, "l" + std::to_string(l));
            x = self_attention(x, target_lengths_, bias);
            x = cross_attention(x, memory);
            x = feed_forward(x);
        }
        return x;
    }

    engine::graph& graph_;
    transformer_options options_;
    engine::value source_lengths_{}, target_lengths_{}, table_{};
};

} // namespace detail

/// Appends the forward graph; the loss is its last result. Errors: those of `check`.
inline transformer_values build_transformer(engine::graph& g, const transformer_options& o = {}) {
    return detail::transformer_builder(g, o).build();
}

} // namespace models
