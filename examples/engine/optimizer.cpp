// SPDX-License-Identifier: BSL-1.0
#include "engine/graph_traits.hpp"
#include "engine/optimizer.hpp"

#include <echo/graph/gradient.hpp>

namespace engine {
namespace {

/// Makes `v` resident; a value that lies on another's storage is copied first.
value keep(graph& g, value v) {
    if (!engine::facts(v.producer->op).views.empty() || v.producer->phase == echo::phase::input) {
        const graph::in_phase backward(g, echo::phase::backward);
        v = copy(g, v);
    }
    v.producer->outputs[v.output].resident = true;
    return v;
}

} // namespace

std::vector<trained> train(graph& g, value loss, const training& how) {
    std::vector<node*> updates;
    for (node* n : g.nodes())
        if (n->phase == echo::phase::update) updates.push_back(n);
    const auto parameters = g.inputs(role::parameter);
    const value losses[] = {loss};
    const auto flowing = echo::gradient<graph>(g, losses, parameters, {.mirror = how.mirror});
    std::vector<trained> made;
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (flowing[i]) made.push_back({parameters[i], keep(g, *flowing[i])});
    if (made.empty())
        throw echo::error(loss.producer->name, "gradient", "the loss depends on no parameter",
                          "give the graph a parameter");

    // Before any parameter changes: a run of a normalisation that they read from reads parameters.
    for (node* n : updates) g.move(n, nullptr);

    std::vector<value> states;
    for (const trained& t : made) {
        const graph::in_layer layer(g, t.parameter.producer->layer);
        for (int k = 0; k < (how.how == training::adam ? 2 : 1); ++k)
            states.push_back(
                state(g, t.parameter.producer->name + ".state" + std::to_string(k), g[t.parameter].shape));
    }
    const graph::in_phase update(g, echo::phase::update);
    std::vector<value> factor;
    if (how.clip > 0) {
        std::vector<value> all;
        for (const trained& t : made) all.push_back(t.gradient);
        factor.push_back(g.add(ops::clip_factor{how.clip}, std::move(all)));
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
        std::vector<value> in{made[i].parameter, made[i].gradient};
        const std::size_t per = states.size() / made.size();
        in.insert(in.end(), states.begin() + static_cast<std::ptrdiff_t>(per * i),
                  states.begin() + static_cast<std::ptrdiff_t>(per * (i + 1)));
        in.insert(in.end(), factor.begin(), factor.end());
        const value v = how.how == training::adam ? g.add(how.with_adam, std::move(in))
                                                  : g.add(how.with_sgd, std::move(in));
        g.rename(v, made[i].parameter.producer->name + ".update");
    }
    g.results().assign(1, loss);
    return made;
}

} // namespace engine
