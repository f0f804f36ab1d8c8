// SPDX-License-Identifier: BSL-1.0
/// @file
/// The LSTM translation model with attention (Bahdanau et al., 2015) as Sockeye builds it, op by op. Layers:
/// `embedding`, `rnn`, `attention`, `output`; nodes are named like `encoder.l1.t12.i2h`, `attention.t3.tanh`.
#pragma once

#include "engine/models/pieces.hpp"

#include <vector>

namespace models {

/// Defaults: IWSLT15, Vietnamese to English.
struct nmt_options {
    std::int64_t batch = 128;
    std::int64_t source_length = 100, target_length = 100; ///< of the bucket
    std::int64_t source_vocabulary = 7710, target_vocabulary = 17192;
    std::int64_t encoder_layers = 2, decoder_layers = 2; ///< the encoder's first runs in both directions
    std::int64_t hidden = 512, embed = 512, attention = 512;
    double embed_dropout = 0, hidden_dropout = 0;
    double smoothing = 0;    ///< of the labels
    bool layer_norm = false; ///< before the tanh of attention, decoder hidden and initial states
    models::tied tied = models::tied::none;
    std::string data{}; ///< a file of lines `source<TAB>target`; empty: sentences to reverse
};

/// Errors: sizes below 1, an odd `hidden`, rates not in [0, 1), embeddings that cannot be tied.
inline void check(const nmt_options& o) {
    expect_sizes({{"batch", o.batch},
                  {"source_length", o.source_length},
                  {"target_length", o.target_length},
                  {"source_vocabulary", o.source_vocabulary},
                  {"target_vocabulary", o.target_vocabulary},
                  {"encoder_layers", o.encoder_layers},
                  {"decoder_layers", o.decoder_layers},
                  {"hidden", o.hidden},
                  {"embed", o.embed},
                  {"attention", o.attention}});
    expect_parts({{"embed_dropout", o.embed_dropout},
                  {"hidden_dropout", o.hidden_dropout},
                  {"smoothing", o.smoothing}});
    if (o.hidden % 2)
        throw echo::error({}, "hidden", std::to_string(o.hidden) + " does not halve into two directions",
                          "give an even number");
    expect_tied(o.tied, o.source_vocabulary, o.target_vocabulary, o.embed, o.hidden);
}

namespace detail {

/// Builds the forward graph piece by piece.
class nmt_builder {
public:
    nmt_builder(engine::graph& g, const nmt_options& o) : graph_(g), options_(o) {}

    translation_values build() {
        engine::graph& g = graph_;
        const auto& o = options_;
        check(o);
        auto v = translation_values::make(g, o.batch, o.source_length, o.target_length);
        lengths_ = engine::named(g, "source.lengths", engine::sequence_lengths(g, v.source));
        const auto encoded = encode(v.source);
        const auto hidden = decode(v.target, encoded);
        classify(v, hidden);
        return v;
    }

private:
    using in_layer = engine::graph::in_layer;
    using scope = engine::graph::scope;
    using values = std::vector<engine::value>;

    static std::string at(std::size_t step) { return "t" + std::to_string(step); }

    /// i32 [batch, length] → [batch, length, embed].
    engine::value embed(const std::string& side, engine::value tokens, engine::value table) {
        engine::graph& g = graph_;
        const auto x = engine::named(g, side + ".embedding", engine::embedding(g, table, tokens));
        if (options_.embed_dropout == 0) return x;
        return engine::named(g, side + ".dropout", engine::dropout(g, x, options_.embed_dropout));
    }

    /// A layer over x [steps, batch, ..] → [steps, batch, hidden].
    engine::value layer(const std::string& name, engine::value x, std::int64_t hidden) {
        engine::graph& g = graph_;
        const scope named(g, name);
        const auto cell = lstm::make(g, g[x].shape[2], hidden);
        const auto steps = engine::slice_channel(g, x, static_cast<std::size_t>(g[x].shape[0]), 0, true);
        engine::named(g, "steps", steps[0]);
        lstm_state state;
        state.h = engine::named(g, "h0", engine::zeros(g, {options_.batch, hidden}));
        state.c = engine::named(g, "c0", engine::zeros(g, {options_.batch, hidden}));
        values out;
        for (std::size_t t = 0; t < steps.size(); ++t) {
            const scope step(g, at(t));
            state = cell(g, steps[t], state);
            out.push_back(engine::named(g, "expand", engine::expand_dims(g, state.h, 0)));
        }
        return engine::named(g, "concat", engine::concat(g, out, 0));
    }

    /// i32 [batch, source length] → [source length, batch, hidden].
    engine::value encode(engine::value source) {
        engine::graph& g = graph_;
        const auto& o = options_;
        engine::value x;
        {
            const in_layer layer(g, "embedding");
            table_ = weights(g, "source.embedding.weight", o.source_vocabulary, o.embed);
            x = embed("source", source, table_);
        }
        const in_layer rnn(g, "rnn");
        const scope encoder(g, "encoder");
        const auto turned = [&](const char* name, engine::value v) {
            return engine::named(g, name, engine::sequence_reverse(g, v, lengths_));
        };
        x = engine::named(g, "time_major", engine::swap_axes(g, x, 0, 1));
        x = turned("reversed", x);
        const auto ahead = layer("l0.forward", x, o.hidden / 2);
        const auto in = turned("l0.reverse.in", x);
        const auto back = turned("l0.reverse.out", layer("l0.reverse", in, o.hidden / 2));
        x = engine::named(g, "l0.concat", engine::concat(g, {ahead, back}, 2));
        for (std::int64_t l = 1; l < o.encoder_layers; ++l) x = layer("l" + std::to_string(l), x, o.hidden);
        return x;
    }

    /// Parameters and values that all steps of the attention share.
    struct attention {
        engine::value memory;                              ///< [batch, source length, hidden]
        engine::value keys;                                ///< [batch, source length, attention]
        engine::value query_weight, score_weight;          ///< without biases
        dense hidden;                                      ///< [batch, 2 hidden] → [batch, hidden]
        std::optional<layer_norm> score_norm, hidden_norm; ///< before the tanhs
    };
    attention attend_to(engine::value encoded) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const in_layer layer(g, "attention");
        const scope named(g, "attention");
        attention a;
        const auto key_weight = weights(g, "source.weight", o.attention, o.hidden);
        a.query_weight = weights(g, "query.weight", o.attention, o.hidden);
        a.score_weight = weights(g, "score.weight", 1, o.attention);
        a.hidden = dense::make(g, "hidden", o.hidden, 2 * o.hidden);
        if (o.layer_norm) {
            a.score_norm = layer_norm::make(g, "score.norm", o.attention);
            a.hidden_norm = layer_norm::make(g, "hidden.norm", o.hidden);
        }
        a.memory = engine::named(g, "memory", engine::swap_axes(g, encoded, 0, 1));
        a.keys = engine::named(g, "source", engine::fully_connected(g, a.memory, key_weight));
        return a;
    }
    /// What the decoder shows at a step, from what its last layer does: both [batch, hidden].
    engine::value attend(const attention& a, engine::value query) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const auto q = engine::named(g, "query", engine::fully_connected(g, query, a.query_weight));
        const auto one = engine::named(g, "expand", engine::expand_dims(g, q, 1));
        auto x = engine::named(g, "add", engine::broadcast_add(g, a.keys, one));
        if (a.score_norm) x = (*a.score_norm)(g, x);
        x = engine::named(g, "tanh", engine::tanh(g, x));
        x = engine::named(g, "score", engine::fully_connected(g, x, a.score_weight));
        x = engine::named(g, "score.time_major", engine::swap_axes(g, x, 0, 1));
        x = engine::named(g, "score.mask", engine::sequence_mask(g, x, lengths_, -1e8));
        x = engine::named(g, "score.batch_major", engine::swap_axes(g, x, 0, 1));
        x = engine::named(g, "weights", engine::softmax(g, x, 1));
        x = engine::named(g, "dot", engine::batch_dot(g, a.memory, x, true));
        const auto context = engine::named(g, "context", engine::reshape(g, x, {o.batch, o.hidden}));
        x = engine::named(g, "concat", engine::concat(g, {query, context}, 1));
        if (o.hidden_dropout > 0)
            x = engine::named(g, "hidden.dropout", engine::dropout(g, x, o.hidden_dropout));
        x = a.hidden(g, x);
        if (a.hidden_norm) x = (*a.hidden_norm)(g, x);
        return engine::named(g, "hidden.tanh", engine::tanh(g, x));
    }

    /// How the decoder's layers begin: h and c of each from the encoder's last step.
    std::vector<lstm_state> begin(engine::value encoded) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const auto last = engine::named(g, "last", engine::sequence_last(g, encoded, lengths_));
        const auto state = [&](const std::string& name) {
            const auto fc = dense::make(g, name, o.hidden, o.hidden);
            auto x = fc(g, last);
            if (o.layer_norm) x = layer_norm::make(g, name + ".norm", o.hidden)(g, x);
            return engine::named(g, name + ".tanh", engine::tanh(g, x));
        };
        std::vector<lstm_state> states;
        for (std::int64_t l = 0; l < o.decoder_layers; ++l) {
            const auto h = state("l" + std::to_string(l) + ".h0");
            states.push_back({h, state("l" + std::to_string(l) + ".c0")});
        }
        return states;
    }

    /// i32 [batch, target length] and the encoder's output → one [batch, 1, hidden] per step.
    values decode(engine::value target, engine::value encoded) {
        engine::graph& g = graph_;
        const auto& o = options_;
        values words;
        {
            const in_layer layer(g, "embedding");
            if (o.tied == tied::none)
                table_ = weights(g, "target.embedding.weight", o.target_vocabulary, o.embed);
            const auto x = embed("target", target, table_);
            words = engine::slice_channel(g, x, static_cast<std::size_t>(o.target_length), 1, true);
            engine::named(g, "target.steps", words[0]);
        }
        const auto a = attend_to(encoded);
        std::vector<lstm> cells;
        std::vector<lstm_state> states;
        engine::value hidden;
        {
            const in_layer rnn(g, "rnn");
            const scope decoder(g, "decoder");
            for (std::int64_t l = 0; l < o.decoder_layers; ++l) {
                const scope named(g, "l" + std::to_string(l));
                cells.push_back(lstm::make(g, l ? o.hidden : o.embed + o.hidden, o.hidden));
            }
            states = begin(encoded);
            const auto zero = engine::named(g, "zero", engine::zeros(g, {o.batch, 1}));
            hidden = engine::named(g, "hidden0", engine::tile(g, zero, {1, o.hidden}));
        }
        values out;
        for (std::size_t t = 0; t < words.size(); ++t) {
            engine::value x;
            {
                const in_layer rnn(g, "rnn");
                x = engine::concat(g, {words[t], hidden}, 1);
                g.rename(x, "decoder." + at(t) + ".concat");
                for (std::size_t l = 0; l < cells.size(); ++l) {
                    const scope step(g, "decoder.l" + std::to_string(l) + "." + at(t));
                    states[l] = cells[l](g, x, states[l]);
                    x = states[l].h;
                }
            }
            const in_layer layer(g, "attention");
            const scope step(g, "attention." + at(t));
            hidden = attend(a, x);
            out.push_back(engine::named(g, "hidden.expand", engine::expand_dims(g, hidden, 1)));
        }
        return out;
    }

    void classify(translation_values& v, const values& hidden) {
        engine::graph& g = graph_;
        const auto& o = options_;
        const in_layer layer(g, "output");
        const auto w =
            o.tied == tied::all ? table_ : weights(g, "output.weight", o.target_vocabulary, o.hidden);
        auto x = engine::named(g, "output.concat", engine::concat(g, hidden, 1));
        x = engine::named(g, "output.reshape", engine::reshape(g, x, {o.batch * o.target_length, o.hidden}));
        v.classify(g, x, w, o.smoothing);
    }

    engine::graph& graph_;
    nmt_options options_;
    engine::value lengths_{}, table_{};
};

} // namespace detail

/// Appends the forward graph; the loss is its last result. Errors: those of `check`.
inline translation_values build_nmt(engine::graph& g, const nmt_options& o = {}) {
    return detail::nmt_builder(g, o).build();
}

} // namespace models
