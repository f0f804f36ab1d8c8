// SPDX-License-Identifier: BSL-1.0
/// @file
/// `evaluator`: how good a model is, by a second graph that runs forward only and without dropout, so that training
/// keeps no byte for it.
#pragma once

#include "engine/session.hpp"
#include "train/prepare.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace train {

template <class Place>
class evaluator {
public:
    static constexpr std::int64_t samples_wanted = 256;

    /// Plans and allocates. Errors: those of the model and of the passes; no room for the graph.
    evaluator(model_request asked, engine::baseline habits, Place& on)
        : graph_(habits), built_(make(graph_, asked)),
          batches_(std::max<std::int64_t>(1, samples_wanted / built_.batch)) {
        const engine::session_options options{.plan = {.how = echo::strategy::baseline},
                                              .memory = {.align = alignment(on.kind), .limit = 0}};
        engine::complete(graph_, on.backend);
        engine::planned p = engine::make_plans(graph_, options);
        on.expect_room(p);
        session_.emplace(graph_, on.backend, options, std::move(p));
    }

    /// The mean over the samples, with the parameters that `trained` has now. The samples are the same every time.
    double operator()(const engine::graph& g, engine::residents& trained) {
        std::unordered_map<std::string, engine::value> named;
        for (const auto role : {engine::role::parameter, engine::role::state})
            for (const auto& v : g.inputs(role)) named.emplace(v.producer->name, v);
        for (const auto role : {engine::role::parameter, engine::role::state})
            for (const auto& v : graph_.inputs(role)) {
                const auto from = trained.f32(named.at(v.producer->name));
                std::copy(from.begin(), from.end(), session_->outside().f32(v).begin());
            }
        const engine::value watched = built_.model.watched;
        double sum = 0;
        for (std::int64_t i = 0; i < batches_; ++i) {
            built_.model.fill(session_->outside(), first_step + static_cast<std::uint64_t>(i));
            session_->step();
            const std::vector<float> seen = session_->execution().read(watched);
            sum += built_.model.metric(session_->outside(), seen);
        }
        return sum / static_cast<double>(batches_);
    }

    std::int64_t samples() const noexcept { return batches_ * built_.batch; }

private:
    /// No training reaches it: its data are drawn for no step of training.
    static constexpr std::uint64_t first_step = std::uint64_t{1} << 40;

    static built_model make(engine::graph& g, model_request& asked) {
        asked.dropout = false;
        built_model made = build(g, asked);
        // Echo takes a graph without a gradient for one that is still to be differentiated.
        const engine::graph::in_phase backward(g, echo::phase::backward);
        g.results() = {made.model.loss, made.model.watched, engine::copy(g, made.model.loss)};
        return made;
    }

    engine::graph graph_;
    built_model built_;
    std::int64_t batches_;
    std::optional<engine::session<decltype(Place::backend)>> session_;
};

} // namespace train
