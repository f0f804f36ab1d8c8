// SPDX-License-Identifier: BSL-1.0
// A home-grown graph type joins Echo by one specialisation and is planned, rewritten and checked. The model
// is the attention of a translation model: every decoder step adds its query to the same keys and takes the
// tanh, so each step stashes a feature map as large as the keys, which one addition and one tanh rebuild.
#include <echo/echo.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/matmul.hpp>

#include <deque>
#include <iostream>

struct node {
    echo::op_facts facts;
    echo::phase phase;
    std::vector<echo::value_of<node*>> inputs;
    echo::tensor output;
};
using value = echo::value_of<node*>;

struct graph {
    std::deque<node> nodes; // never moves
    std::vector<node*> order;
    std::vector<value> results;

    node* insert(node n, node* before) {
        nodes.push_back(std::move(n));
        order.insert(std::find(order.begin(), order.end(), before), &nodes.back());
        return &nodes.back();
    }
    value add(echo::op_facts facts, echo::phase phase, std::vector<value> inputs, echo::shape shape) {
        return {
            insert({facts, phase, std::move(inputs), {.shape = shape, .type = echo::dtype::f32}}, nullptr),
            0};
    }
};

template <>
struct echo::graph_traits<graph> {
    using node = ::node*;
    using value = ::value;
    static const auto& nodes(const graph& g) { return g.order; }
    static const auto& inputs(const graph&, node n) { return n->inputs; }
    static std::vector<tensor> outputs(const graph&, node n) { return {n->output}; }
    static echo::phase phase(const graph&, node n) { return n->phase; }
    static const auto& results(const graph& g) { return g.results; }
    static op_facts facts(const graph&, node n) { return n->facts; }
    // What follows is for `apply`; what a host leaves out is never planned for it.
    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        return g.insert({n->facts, n->phase, {inputs.begin(), inputs.end()}, n->output}, before);
    }
    static void redirect(graph&, node reader, std::size_t input, value v) { reader->inputs[input] = v; }
    static void move(graph& g, node n, node before) {
        std::erase(g.order, n);
        g.order.insert(std::find(g.order.begin(), g.order.end(), before), n);
    }
    static void erase(graph& g, node n) { std::erase(g.order, n); }
};

graph attention(std::int64_t batch, std::int64_t steps, std::int64_t width) {
    using enum echo::phase;
    const auto fc = echo::facts_of<echo::fully_connected_op>();
    const auto plus = echo::facts_of<echo::add_op>(), tanh = echo::facts_of<echo::tanh_op>();
    const echo::shape map{batch, steps, width}, row{batch, 1, width}, column{batch, steps, 1},
        w{width, width};
    graph g;
    const value x = g.add({.name = "x"}, input, {}, map), v = g.add({.name = "v"}, input, {}, {1, width});
    const value h = g.add({.name = "h"}, input, {}, row), u = g.add({.name = "u"}, input, {}, w);
    const value keys = g.add(fc, forward, {x, u}, map);
    std::vector<value> alignments, scores;
    for (std::int64_t t = 0; t < steps; ++t) {
        const value query = g.add(fc, forward, {h, u}, row);
        alignments.push_back(g.add(tanh, forward, {g.add(plus, forward, {keys, query}, map)}, map));
        scores.push_back(g.add(fc, forward, {alignments.back(), v}, column));
    }
    const value loss = g.add({.name = "loss"}, forward, scores, {1});
    value sum = g.add({.name = "zero"}, backward, {}, map);
    for (std::size_t t = scores.size(); t-- > 0;) { // the gradient of tanh reads its output
        const value dy = g.add({.name = "dy"}, backward, {loss, scores[t]}, column);
        const value da = g.add({.name = "da"}, backward, {dy, v}, map);
        const value de = g.add({.name = "de"}, backward, {da, alignments[t]}, map);
        sum = g.add(plus, backward, {sum, de}, map);
    }
    g.results = {loss, g.add({.name = "du"}, backward, {sum, x}, w)};
    return g;
}

int main() {
    graph g = attention(32, 20, 512);
    const auto before = echo::read(g);
    const auto plan =
        echo::make_plan(before, {.how = echo::strategy::min_cut, .host = echo::abilities<graph>()});
    echo::verify(before, plan); // shares no code with the planner; throws at the first rule broken
    std::cout << plan.report();
    const auto made = echo::apply(plan, g); // the graph itself: clones, moves, redirected inputs
    const auto after = echo::read(g);
    const auto peak = echo::footprint(after, echo::baseline_schedule(after)).peak_bytes;
    std::cout << made.clones.size() << " clones, peak of the rewritten graph " << peak / 1'000'000 << " MB\n";
    return peak == plan.report().peak_bytes && peak < plan.report().baseline_peak_bytes / 2 ? 0 : 1;
}
