// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the translation models share: parameters, dense layers, layer normalisation, LSTM cells, the loss. Names are
/// those of the scope they are made in.
#pragma once

#include "engine/build.hpp"

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace models {

/// Which matrices [vocabulary, embed] are one.
enum class tied : std::uint8_t {
    none,
    embeddings, ///< those of source and target
    all         ///< and that of the output layer
};

/// Errors: a size below 1.
inline void expect_sizes(std::initializer_list<std::pair<const char*, std::int64_t>> sizes) {
    for (const auto& [key, number] : sizes)
        if (number < 1) throw echo::error({}, key, "is " + std::to_string(number), "give 1 or more");
}
/// Errors: a part that is not in [0, 1).
inline void expect_parts(std::initializer_list<std::pair<const char*, double>> parts) {
    for (const auto& [key, number] : parts)
        if (!(number >= 0 && number < 1))
            throw echo::error({}, key, "is " + std::to_string(number), "give 0 or more, below 1");
}
/// Errors: vocabularies that cannot be one, or an embedding that cannot be the output layer's.
inline void expect_tied(tied how, std::int64_t source, std::int64_t target, std::int64_t embed,
                        std::int64_t hidden) {
    if (how != tied::none && source != target)
        throw echo::error({}, "tied",
                          "vocabularies of " + std::to_string(source) + " and " + std::to_string(target) +
                              " cannot share an embedding",
                          "give vocabularies of one size or tie nothing");
    if (how == tied::all && embed != hidden)
        throw echo::error({}, "tied",
                          "an embedding of " + std::to_string(embed) +
                              " cannot be the output's weights over " + std::to_string(hidden),
                          "give embed the size of hidden or tie embeddings only");
}

/// A matrix [out, in], Glorot's uniform over its inputs.
inline engine::value weights(engine::graph& g, const std::string& name, std::int64_t out, std::int64_t in) {
    return engine::parameter(g, name, {out, in},
                             {engine::initial::uniform, std::sqrt(3 / static_cast<double>(in))});
}

/// A dense layer over the last axis: parameters `name.weight` and `name.bias`, nodes `name`.
struct dense {
    std::string name;
    engine::value w, b;

    static dense make(engine::graph& g, const std::string& name, std::int64_t out, std::int64_t in) {
        const auto w = weights(g, name + ".weight", out, in);
        return {name, w, engine::parameter(g, name + ".bias", {out}, {})};
    }
    engine::value operator()(engine::graph& g, engine::value x) const {
        return engine::named(g, name, engine::fully_connected(g, x, w, b));
    }
};

/// Layer normalisation over the last axis of light ops, as Sockeye has it: x − mean stands there twice.
struct layer_norm {
    std::string name;
    engine::value gamma, beta;

    static layer_norm make(engine::graph& g, const std::string& name, std::int64_t extent) {
        const auto gamma = engine::parameter(g, name + ".gamma", {extent}, {engine::initial::constant, 1});
        return {name, gamma, engine::parameter(g, name + ".beta", {extent}, {})};
    }
    engine::value operator()(engine::graph& g, engine::value x, double epsilon = 1e-6) const {
        const engine::graph::scope scope(g, name);
        const auto mean = engine::named(g, "mean", engine::mean(g, x, {-1}, true));
        const auto deviation = engine::named(g, "deviation", engine::broadcast_subtract(g, x, mean));
        const auto squares = engine::named(g, "square", engine::square(g, deviation));
        const auto variance = engine::named(g, "variance", engine::mean(g, squares, {-1}, true));
        const auto centred = engine::named(g, "centred", engine::broadcast_subtract(g, x, mean));
        const auto shifted = engine::named(g, "shifted", engine::shift(g, variance, epsilon));
        const auto inverse = engine::named(g, "rsqrt", engine::rsqrt(g, shifted));
        const auto normal = engine::named(g, "normal", engine::broadcast_multiply(g, centred, inverse));
        const auto scaled = engine::named(g, "scaled", engine::broadcast_multiply(g, normal, gamma));
        return engine::named(g, "out", engine::broadcast_add(g, scaled, beta));
    }
};

/// State of an LSTM layer: what it shows and its memory.
struct lstm_state {
    engine::value h, c;
};

/// An unfused LSTM cell (Hochreiter and Schmidhuber, 1997); all its steps share the parameters.
struct lstm {
    dense i2h, h2h;

    static lstm make(engine::graph& g, std::int64_t inputs, std::int64_t hidden) {
        dense i2h = dense::make(g, "i2h", 4 * hidden, inputs);
        return {std::move(i2h), dense::make(g, "h2h", 4 * hidden, hidden)};
    }
    lstm_state operator()(engine::graph& g, engine::value x, const lstm_state& last) const {
        const auto from_x = i2h(g, x);
        const auto from_h = h2h(g, last.h);
        const auto sum = engine::named(g, "gates", engine::add(g, from_x, from_h));
        const auto gates = engine::slice_channel(g, sum, 4);
        engine::named(g, "slice", gates[0]);
        const auto in = engine::named(g, "in", engine::sigmoid(g, gates[0]));
        const auto forget = engine::named(g, "forget", engine::sigmoid(g, gates[1]));
        const auto change = engine::named(g, "change", engine::tanh(g, gates[2]));
        const auto out = engine::named(g, "out", engine::sigmoid(g, gates[3]));
        const auto kept = engine::named(g, "kept", engine::multiply(g, forget, last.c));
        const auto added = engine::named(g, "added", engine::multiply(g, in, change));
        const auto c = engine::named(g, "c", engine::add(g, kept, added));
        const auto shown = engine::named(g, "tanh", engine::tanh(g, c));
        return {engine::named(g, "h", engine::multiply(g, out, shown)), c};
    }
};

/// The values of a translation model that are asked for from outside.
struct translation_values {
    engine::value source;         ///< i32 [batch, source length]; 0 behind the end, as in the others
    engine::value target, labels; ///< i32 [batch, target length]
    engine::value loss;           ///< [1], per label
    engine::value probabilities;  ///< [batch · target length, target vocabulary]

    /// The data of a bucket; loss and probabilities are still to come.
    static translation_values make(engine::graph& g, std::int64_t batch, std::int64_t source_length,
                                   std::int64_t target_length) {
        translation_values v{};
        v.source = engine::data(g, "source", engine::i32({batch, source_length}));
        v.target = engine::data(g, "target", engine::i32({batch, target_length}));
        v.labels = engine::data(g, "labels", engine::i32({batch, target_length}));
        return v;
    }
    /// Loss and probabilities from hidden [batch · target length, ..] by the output layer's matrix; the loss becomes
    /// a result.
    void classify(engine::graph& g, engine::value hidden, engine::value matrix, double smoothing) {
        const auto b = engine::parameter(g, "output.bias", {g[matrix].shape[0]}, {});
        const auto scores = engine::named(g, "output", engine::fully_connected(g, hidden, matrix, b));
        const auto wanted =
            engine::named(g, "labels.reshape", engine::reshape(g, labels, {g[hidden].shape[0]}));
        loss = engine::named(
            g, "softmax", engine::softmax_output(g, scores, wanted, {.ignore = 0, .smoothing = smoothing}));
        probabilities = engine::output(loss, 1);
        g.results().push_back(loss);
    }
};

} // namespace models
