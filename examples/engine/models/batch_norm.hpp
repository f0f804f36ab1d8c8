// SPDX-License-Identifier: BSL-1.0
/// @file
/// Batch normalisation as the image and speech models use it: parameters, the op, and running statistics that a step
/// updates once, however often the op runs.
#pragma once

#include "engine/build.hpp"
#include "engine/optimizer.hpp"

#include <string>

namespace models {

/// Scale and shift of a batch normalisation; several may share them.
struct affine {
    engine::value gamma, beta;

    static affine make(engine::graph& g, const std::string& name, std::int64_t channels) {
        const auto gamma = engine::parameter(g, name + ".gamma", {channels}, {engine::initial::constant, 1});
        return {gamma, engine::parameter(g, name + ".beta", {channels}, {})};
    }
    /// With a gamma of 1 that is not trained.
    static affine make_fixed(engine::graph& g, const std::string& name, std::int64_t channels) {
        const auto gamma = engine::state(g, name + ".gamma", {channels}, {engine::initial::constant, 1});
        return {gamma, engine::parameter(g, name + ".beta", {channels}, {})};
    }
};

/// The node `name`: x normalised along axis 1, with running statistics of its own (`name.moving_mean`,
/// `name.moving_variance`).
inline engine::value normalise(engine::graph& g, const std::string& name, engine::value x, const affine& by,
                               const engine::ops::batch_norm& how, double momentum = 0.9) {
    const auto y = engine::named(g, name, engine::batch_norm(g, x, by.gamma, by.beta, how));
    const auto channels = g[x].shape[1];
    const auto mean = engine::state(g, name + ".moving_mean", {channels});
    const auto variance =
        engine::state(g, name + ".moving_variance", {channels}, {engine::initial::constant, 1});
    engine::track_statistics(g, y, mean, variance, momentum);
    return y;
}

} // namespace models
