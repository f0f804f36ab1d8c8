// SPDX-License-Identifier: BSL-1.0
/// @file
/// What turns a forward graph into a training graph: gradients, clipping, the optimizer's updates.
#pragma once

#include "engine/build.hpp"

#include <functional>

namespace engine {

struct training {
    enum kind { sgd, adam };
    kind how = sgd;
    ops::sgd with_sgd{};
    ops::adam with_adam{};
    double clip = 0; ///< largest norm of all gradients together; 0: not clipped
    /// As MXNET_BACKWARD_DO_MIRROR has it; empty: nothing is mirrored.
    std::function<bool(node* const&)> mirror{};
};

/// A parameter and its gradient of the last step, both resident.
struct trained {
    value parameter, gradient;
};

/// Updates running statistics from those that a `batch_norm` was given, once a step.
inline void track_statistics(graph& g, value normalised, value mean, value variance, double momentum = 0.9) {
    const graph::in_phase update(g, echo::phase::update);
    g.add(ops::update_statistics{momentum}, {mean, normalised.producer->inputs[3]});
    g.add(ops::update_statistics{momentum}, {variance, normalised.producer->inputs[4]});
}

/// Appends gradients of `loss` and the updates of all parameters it depends on; the loss becomes the graph's first
/// result. Nodes of the update phase that are there already move behind the gradients. Errors: those of
/// `echo::gradient`; no parameter is reached.
std::vector<trained> train(graph& g, value loss, const training& how = {});

} // namespace engine
