// SPDX-License-Identifier: BSL-1.0
/// @file
/// `session`: from a training graph (optimizer.hpp) to training steps: dead nodes go, shapes are inferred, the graph is
/// read, planned, placed, verified and run.
#pragma once

#include "engine/executor.hpp"
#include "engine/optimizer.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>

#include <optional>

namespace engine {

struct session_options {
    echo::plan_options plan{.how = echo::strategy::min_cut};
    echo::memory_options memory{.align = 64};
    executor_options execution{};
    std::uint64_t seed = 1; ///< of parameters and random ops
};

/// Removes dead nodes and infers all shapes. Errors: those of the passes.
void complete(graph& g);

/// The same, and asks the backend what it fuses and what scratch memory each node wants.
template <class Backend>
void complete(graph& g, Backend& backend) {
    complete(g);
    if constexpr (requires(const op& o) { backend.in_parts(o); })
        for (node* n : g.nodes()) n->may_fuse = engine::may_fuse(n->op) && backend.in_parts(n->op);
    for (node* n : g.nodes())
        if (n->phase != echo::phase::input && engine::facts(n->op).kind != echo::op_kind::view)
            n->scratch = backend.scratch(n->op, g.inputs_of(*n), n->outputs);
}

/// A complete graph, read, planned, placed and verified.
struct planned {
    echo::snapshot graph;
    echo::plan plan;
    echo::memory_plan memory;
};
planned make_plans(const graph& g, const session_options& options = {});

template <class Backend>
class session {
public:
    /// Errors: those of the passes; a budget that cannot be met is no error (`plan().met()`).
    session(graph& g, Backend& backend, const session_options& options = {})
        : session(g, backend, options, (complete(g, backend), make_plans(g, options))) {}
    /// The same of a complete graph whose plans are made. Errors: none of the passes.
    session(graph& g, Backend& backend, const session_options& options, planned made)
        : seed_(options.seed), outside_(options.seed, memory_of(backend)), plan_(std::move(made.plan)),
          memory_(std::move(made.memory)) {
        for (const value& v : g.inputs(role::parameter)) outside_(v);
        for (const value& v : g.inputs(role::state)) outside_(v);
        executor_.emplace(g, made.graph, plan_.steps(), memory_, outside_, backend, options.execution);
    }

    /// Storage of data, parameters and kept gradients: fill data here before a step. What it hands out is good until
    /// the step.
    residents& outside() noexcept { return outside_; }
    /// Runs one training step and returns the loss before it.
    float step() { return executor_->run(seed_, ++iteration_); }
    /// Until all of the last step is done: `step` returns when the loss is there.
    void wait() { outside_.memory().wait(); }

    std::uint64_t iteration() const noexcept { return iteration_; }
    const echo::plan& plan() const noexcept { return plan_; }
    const echo::memory_plan& memory() const noexcept { return memory_; }
    const executor<Backend>& execution() const noexcept { return *executor_; }

private:
    std::uint64_t seed_, iteration_ = 0;
    residents outside_;
    echo::plan plan_;
    echo::memory_plan memory_;
    std::optional<executor<Backend>> executor_;
};

} // namespace engine
