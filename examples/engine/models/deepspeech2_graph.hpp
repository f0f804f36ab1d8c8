// SPDX-License-Identifier: BSL-1.0
/// @file
/// DeepSpeech2 (Amodei et al., 2016) as MXNet builds it: two convolutions over spectrograms [batch, frames, bands],
/// two stacks of GRU layers, one forward and one backward in time, and a connectionist temporal classification.
#pragma once

#include "engine/models/batch_norm.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace models {

struct deepspeech2_options {
    std::int64_t batch = 24;
    std::int64_t frames = 400;
    std::int64_t bands = 161;
    std::int64_t labels = 40;   ///< of the longest label sequence
    std::int64_t classes = 800; ///< without the blank
    std::int64_t filters = 32;  ///< of a convolution
    std::int64_t layers = 7;    ///< in each direction
    std::int64_t hidden = 1760;

    /// Time steps behind the convolutions.
    std::int64_t steps() const { return (frames - 11) / 2 + 1 - 10; }
};

/// Errors: sizes below 1, too few frames or bands for the convolutions, too few time steps for the labels.
inline void check(const deepspeech2_options& o) {
    for (const auto& [key, number] : {std::pair<const char*, std::int64_t>{"batch", o.batch},
                                      {"labels", o.labels},
                                      {"classes", o.classes},
                                      {"filters", o.filters},
                                      {"layers", o.layers},
                                      {"hidden", o.hidden}})
        if (number < 1) throw echo::error({}, key, "is " + std::to_string(number), "give 1 or more");
    if (o.frames < 31)
        throw echo::error({}, "frames", std::to_string(o.frames) + " leave no time step", "give 31 or more");
    if (o.bands < 81)
        throw echo::error({}, "bands", std::to_string(o.bands) + " leave nothing behind the convolutions",
                          "give 81 or more");
    if (2 * o.labels - 1 > o.steps()) // equal neighbours need a blank between them
        throw echo::error({}, "labels",
                          std::to_string(o.labels) + " do not always fit " + std::to_string(o.steps()) +
                              " time steps",
                          "give fewer labels or more frames");
}

/// The values of the forward graph that are asked for from outside.
struct deepspeech2_values {
    engine::value sound;  ///< [batch, frames, bands]
    engine::value labels; ///< i32 [batch, labels]; 0 behind the end
    engine::value scores; ///< [steps, batch, classes + 1] before the softmax; class 0 is the blank
    engine::value loss;   ///< [1]
};

namespace detail {

/// Builds the forward graph piece by piece.
class deepspeech2_builder {
public:
    deepspeech2_builder(engine::graph& g, const deepspeech2_options& o) : graph_(g), options_(o) {}

    deepspeech2_values build() {
        engine::graph& g = graph_;
        const auto& o = options_;
        check(o);
        const auto sound = engine::data(g, "sound", engine::f32({o.batch, o.frames, o.bands}));
        const auto labels = engine::data(g, "labels", engine::i32({o.batch, o.labels}));
        const auto in = convolutions(sound);
        const auto ahead = stack("forward", in, false);
        const auto back = stack("backward", in, true);
        const auto scores = classify(ahead, back);
        const engine::graph::in_layer layer(g, "output");
        const auto loss = engine::named(g, "ctc", engine::ctc_loss(g, scores, labels));
        g.results().push_back(loss);
        return {sound, labels, scores, loss};
    }

private:
    using values = std::vector<engine::value>;
    static constexpr engine::ops::batch_norm how{.epsilon = 1e-3};

    engine::value weights(const std::string& name, echo::shape shape) {
        double fan_in = 1;
        for (std::size_t i = 1; i < shape.rank(); ++i) fan_in *= static_cast<double>(shape[i]);
        return engine::parameter(graph_, name, std::move(shape),
                                 {engine::initial::uniform, std::sqrt(2.34 / fan_in)});
    }
    std::string at(std::size_t step) const { return "t" + std::to_string(step); }

    /// [batch, frames, bands] → time steps of [batch, features].
    values convolutions(engine::value sound) {
        engine::graph& g = graph_;
        const auto& o = options_;
        auto x = engine::reshape(g, sound, {o.batch, 1, o.frames, o.bands});
        const auto convolve = [&](const std::string& name, const engine::pair& kernel,
                                  const engine::pair& stride) {
            const engine::graph::in_layer layer(g, name);
            const auto w = weights(name + ".weight", {o.filters, g[x].shape[1], kernel[0], kernel[1]});
            x = engine::named(g, name, engine::convolution(g, x, w, {.stride = stride}));
            x = engine::named(g, name + ".relu", engine::relu(g, x));
            x = normalise(g, name + ".bn", x, affine::make(g, name + ".bn", o.filters), how);
        };
        convolve("conv1", {11, 41}, {2, 2});
        convolve("conv2", {11, 21}, {1, 2});
        const engine::graph::in_layer layer(g, "conv2");
        x = engine::transpose(g, x, {0, 2, 1, 3});
        const auto& shape = g[x].shape;
        x = engine::reshape(g, x, {o.batch, shape[1], shape[2] * shape[3]});
        return engine::slice_channel(g, x, static_cast<std::size_t>(o.steps()), 1, true);
    }

    /// Parameters of a GRU layer, for all its time steps.
    struct cell {
        std::string name;
        engine::value gates_wx, gates_bx, gates_wh, gates_bh, change_wx, change_bx, change_wh, change_bh;
        affine norm;
    };
    cell make_cell(const std::string& name, std::int64_t inputs) {
        engine::graph& g = graph_;
        const auto h = options_.hidden;
        const engine::graph::scope scope(g, name);
        const auto bias = [&](const char* which, std::int64_t n) { return parameter(g, which, {n}, {}); };
        cell c;
        c.name = name;
        c.gates_wx = weights("gates_i2h.weight", {2 * h, inputs});
        c.gates_bx = bias("gates_i2h.bias", 2 * h);
        c.gates_wh = weights("gates_h2h.weight", {2 * h, h});
        c.gates_bh = bias("gates_h2h.bias", 2 * h);
        c.change_wx = weights("change_i2h.weight", {h, inputs});
        c.change_bx = bias("change_i2h.bias", h);
        c.change_wh = weights("change_h2h.weight", {h, h});
        c.change_bh = bias("change_h2h.bias", h);
        c.norm = affine::make(g, "bn", 2 * h);
        return c;
    }

    /// One time step: h' = h + update · (change − h).
    engine::value step(const cell& c, engine::value x, engine::value h) {
        engine::graph& g = graph_;
        const auto fc = [&](const char* name, engine::value in, engine::value w, engine::value b) {
            return engine::named(g, name, engine::fully_connected(g, in, w, b));
        };
        const auto i2h = normalise(g, "bn", fc("gates_i2h", x, c.gates_wx, c.gates_bx), c.norm, how);
        const auto h2h = fc("gates_h2h", h, c.gates_wh, c.gates_bh);
        const auto gates = engine::slice_channel(g, engine::add(g, i2h, h2h), 2);
        const auto update = engine::named(g, "update", engine::sigmoid(g, gates[0]));
        const auto reset = engine::named(g, "reset", engine::sigmoid(g, gates[1]));
        const auto from_x = fc("change_i2h", x, c.change_wx, c.change_bx);
        const auto kept = engine::multiply(g, h, reset);
        const auto from_h = fc("change_h2h", kept, c.change_wh, c.change_bh);
        const auto change = engine::named(g, "change", engine::tanh(g, engine::add(g, from_x, from_h)));
        const auto difference = engine::subtract(g, change, h);
        return engine::named(g, "state", engine::add(g, h, engine::multiply(g, update, difference)));
    }

    /// All layers in one direction; a step runs through all of them before the next. In the order of time.
    values stack(const std::string& direction, const values& in, bool reversed) {
        engine::graph& g = graph_;
        std::vector<cell> cells;
        values states;
        for (std::int64_t l = 0; l < options_.layers; ++l) {
            const auto name = direction + ".l" + std::to_string(l);
            const engine::graph::in_layer layer(g, name);
            cells.push_back(make_cell(name, l ? options_.hidden : g[in[0]].shape[1]));
            const auto start = engine::zeros(g, {options_.batch, options_.hidden});
            states.push_back(engine::named(g, name + ".start", start));
        }
        values out(in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
            const auto t = reversed ? in.size() - 1 - i : i;
            auto x = in[t];
            for (std::size_t l = 0; l < cells.size(); ++l) {
                const engine::graph::scope scope(g, cells[l].name + "." + at(t));
                const engine::graph::in_layer layer(g, cells[l].name);
                x = states[l] = step(cells[l], x, states[l]);
            }
            out[t] = x;
        }
        return out;
    }

    /// [steps, batch, classes + 1] from both directions.
    engine::value classify(const values& ahead, const values& back) {
        engine::graph& g = graph_;
        const auto h = options_.hidden, classes = options_.classes + 1;
        engine::value fc_w;
        affine norm;
        {
            const engine::graph::in_layer layer(g, "fc");
            fc_w = weights("fc.weight", {h, 2 * h});
            norm = affine::make(g, "fc.bn", h);
        }
        const engine::graph::in_layer output(g, "output");
        const auto out_w = weights("output.weight", {classes, h});
        const auto out_b = engine::parameter(g, "output.bias", {classes}, {});
        values scores;
        for (std::size_t t = 0; t < ahead.size(); ++t) {
            engine::value x;
            {
                const engine::graph::in_layer layer(g, "fc");
                const engine::graph::scope scope(g, "fc." + at(t));
                x = engine::named(g, "join", engine::concat(g, {ahead[t], back[t]}, 1));
                x = engine::named(g, "i2h", engine::fully_connected(g, x, fc_w));
                x = engine::named(g, "relu", engine::relu(g, normalise(g, "bn", x, norm, how)));
            }
            x = engine::fully_connected(g, x, out_w, out_b);
            scores.push_back(engine::named(g, "output." + at(t), x));
        }
        return engine::named(g, "scores", engine::stack(g, scores, 0));
    }

    engine::graph& graph_;
    const deepspeech2_options& options_;
};

} // namespace detail

/// Appends the forward graph; the loss becomes a result. Layers are `conv1`, `conv2`, `forward.l0`, …, `backward.l0`,
/// …, `fc`, `output`. Errors: those of `check`.
inline deepspeech2_values build_deepspeech2(engine::graph& g, const deepspeech2_options& o) {
    return detail::deepspeech2_builder(g, o).build();
}

} // namespace models
