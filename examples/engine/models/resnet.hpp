// SPDX-License-Identifier: BSL-1.0
/// @file
/// ResNet as a model to train: its graph, its presets, and a generated task, coloured shapes to classify.
#pragma once

#include "engine/models/metrics.hpp"
#include "engine/models/resnet_graph.hpp"
#include "engine/models/shapes.hpp"
#include "engine/residents.hpp"

#include <string_view>

namespace models {

class resnet {
public:
    static constexpr std::string_view name = "resnet";
    static constexpr std::string_view metric_name = "accuracy";

    /// `tiny` steps in a fraction of a second, `small` has at least 2 GB of feature maps, `paper` has the paper's
    /// sizes. Errors: no such preset.
    static resnet_options preset(std::string_view called) {
        if (called == "tiny") return {.depth = 50, .batch = 16, .image = 32, .classes = 8, .filters = 8};
        if (called == "small") return {.depth = 50, .batch = 32, .image = 224, .classes = 8};
        if (called == "paper") return {};
        throw echo::error({}, "preset", "resnet has no '" + std::string(called) + "'",
                          "give tiny, small or paper");
    }
    /// Gradient descent with momentum; gradients are clipped, since generated tasks begin at the full rate.
    static engine::training optimizer() {
        return {.how = engine::training::sgd, .with_sgd = {.rate = 0.05, .decay = 1e-4}, .clip = 5};
    }

    /// Appends the forward graph. Errors: those of `build_resnet`.
    explicit resnet(engine::graph& g, const resnet_options& o = {}, std::uint64_t seed = 1)
        : values_(build_resnet(g, o)), task_(o.image, o.classes, seed) {}

    const resnet_values& values() const noexcept { return values_; }
    engine::value loss() const noexcept { return values_.loss; }
    /// What `metric` reads after a step: to be a result of the graph, where it is asked for.
    engine::value watched() const noexcept { return values_.probabilities; }

    /// Draws the data of a step.
    void fill(engine::residents& outside, std::uint64_t step) const {
        task_.draw(step, outside.f32(values_.images), outside.i32(values_.labels));
    }
    /// The part of the step's images that was classified as it should be.
    double metric(engine::residents& outside, std::span<const float> watched) const {
        return accuracy(watched, outside.i32(values_.labels));
    }

private:
    resnet_values values_;
    shapes task_;
};

} // namespace models
