// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the tests of models ask of their graphs, and how a model learns.
#pragma once

#include "engine/cpu/backend.hpp"
#include "engine/models/model.hpp"
#include "engine/session.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace support {

constexpr double mib = 1 << 20;

inline std::size_t elements(const engine::graph& g, engine::role role) {
    std::size_t sum = 0;
    for (const auto& v : g.inputs(role)) sum += engine::elements(g[v]);
    return sum;
}

inline engine::value find(const engine::graph& g, const std::string& name) {
    for (engine::node* n : g.nodes())
        if (n->name == name) return {n, 0};
    FAIL("no node " + name);
    return {};
}

template <class Op>
std::size_t count(const engine::graph& g) {
    std::size_t found = 0;
    for (const engine::node* n : g.nodes()) found += std::holds_alternative<Op>(n->op);
    return found;
}
using dropout_node = engine::ops::elementwise<engine::ops::dropout_op>;

/// Whether `of` is computed from `from`.
inline bool depends(engine::value of, engine::value from) {
    std::set<const engine::node*> seen;
    std::vector<const engine::node*> open{of.producer};
    while (!open.empty()) {
        const engine::node* n = open.back();
        open.pop_back();
        if (n == from.producer) return true;
        for (const auto& v : n->inputs)
            if (seen.insert(v.producer).second) open.push_back(v.producer);
    }
    return false;
}

inline std::set<std::string> layers(const engine::graph& g) {
    std::set<std::string> found;
    for (const engine::node* n : g.nodes()) found.insert(n->layer);
    found.erase(""); // data
    return found;
}

/// What a model says of its options; where it refuses them, nothing may have been built.
template <class M, class Options>
std::string refusal(const Options& o) {
    engine::graph g;
    try {
        const M model(g, o);
    } catch (const echo::error& e) {
        CHECK(g.size() == 0);
        return e.what();
    }
    return "accepted";
}

/// The training graph of a model, planned. All in MiB.
struct footprint {
    double peak, stash;    ///< live bytes at once
    double pool;           ///< of NNVM's planner
    double weights_and_co; ///< weights, gradients, two states per weight
};
template <class M, class Options>
footprint plan(const Options& o, engine::baseline habits, echo::strategy how = echo::strategy::baseline) {
    engine::graph g(habits);
    const M model(g, o);
    const double parameters = static_cast<double>(elements(g, engine::role::parameter));
    engine::train(g, model.loss(), M::optimizer());
    engine::complete(g);
    engine::session_options options{.plan = {.how = how}};
    const auto made = engine::make_plans(g, options);
    options.memory.pool.emplace();
    const auto pool = echo::plan_memory(made.graph, made.plan, options.memory);
    const auto& report = made.plan.report();
    return {static_cast<double>(report.peak_bytes) / mib, static_cast<double>(report.stash_bytes) / mib,
            static_cast<double>(pool.bytes()) / mib, 16 * parameters / mib};
}

struct curve {
    std::vector<float> losses;
    std::vector<double> metrics;
    bool recomputed = false;

    /// The mean over a part of the steps.
    double loss(std::size_t first, std::size_t last) const { return mean(losses, first, last); }
    double metric(std::size_t first, std::size_t last) const { return mean(metrics, first, last); }

private:
    template <class T>
    static double mean(const std::vector<T>& of, std::size_t first, std::size_t last) {
        double sum = 0;
        for (std::size_t i = first; i < last; ++i) sum += static_cast<double>(of.at(i));
        return sum / static_cast<double>(last - first);
    }
};

template <class M, class Options>
curve learn(const Options& o, std::uint64_t steps, echo::strategy how = echo::strategy::baseline) {
    engine::graph g;
    const auto model = models::model::make<M>(g, o);
    engine::train(g, model.loss, model.optimizer);
    g.results().push_back(model.watched);
    engine::cpu::backend cpu(1);
    engine::session<engine::cpu::backend> s(g, cpu, {.plan = {.how = how}});
    curve made;
    for (std::uint64_t i = 1; i <= steps; ++i) {
        model.fill(s.outside(), i);
        made.losses.push_back(s.step());
        const auto* const at = reinterpret_cast<const float*>(s.execution().latest(model.watched));
        made.metrics.push_back(model.metric(s.outside(), {at, engine::elements(g[model.watched])}));
    }
    made.recomputed = s.execution().counts().recomputed > 0;
    return made;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace support
