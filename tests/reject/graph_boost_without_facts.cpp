// expect: echo::boost_graph needs facts_map, phase_map, outputs_map, edge_map and result_list
// SPDX-License-Identifier: BSL-1.0
#include <echo/graph/boost.hpp>

#include <boost/graph/adjacency_list.hpp>

using graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

void adapt(graph& g, std::vector<echo::value_of<std::size_t>>& results, const echo::phase* phases,
           const std::vector<echo::tensor>* outputs, const echo::op_facts* facts) {
    const auto ends = boost::make_static_property_map<graph::edge_descriptor>(echo::boost_edge{});
    echo::boost_graph host(g, echo::phase_map(phases), echo::outputs_map(outputs), echo::edge_map(ends),
#ifndef REJECT
                           echo::facts_map(facts),
#endif
                           echo::result_list(results));
    static_cast<void>(host);
    static_cast<void>(facts);
}
