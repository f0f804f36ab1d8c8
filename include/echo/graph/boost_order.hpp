// SPDX-License-Identifier: BSL-1.0
/// @file
/// `topological_order` of a graph of Boost.Graph: the order in which it runs where the host names none.
#pragma once

#include <echo/error.hpp>

#include <boost/graph/graph_traits.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <queue>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace echo::detail {

template <class Graph>
using boost_vertex = typename boost::graph_traits<std::remove_const_t<Graph>>::vertex_descriptor;

/// A vertex that stands on a cycle. What is left of the order, each with the number of edges that it still waits for,
/// waits for something that is left: going back far enough ends on a cycle.
template <class Graph>
boost_vertex<Graph> vertex_on_cycle(const Graph& g, const std::vector<boost_vertex<Graph>>& all,
                                    const std::unordered_map<boost_vertex<Graph>, std::size_t>& at,
                                    const std::vector<std::size_t>& missing) {
    std::vector<bool> seen(all.size(), false);
    auto i = static_cast<std::size_t>(
        std::find_if(missing.begin(), missing.end(), [](auto m) { return m != 0; }) - missing.begin());
    while (!seen[i]) {
        seen[i] = true;
        for (auto [e, last] = in_edges(all[i], g); e != last; ++e)
            if (const auto from = at.at(source(*e, g)); missing[from] != 0) {
                i = from;
                break;
            }
    }
    return all[i];
}

/// The topological order that is closest to the order of `vertices(g)`; `shown` gives a vertex its name in errors.
/// Errors: a cycle, naming a vertex on it. O((vertices + edges) log vertices).
template <class Graph, class Shown>
std::vector<boost_vertex<Graph>> topological_order(const Graph& g, Shown shown) {
    std::vector<boost_vertex<Graph>> all;
    std::unordered_map<boost_vertex<Graph>, std::size_t> at;
    for (auto [v, last] = vertices(g); v != last; ++v) {
        at.emplace(*v, all.size());
        all.push_back(*v);
    }
    std::vector<std::size_t> missing(all.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto [first, last] = in_edges(all[i], g);
        missing[i] = static_cast<std::size_t>(std::distance(first, last));
        if (missing[i] == 0) ready.push(i);
    }
    std::vector<boost_vertex<Graph>> order;
    while (!ready.empty()) {
        const auto v = all[ready.top()];
        ready.pop();
        order.push_back(v);
        for (auto [e, last] = out_edges(v, g); e != last; ++e)
            if (const auto t = at.at(target(*e, g)); --missing[t] == 0) ready.push(t);
    }
    if (order.size() < all.size())
        throw error(shown(vertex_on_cycle(g, all, at, missing)), "inputs", "stands on a cycle",
                    "a training graph has no cycles: unroll loops");
    return order;
}

} // namespace echo::detail
