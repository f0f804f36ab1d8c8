// SPDX-License-Identifier: BSL-1.0
/// @file
/// `boost_graph`: any graph type of Boost.Graph as a host graph, by property maps alone.
#pragma once

#include <echo/graph/boost_maps.hpp>
#include <echo/graph/boost_reading.hpp>
#include <echo/graph/concepts.hpp>

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace echo {
namespace detail {

template <class B>
concept rewritable_boost_graph =
    B::has_order && !std::is_const_v<typename B::graph_type> && writable_map<decltype(B::ends)> &&
    requires(typename B::graph_type& g, typename B::vertex v, typename B::edge e) {
        add_vertex(g);
        add_edge(v, v, g);
        remove_edge(e, g);
        clear_vertex(v, g);
    };

} // namespace detail

/// A host graph made of a Boost.Graph graph and property maps; refers to both.
/// Requirements: `Graph` models VertexListGraph and BidirectionalGraph; vertex descriptors are hashable. To
/// be rewritten it also models MutableGraph with parallel edges, has an `order_list` and an `edge_map` that
/// can be written, and its other maps reach new vertices (interior properties and `vector_property_map` do, a
/// map over an array does not). A new vertex gets all interior properties of its original. Where vertex
/// descriptors are numbers (`vecS`), removal would renumber the rest: an erased vertex stays in the graph
/// then, without edges and out of the order.
template <class Graph, class... Named>
class boost_graph : public detail::boost_reading<Graph, Named...> {
    using base = detail::boost_reading<Graph, Named...>;

public:
    using typename base::edge;
    using typename base::value;
    using typename base::vertex;

    /// Refers to the graph and to what the named maps refer to: all of them must outlive it. O(1).
    explicit boost_graph(Graph& g, Named... named) : base(g, std::move(named)...) {
        static_assert(
            requires(boost_graph b) {
                b.facts;
                b.phases;
                b.outputs;
                b.ends;
                b.results;
            }, "echo::boost_graph needs facts_map, phase_map, outputs_map, edge_map and result_list");
    }

    /// A copy of `n` with all interior properties, on other inputs, in front of `before`. O(edges of n +
    /// order).
    vertex clone(vertex n, std::span<const value> from, vertex before) {
        const auto before_control = this->control(n);
        const vertex made = add_vertex(this->graph());
        if constexpr (requires(Graph& g) { put(boost::vertex_all, g, n, get(boost::vertex_all, g, n)); })
            put(boost::vertex_all, this->graph(), made, get(boost::vertex_all, this->graph(), n));
        (copy_property(static_cast<const Named&>(*this), n, made), ...);
        for (std::size_t i = 0; i < from.size(); ++i) link(made, i, from[i]);
        for (const vertex c : before_control) link(made, boost_edge::control, {c, 0});
        insert(made, before);
        return made;
    }

    /// The edge keeps its interior properties.
    void redirect(vertex reader, std::size_t input, const value& from) {
        const auto [first, last] = in_edges(reader, this->graph());
        const auto at = std::find_if(first, last, [&](const edge& e) {
            return boost_edge(detail::look_up(this->ends, e)).input == input;
        });
        if (at == last)
            throw error(this->shown(reader), "inputs", "input " + std::to_string(input) + " has no edge",
                        "give every input one edge and number them from 0");
        const edge old = *at;
        if constexpr (requires(Graph& g) { add_edge(reader, reader, get(boost::edge_all, g, old), g); }) {
            const auto properties = get(boost::edge_all, this->graph(), old);
            remove_edge(old, this->graph());
            const edge made = add_edge(from.producer, reader, properties, this->graph()).first;
            put(this->ends, made, boost_edge{from.output, input});
        } else {
            remove_edge(old, this->graph());
            link(reader, input, from);
        }
    }

    /// A new vertex that makes `v` in one bit per element, in front of `before`. O(order).
    vertex encode(const value& v, vertex before) {
        const tensor whole = this->outputs_of(v.producer).at(v.output);
        const vertex made = add_vertex(this->graph());
        put(this->phases, made, echo::phase::forward);
        put(this->facts, made,
            op_facts{.name = base::encode_name, .kind = op_kind::light, .rerun = rerun_kind::pure});
        const std::vector<tensor> packed{{.bytes = encoded_bytes(encodable_elements(whole))}};
        put(this->outputs, made, detail::mapped_t<decltype(this->outputs)>(packed.begin(), packed.end()));
        link(made, 0, v);
        insert(made, before);
        return made;
    }

    /// From now on `n` runs in front of `before`. O(order).
    void move(vertex n, vertex before) {
        this->order->erase(place(n));
        insert(n, before);
    }

    /// Takes `n` out of the order, with its edges, and out of the graph where that renumbers nothing.
    /// O(order).
    void erase(vertex n) {
        this->order->erase(place(n));
        clear_vertex(n, this->graph());
        if constexpr (!std::is_integral_v<vertex>) remove_vertex(n, this->graph());
    }

private:
    auto place(vertex n) const {
        const auto at = std::find(this->order->begin(), this->order->end(), n);
        if (at == this->order->end())
            throw error(this->shown(n), "order", "the vertex stands nowhere in the order",
                        "list every vertex once");
        return at;
    }
    void insert(vertex n, vertex before) { this->order->insert(place(before), n); }

    void link(vertex reader, std::size_t input, const value& from) {
        const edge made = add_edge(from.producer, reader, this->graph()).first;
        put(this->ends, made, boost_edge{from.output, input});
    }

    template <template <class> class Name, class M>
    void copy_property(const Name<M>& named, vertex from, vertex to) {
        if constexpr (requires { typename boost::property_traits<M>::category; }) {
            if constexpr (detail::writable_map<M> &&
                          std::convertible_to<vertex, typename boost::property_traits<M>::key_type>) {
                const auto& [map] = named;
                const detail::mapped_t<M> copy = detail::look_up(map, from);
                put(map, to, copy);
            }
        }
    }
};

/// Every `boost_graph` is a host graph.
template <class Graph, class... Named>
struct graph_traits<boost_graph<Graph, Named...>> {
    using graph = boost_graph<Graph, Named...>;
    using node = typename graph::vertex;
    using value = typename graph::value;

    static std::vector<node> nodes(const graph& g) { return g.nodes(); }
    static std::vector<value> inputs(const graph& g, node n) { return g.inputs(n); }
    static std::vector<tensor> outputs(const graph& g, node n) { return g.outputs_of(n); }
    static echo::phase phase(const graph& g, node n) { return detail::look_up(g.phases, n); }
    static const auto& results(const graph& g) { return *g.results; }
    static op_facts facts(const graph& g, node n) { return g.facts_of(n); }
    static std::vector<node> control(const graph& g, node n) { return g.control(n); }

    // clang-format off
    static std::string name(const graph& g, node n) requires requires { g.names; } { return detail::look_up(g.names, n); }
    static std::string layer(const graph& g, node n) requires requires { g.layers; } { return detail::look_up(g.layers, n); }
    static double flops(const graph& g, node n) requires requires { g.flops; } { return detail::look_up(g.flops, n); }
    static std::uint64_t workspace(const graph& g, node n) requires requires { g.workspaces; } { return detail::look_up(g.workspaces, n); }
    static std::optional<double> time_us(const graph& g, node n) requires requires { g.times; } { return detail::look_up(g.times, n); }
    static bool keep(const graph& g, node n) requires requires { g.keeps; } { return detail::look_up(g.keeps, n); }
    static bool trainable(const graph& g, node n) requires requires { g.trainables; } { return detail::look_up(g.trainables, n); }
    // clang-format on

    static node clone(graph& g, node n, std::span<const value> inputs, node before)
        requires detail::rewritable_boost_graph<graph>
    {
        return g.clone(n, inputs, before);
    }
    static void redirect(graph& g, node reader, std::size_t input, const value& v)
        requires detail::rewritable_boost_graph<graph>
    {
        g.redirect(reader, input, v);
    }
    static void redirect_result(graph& g, std::size_t result, const value& v)
        requires requires { *std::next(g.results->begin()) = v; }
    {
        *std::next(g.results->begin(), static_cast<std::ptrdiff_t>(result)) = v;
    }
    static void move(graph& g, node n, node before)
        requires graph::has_order
    {
        g.move(n, before);
    }
    static node encode(graph& g, const value& v, node before)
        requires detail::rewritable_boost_graph<graph> && detail::writable_map<decltype(graph::facts)> &&
                 detail::writable_map<decltype(graph::phases)> &&
                 detail::writable_map<decltype(graph::outputs)>
    {
        return g.encode(v, before);
    }
    static void erase(graph& g, node n)
        requires detail::rewritable_boost_graph<graph>
    {
        g.erase(n);
    }
};

} // namespace echo
