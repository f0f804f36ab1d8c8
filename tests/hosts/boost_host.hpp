// SPDX-License-Identifier: BSL-1.0
/// @file
/// A host that is a `boost::adjacency_list`, joined by property maps alone.
#pragma once

#include "described_node.hpp"

#include <echo/graph/boost.hpp>

#include <boost/graph/adjacency_list.hpp>

#include <list>
#include <memory>
#include <string>
#include <vector>

namespace hosts {

struct boost_node {
    std::string name, layer;
    echo::op_facts facts;
    echo::phase phase = echo::phase::forward;
    std::vector<echo::tensor> outputs;
    double flops = 0;
    std::uint64_t workspace = 0;
    std::optional<double> time_us;
    bool keep = false;
};

/// `Vertices` is `boost::vecS` or `boost::listS`.
template <class Vertices>
struct boost_host {
    using graph_type =
        boost::adjacency_list<boost::vecS, Vertices, boost::bidirectionalS, boost_node, echo::boost_edge>;
    using vertex = typename boost::graph_traits<graph_type>::vertex_descriptor;
    using value = echo::value_of<vertex>;

    graph_type graph;
    std::list<std::string> op_names; ///< facts only point to them
    std::vector<vertex> order;
    std::vector<value> results;

    static boost_host from_snapshot(const echo::snapshot& s) {
        boost_host h;
        std::vector<std::string_view> ops;
        for (std::uint32_t op = 0; op < s.op_count(); ++op)
            ops.push_back(h.op_names.emplace_back(s.op_name(op)));
        for (const auto n : s.nodes()) {
            const auto from = describe<vertex>(s, n);
            const vertex v = add_vertex(h.graph);
            h.graph[v] = {from.name,
                          from.layer,
                          {.name = ops[s[n].op],
                           .known = !from.unknown,
                           .kind = from.kind,
                           .rerun = from.rerun,
                           .one_bit_inputs = from.one_bit},
                          from.phase,
                          from.outputs,
                          from.flops,
                          from.workspace,
                          from.time_us,
                          from.keep};
            for (std::size_t i = 0; const auto in : s.inputs(n))
                add_edge(h.order[s[in].producer.index()], v, {s.output_index(in), i++}, h.graph);
            for (const auto c : s.control(n))
                add_edge(h.order[c.index()], v, {0, echo::boost_edge::control}, h.graph);
            h.order.push_back(v);
        }
        for (const auto v : s.results())
            h.results.push_back({h.order[s[v].producer.index()], s.output_index(v)});
        return h;
    }

    /// The graph as Echo sees it; `ordered` false leaves the order to Echo.
    auto unordered() {
        return echo::boost_graph(
            graph, echo::facts_map(get(&boost_node::facts, graph)),
            echo::phase_map(get(&boost_node::phase, graph)),
            echo::outputs_map(get(&boost_node::outputs, graph)),
            echo::edge_map(get(boost::edge_bundle, graph)), echo::name_map(get(&boost_node::name, graph)),
            echo::layer_map(get(&boost_node::layer, graph)), echo::flops_map(get(&boost_node::flops, graph)),
            echo::workspace_map(get(&boost_node::workspace, graph)),
            echo::time_map(get(&boost_node::time_us, graph)), echo::keep_map(get(&boost_node::keep, graph)),
            echo::result_list(results));
    }
    auto view() {
        return echo::boost_graph(
            graph, echo::facts_map(get(&boost_node::facts, graph)),
            echo::phase_map(get(&boost_node::phase, graph)),
            echo::outputs_map(get(&boost_node::outputs, graph)),
            echo::edge_map(get(boost::edge_bundle, graph)), echo::name_map(get(&boost_node::name, graph)),
            echo::layer_map(get(&boost_node::layer, graph)), echo::flops_map(get(&boost_node::flops, graph)),
            echo::workspace_map(get(&boost_node::workspace, graph)),
            echo::time_map(get(&boost_node::time_us, graph)), echo::keep_map(get(&boost_node::keep, graph)),
            echo::result_list(results), echo::order_list(order));
    }
};

} // namespace hosts
