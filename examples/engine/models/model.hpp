// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a trainer asks of a model, and any model with its type forgotten.
#pragma once

#include "engine/optimizer.hpp"
#include "engine/residents.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace models {

/// A model that appends its forward graph when it is made: `M(graph, options, seed)`.
///   M::name, M::metric_name     words for reports
///   M::preset(called)           options of that name, with a `batch`; refuses others
///   M::optimizer()              how it is trained best
///   m.loss()                    [1]
///   m.watched()                 f32: what `metric` reads after a step, to be a result of the graph where it is wanted
///   m.fill(outside, step)       the data of a step, the same for the same seed and step
///   m.metric(outside, watched)  how good the step's answers are
/// Options with a member `data` take the name of a file to train on; without it the task is generated.
/// Models: `nmt`, `deepspeech2`, `transformer`, `resnet`.
template <class M>
concept trainable = requires(const M& m, engine::residents& outside, std::uint64_t step,
                             std::span<const float> watched, std::string_view called, engine::graph& g) {
    { M::name } -> std::convertible_to<std::string_view>;
    { M::metric_name } -> std::convertible_to<std::string_view>;
    { M::preset(called).batch } -> std::convertible_to<std::int64_t>;
    { M::optimizer() } -> std::same_as<engine::training>;
    M(g, M::preset(called), step);
    { m.loss() } -> std::same_as<engine::value>;
    { m.watched() } -> std::same_as<engine::value>;
    m.fill(outside, step);
    { m.metric(outside, watched) } -> std::same_as<double>;
};

/// Any trainable model, its forward graph built.
struct model {
    std::string_view name, metric_name;
    engine::training optimizer;
    engine::value loss, watched;
    std::function<void(engine::residents&, std::uint64_t step)> fill;
    std::function<double(engine::residents&, std::span<const float> watched)> metric;

    /// Appends the forward graph of an `M`. Errors: those of `M`.
    template <trainable M, class Options>
    static model make(engine::graph& g, const Options& options, std::uint64_t seed = 1) {
        const auto built = std::make_shared<const M>(g, options, seed);
        return {
            .name = M::name,
            .metric_name = M::metric_name,
            .optimizer = M::optimizer(),
            .loss = built->loss(),
            .watched = built->watched(),
            .fill = [built](engine::residents& outside, std::uint64_t step) { built->fill(outside, step); },
            .metric = [built](engine::residents& outside,
                              std::span<const float> read) { return built->metric(outside, read); }};
    }
};

} // namespace models
