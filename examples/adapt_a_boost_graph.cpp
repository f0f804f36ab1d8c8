// SPDX-License-Identifier: BSL-1.0
// A training graph that lives in a boost::adjacency_list joins Echo by property maps; no trait is specialised.
// The model is a perceptron with GELU and dropout: both run again in the backward pass, and where a mask is
// kept, one bit per element is enough.
#include <echo/echo.hpp>
#include <echo/graph/boost.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/ops/matmul.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>

#include <iostream>

struct op {
    std::string name;
    echo::op_facts facts;
    echo::phase phase;
    std::vector<echo::tensor> outputs;
};
using graph = boost::adjacency_list<boost::vecS, boost::listS, boost::bidirectionalS, op, echo::boost_edge>;
using vertex = boost::graph_traits<graph>::vertex_descriptor;
using value = echo::value_of<vertex>;

struct model {
    graph g;
    std::vector<vertex> order;
    std::vector<value> results;

    value add(op o, const std::vector<value>& inputs) {
        const vertex v = add_vertex(std::move(o), g);
        for (std::size_t i = 0; i < inputs.size(); ++i)
            add_edge(inputs[i].producer, v, {inputs[i].output, i}, g);
        order.push_back(v);
        return {v, 0};
    }
};

model perceptron(std::int64_t batch, std::int64_t width, int layers) {
    using enum echo::phase;
    const echo::tensor map{.shape = {batch, width}, .type = echo::dtype::f32};
    const echo::tensor matrix{.shape = {width, width}, .type = echo::dtype::f32};
    const auto fc = echo::facts_of<echo::fully_connected_op>();
    const auto gelu = echo::facts_of<echo::gelu_op>(), dropout = echo::facts_of<echo::dropout_op<>>();
    struct layer {
        value x, w, h, dropped;
    };
    std::vector<layer> all;
    model m;
    value x = m.add({"data", {.name = "data"}, input, {map}}, {});
    for (int i = 0; i < layers; ++i) {
        const value w = m.add({"weight", {.name = "weight"}, input, {matrix}}, {});
        const value h = m.add({"fc", fc, forward, {map}}, {x, w});
        const value active = m.add({"gelu", gelu, forward, {map}}, {h});
        all.push_back({x, w, h, m.add({"dropout", dropout, forward, {map, map}}, {active})});
        x = all.back().dropped;
    }
    const value loss = m.add({"loss", {.name = "loss"}, forward, {{.bytes = 4}}}, {x});
    value dy = m.add({"dloss", {.name = "dloss"}, backward, {map}}, {loss, x});
    echo::op_facts unmask = echo::facts_of<echo::dropout_gradient_op<>>();
    for (auto l = all.rbegin(); l != all.rend(); ++l) {
        const value mask{l->dropped.producer, 1};
        dy = m.add({"dropout_gradient", unmask, backward, {map}}, {dy, mask});
        dy = m.add({"gelu_gradient", {.name = "gelu_gradient"}, backward, {map}}, {dy, l->h});
        m.results.push_back(m.add({"dw", {.name = "dw"}, backward, {matrix}}, {dy, l->x}));
        if (l + 1 != all.rend()) dy = m.add({"dx", {.name = "dx"}, backward, {map}}, {dy, l->w});
    }
    m.results.push_back(loss);
    return m;
}

int main() {
    model m = perceptron(8192, 1024, 8);
    echo::boost_graph host(m.g, echo::facts_map(get(&op::facts, m.g)), echo::phase_map(get(&op::phase, m.g)),
                           echo::outputs_map(get(&op::outputs, m.g)), echo::name_map(get(&op::name, m.g)),
                           echo::edge_map(get(boost::edge_bundle, m.g)), echo::result_list(m.results),
                           echo::order_list(m.order));
    const auto before = echo::read(host);
    const auto plan = echo::make_plan(before, {.host = echo::abilities<decltype(host)>()});
    echo::verify(before, plan);
    std::cout << plan.report();
    const auto made = echo::apply(plan, host);
    const auto after = echo::read(host);
    const auto peak = echo::footprint(after, echo::baseline_schedule(after)).peak_bytes;
    std::cout << made.clones.size() << " clones, " << made.encodes.size() << " encodings, peak " << peak
              << " B\n";

    // And back: a snapshot is itself a Boost.Graph graph.
    std::vector<echo::node_id> reversed;
    boost::topological_sort(after, std::back_inserter(reversed));
    const bool sorted = reversed.size() == num_vertices(m.g);
    return sorted && peak == plan.report().peak_bytes && peak < plan.report().baseline_peak_bytes * 2 / 3 ? 0
                                                                                                          : 1;
}
