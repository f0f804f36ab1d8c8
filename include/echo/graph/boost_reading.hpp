// SPDX-License-Identifier: BSL-1.0
/// @file
/// `boost_reading`: what a graph type of Boost.Graph with property maps tells of itself. boost_graph.hpp adds how it is
/// rewritten.
#pragma once

#include <echo/error.hpp>
#include <echo/graph/boost_maps.hpp>
#include <echo/graph/boost_order.hpp>
#include <echo/graph/concepts.hpp>

#include <boost/graph/graph_traits.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace echo::detail {

/// The half of `boost_graph` that changes nothing: nodes, their inputs and outputs, and the facts of their ops. Made by
/// `boost_graph` alone.
template <class Graph, class... Named>
class boost_reading : public Named... {
public:
    using graph_type = Graph; ///< The graph as Boost.Graph has it; const: it is not rewritten.
    using boost_traits = boost::graph_traits<std::remove_const_t<Graph>>; ///< Boost.Graph's own traits of it.
    using vertex = typename boost_traits::vertex_descriptor;              ///< A node.
    using edge = typename boost_traits::edge_descriptor; ///< An input of a node, or nothing but order.
    using value = value_of<vertex>;                      ///< An output of a node.

    /// Whether the execution order was named; without it the order is topological.
    static constexpr bool has_order = (detail::is_order_list<Named> || ...);
    /// The op's name of the vertices that keep a value in one bit per element.
    static constexpr std::string_view encode_name = "echo.encode";

    /// The graph that was given. O(1).
    Graph& graph() const noexcept { return *graph_; }

    /// The order given, or the topological order that is closest to the order of `vertices(graph)`.
    /// Errors: a cycle, naming a vertex on it. O((vertices + edges) log vertices).
    std::vector<vertex> nodes() const {
        if constexpr (has_order)
            return {this->order->begin(), this->order->end()};
        else
            return detail::topological_order(*graph_, [&](vertex v) { return shown(v); });
    }

    /// Errors: two edges for one input, or none. O(in-edges log in-edges).
    std::vector<value> inputs(vertex n) const {
        std::vector<std::pair<std::size_t, value>> found;
        const auto [first, last] = in_edges(n, *graph_);
        for (auto e = first; e != last; ++e)
            if (const boost_edge to = detail::look_up(this->ends, *e); to.input != boost_edge::control)
                found.push_back({to.input, {source(*e, *graph_), to.output}});
        std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
        std::vector<value> all;
        for (const auto& [input, from] : found) {
            if (input != all.size())
                throw error(shown(n), "inputs",
                            "input " + std::to_string(std::min(input, all.size())) +
                                (input < all.size() ? " has more than one edge" : " has no edge"),
                            "give every input one edge and number them from 0");
            all.push_back(from);
        }
        return all;
    }

    /// Vertices that run before `n` though it reads nothing of them. O(edges into n).
    std::vector<vertex> control(vertex n) const {
        std::vector<vertex> all;
        const auto [first, last] = in_edges(n, *graph_);
        for (auto e = first; e != last; ++e)
            if (boost_edge(detail::look_up(this->ends, *e)).input == boost_edge::control)
                all.push_back(source(*e, *graph_));
        return all;
    }

    /// Inputs that an encoding feeds. Only one-bit inputs can be.
    positions encoded_inputs(vertex n, const op_facts& op) const {
        positions fed;
        if (op.one_bit_inputs.empty()) return fed;
        for (std::size_t i = 0; const value& v : inputs(n)) {
            if (op_facts(detail::look_up(this->facts, v.producer)).name == encode_name) fed.insert(i);
            ++i;
        }
        return fed;
    }

    /// The op's facts, less the one-bit inputs that an encoding feeds already. O(inputs).
    op_facts facts_of(vertex n) const {
        op_facts op = detail::look_up(this->facts, n);
        const positions fed = encoded_inputs(n, op);
        if (fed.empty()) return op;
        positions left;
        for (std::size_t i = 0; i < 63; ++i)
            if (op.one_bit_inputs.contains(i) && !fed.contains(i)) left.insert(i);
        op.one_bit_inputs = left;
        op.inplace = {}; // `outputs_of` states those that remain
        return op;
    }

    /// The outputs that the map states, with what is in place by the facts. O(outputs).
    std::vector<tensor> outputs_of(vertex n) const {
        const auto& given = detail::look_up(this->outputs, n);
        std::vector<tensor> made(given.begin(), given.end());
        const op_facts op = detail::look_up(this->facts, n);
        const positions fed = encoded_inputs(n, op);
        if (fed.empty()) return made;
        for (const auto& [output, input] : op.inplace)
            if (output < made.size() && !made[output].view_of && !made[output].inplace)
                made[output].inplace = input;
        for (tensor& t : made)
            if (t.inplace && fed.contains(*t.inplace)) t.inplace.reset();
        return made;
    }

protected:
    /// Refers to the graph and to what the named maps refer to.
    explicit boost_reading(Graph& g, Named... named) : Named(std::move(named))..., graph_(&g) {}

    /// What errors call a vertex.
    std::string shown(vertex n) const {
        if constexpr (requires(boost_reading b) { b.names; }) {
            return std::string(std::string_view(detail::look_up(this->names, n)));
        } else {
            std::size_t at = 0;
            for (auto [v, last] = vertices(*graph_); v != last && !(*v == n); ++v) ++at;
            return "#" + std::to_string(at);
        }
    }

private:
    Graph* graph_;
};

} // namespace echo::detail
