// SPDX-License-Identifier: BSL-1.0
/// @file
/// DeepSpeech2 as a model to train: its graph, its presets, and a generated task, sequences of sounds to write down.
#pragma once

#include "engine/models/deepspeech2_graph.hpp"
#include "engine/models/metrics.hpp"
#include "engine/models/speech.hpp"
#include "engine/residents.hpp"

#include <string_view>

namespace models {

class deepspeech2 {
public:
    static constexpr std::string_view name = "ds2";
    static constexpr std::string_view metric_name = "label error";

    /// `tiny` steps in a fraction of a second, `small` has at least 2 GB of feature maps, `paper` has the paper's
    /// sizes. Errors: no such preset.
    static deepspeech2_options preset(std::string_view called) {
        if (called == "tiny")
            return {.batch = 16,
                    .frames = 96,
                    .bands = 97,
                    .labels = 4,
                    .classes = 10,
                    .filters = 8,
                    .layers = 2,
                    .hidden = 48};
        if (called == "small") return {.batch = 96, .labels = 16, .classes = 10, .layers = 3, .hidden = 512};
        if (called == "paper") return {};
        throw echo::error({}, "preset", "ds2 has no '" + std::string(called) + "'",
                          "give tiny, small or paper");
    }
    /// Gradient descent with momentum; gradients are clipped, since those of a recurrent network may burst.
    static engine::training optimizer() {
        return {.how = engine::training::sgd, .with_sgd = {.rate = 0.02}, .clip = 5};
    }

    /// Appends the forward graph. Errors: those of `build_deepspeech2`.
    explicit deepspeech2(engine::graph& g, const deepspeech2_options& o = {}, std::uint64_t seed = 1)
        : values_(build_deepspeech2(g, o)), options_(o), task_(o.frames, o.bands, o.labels, o.classes, seed) {
    }

    const deepspeech2_values& values() const noexcept { return values_; }
    engine::value loss() const noexcept { return values_.loss; }
    /// What `metric` reads after a step: to be a result of the graph, where it is asked for.
    engine::value watched() const noexcept { return values_.scores; }

    /// Draws the data of a step.
    void fill(engine::residents& outside, std::uint64_t step) const {
        task_.speak(step, outside.f32(values_.sound), outside.i32(values_.labels));
    }
    /// Edits per label between the best paths and what was said.
    double metric(engine::residents& outside, std::span<const float> watched) const {
        return label_error(watched, outside.i32(values_.labels), static_cast<std::size_t>(options_.batch),
                           static_cast<std::size_t>(options_.classes + 1));
    }

private:
    deepspeech2_values values_;
    deepspeech2_options options_;
    speech task_;
};

} // namespace models
