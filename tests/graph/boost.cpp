// SPDX-License-Identifier: BSL-1.0
// The snapshot as a Boost.Graph graph, Boost's algorithms as oracles, and Boost graphs as hosts.
#include "hosts/boost_host.hpp"
#include "hosts/random_graph.hpp"

#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/abilities.hpp>
#include <echo/graph/boost.hpp>
#include <echo/graph/dead_nodes.hpp>

#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/graph/transitive_closure.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <catch2/catch.hpp>

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<echo::snapshot>));
BOOST_CONCEPT_ASSERT((boost::BidirectionalGraphConcept<echo::snapshot>));
BOOST_CONCEPT_ASSERT((boost::AdjacencyGraphConcept<echo::snapshot>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<echo::snapshot>));
BOOST_CONCEPT_ASSERT((boost::ReadablePropertyMapConcept<echo::node_index_map, echo::node_id>));
BOOST_CONCEPT_ASSERT(
    (boost::ReadablePropertyGraphConcept<echo::snapshot, echo::node_id, boost::vertex_index_t>));

namespace {

std::vector<echo::snapshot> samples() {
    hosts::dice d(7);
    std::vector<echo::snapshot> all(1);
    all.push_back(echo::snapshot_builder{}.finish());
    for (int i = 0; i < 60; ++i) all.push_back(hosts::random_graph(d)(4 + d.below(30)));
    return all;
}

} // namespace

TEST_CASE("edges of a snapshot agree from both ends", "[boost]") {
    for (const auto& s : samples()) {
        std::size_t out = 0, in = 0, all = 0;
        for (const auto n : boost::make_iterator_range(vertices(s))) {
            for (const auto& e : boost::make_iterator_range(out_edges(n, s))) {
                REQUIRE(source(e, s) == n);
                ++out;
            }
            for (const auto& e : boost::make_iterator_range(in_edges(n, s))) {
                REQUIRE(target(e, s) == n);
                ++in;
            }
            REQUIRE(degree(n, s) == in_degree(n, s) + out_degree(n, s));
        }
        for (const auto& e : boost::make_iterator_range(edges(s))) {
            REQUIRE(source(e, s) < target(e, s));
            ++all;
        }
        REQUIRE(out == num_edges(s));
        REQUIRE(in == num_edges(s));
        REQUIRE(all == num_edges(s));
    }
}

TEST_CASE("execution order is a topological order, and every component is one node", "[boost]") {
    for (const auto& s : samples()) {
        std::vector<echo::node_id> reversed;
        boost::topological_sort(s, std::back_inserter(reversed));
        REQUIRE(reversed.size() == s.node_count());
        std::vector<std::size_t> place(s.node_count());
        for (std::size_t i = 0; i < reversed.size(); ++i) place[reversed[i].index()] = i;
        for (const auto& e : boost::make_iterator_range(edges(s)))
            REQUIRE(place[source(e, s).index()] > place[target(e, s).index()]);
        std::vector<std::size_t> component(s.node_count());
        const auto map = boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, s));
        REQUIRE(boost::strong_components(s, map) == s.node_count());
    }
}

TEST_CASE("live nodes are what breadth-first search reaches backwards", "[boost]") {
    std::size_t dead = 0;
    for (const auto& s : samples()) {
        // Roots by definition: makers of results, updates. Control edges are followed by hand.
        std::vector<boost::default_color_type> colour(s.node_count(), boost::white_color);
        const auto map = boost::make_iterator_property_map(colour.begin(), get(boost::vertex_index, s));
        const auto reversed = boost::make_reverse_graph(s);
        boost::queue<echo::node_id> frontier;
        const auto visit = [&](echo::node_id root) {
            if (colour[root.index()] == boost::white_color)
                boost::breadth_first_visit(reversed, root, frontier, boost::bfs_visitor<>(), map);
        };
        for (const auto v : s.results()) visit(s[v].producer);
        for (const auto n : s.nodes())
            if (s[n].phase == echo::phase::update) visit(n);
        for (bool grew = true; grew;) {
            grew = false;
            for (const auto n : s.nodes())
                for (const auto c : s.control(n))
                    if (colour[n.index()] != boost::white_color && colour[c.index()] == boost::white_color)
                        visit(c), grew = true;
        }
        const auto live = echo::detail::live_nodes(s);
        for (const auto n : s.nodes()) {
            REQUIRE(live[n] == (colour[n.index()] != boost::white_color));
            dead += !live[n];
        }
    }
    CHECK(dead > 20);
}

TEST_CASE("transitive closure runs on a snapshot", "[boost]") {
    const auto s = samples().back();
    boost::adjacency_list<> closure;
    boost::transitive_closure(s, closure);
    for (const auto n : s.nodes())
        for (const auto v : s.inputs(n)) REQUIRE(edge(s[v].producer.index(), n.index(), closure).second);
}

TEST_CASE("writes in place on residents keep a node alive through chains", "[boost]") {
    echo::snapshot_builder b;
    const auto add = [&](echo::phase what, std::vector<echo::value_id> in, echo::tensor t) {
        echo::node_description d{.phase = what};
        d.inputs = in;
        d.outputs = {&t, 1};
        return b.output(b.add(d), 0);
    };
    const auto statistics = add(echo::phase::input, {}, {.bytes = 8});
    const auto x = add(echo::phase::input, {}, {.bytes = 8});
    const auto unused = add(echo::phase::input, {}, {.bytes = 8});
    const auto view = add(echo::phase::forward, {statistics}, {.bytes = 8, .view_of = 0});
    const auto written = add(echo::phase::forward, {view, x}, {.bytes = 8, .inplace = 0});
    const auto again = add(echo::phase::forward, {x, written}, {.bytes = 8, .inplace = 1});
    const auto fresh = add(echo::phase::forward, {x}, {.bytes = 8});
    const auto over = add(echo::phase::forward, {fresh}, {.bytes = 8, .inplace = 0});
    const auto s = std::move(b).finish();
    const auto live = echo::detail::live_nodes(s);
    const auto alive = [&](echo::value_id v) { return live[s[v].producer]; };
    CHECK(alive(written));
    CHECK(alive(again));
    CHECK(alive(view));
    CHECK(alive(x));
    CHECK_FALSE(alive(unused));
    CHECK_FALSE(alive(fresh));
    CHECK_FALSE(alive(over));
}

TEST_CASE("erasing dead nodes leaves none, and erases nothing twice", "[boost]") {
    for (const auto& s : samples()) {
        auto host = hosts::boost_host<boost::listS>::from_snapshot(s);
        auto g = host.view();
        const auto live = echo::detail::live_nodes(s);
        std::size_t dead = 0;
        for (const auto n : s.nodes()) dead += !live[n];
        REQUIRE(echo::erase_dead_nodes(g) == dead);
        REQUIRE(echo::erase_dead_nodes(g) == 0);
        REQUIRE(num_vertices(host.graph) == s.node_count() - dead);
    }
}

TEMPLATE_TEST_CASE("an erased vertex takes its edges along", "[boost]", boost::vecS, boost::listS) {
    for (const auto& s : samples()) {
        auto host = hosts::boost_host<TestType>::from_snapshot(s);
        auto g = host.view();
        const auto live = echo::detail::live_nodes(s);
        std::size_t edges = 0;
        for (const auto n : s.nodes())
            if (live[n]) edges += s.inputs(n).size() + s.control(n).size();
        echo::erase_dead_nodes(g);
        REQUIRE(num_edges(host.graph) == edges);
    }
}

TEMPLATE_TEST_CASE("a Boost graph without an order is read in topological order", "[boost]", boost::vecS,
                   boost::listS) {
    for (const auto& s : samples()) {
        auto host = hosts::boost_host<TestType>::from_snapshot(s);
        const auto g = host.unordered();
        const auto again = echo::read(g);
        REQUIRE(again.node_count() == s.node_count());
        for (const auto n : s.nodes()) REQUIRE(again.name(n) == s.name(n)); // the closest one to that given
        REQUIRE(echo::footprint(again, echo::baseline_schedule(again)).peak_bytes ==
                echo::footprint(s, echo::baseline_schedule(s)).peak_bytes);
        STATIC_REQUIRE_FALSE(echo::abilities<std::remove_const_t<decltype(g)>>().recompute);
    }
}

TEST_CASE("what a Boost host can do follows from what it is", "[boost]") {
    hosts::boost_host<boost::vecS> host;
    auto g = host.view();
    STATIC_REQUIRE(echo::abilities<decltype(g)>() == echo::host_abilities{});
    const auto& fixed = host.graph;
    auto read_only = echo::boost_graph(fixed, echo::facts_map(get(&hosts::boost_node::facts, fixed)),
                                       echo::phase_map(get(&hosts::boost_node::phase, fixed)),
                                       echo::outputs_map(get(&hosts::boost_node::outputs, fixed)),
                                       echo::edge_map(get(boost::edge_bundle, fixed)),
                                       echo::result_list(host.results), echo::order_list(host.order));
    STATIC_REQUIRE_FALSE(echo::abilities<decltype(read_only)>().recompute);
    STATIC_REQUIRE_FALSE(echo::abilities<decltype(read_only)>().encode);
    STATIC_REQUIRE_FALSE(echo::abilities<decltype(read_only)>().erase);
    CHECK(echo::read(read_only).node_count() == 0);
}

TEST_CASE("a compressed sparse row graph with maps over arrays is a host", "[boost]") {
    using graph =
        boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, echo::boost_edge>;
    const std::pair<int, int> ends[] = {{2, 1}, {1, 0}, {2, 0}};
    const echo::boost_edge carried[] = {{0, 0}, {0, 1}, {0, 0}};
    const graph g(boost::edges_are_unsorted_multi_pass, ends, ends + 3, carried, 3);
    const echo::phase phases[] = {echo::phase::backward, echo::phase::forward, echo::phase::input};
    const std::vector<echo::tensor> outputs[] = {{{.bytes = 4}}, {{.bytes = 8}}, {{.bytes = 16}}};
    std::vector<echo::value_of<std::size_t>> results{{0, 0}};
    const auto facts = [](std::size_t) { return echo::op_facts{.name = "any"}; };
    const echo::boost_graph host(g, echo::facts_map(boost::make_function_property_map<std::size_t>(facts)),
                                 echo::phase_map(&phases[0]), echo::outputs_map(&outputs[0]),
                                 echo::edge_map(get(boost::edge_bundle, g)), echo::result_list(results));
    const auto s = echo::read(host);
    REQUIRE(s.node_count() == 3);
    CHECK(s[echo::node_id(0)].phase == echo::phase::input);
    CHECK(s[echo::node_id(2)].phase == echo::phase::backward);
    CHECK(s.inputs(echo::node_id(2))[0] == s.output(echo::node_id(0), 0));
    CHECK(s.inputs(echo::node_id(2))[1] == s.output(echo::node_id(1), 0));
}

TEST_CASE("a Boost graph that is no training graph is refused by name", "[boost]") {
    hosts::dice d(3);
    const auto s = hosts::random_graph(d)(12);
    const auto message = [](auto&& host) -> std::string {
        try {
            static_cast<void>(echo::read(host));
            return "read";
        } catch (const echo::error& e) {
            return e.what();
        }
    };
    using Catch::Matchers::Contains;
    SECTION("a cycle") {
        auto host = hosts::boost_host<boost::vecS>::from_snapshot(s);
        auto& g = host.graph;
        const auto last = host.order.back(), early = source(*in_edges(last, g).first, g);
        g[last].name = g[early].name = "round";
        add_edge(last, early, {0, in_degree(early, g)}, g);
        CHECK_THAT(message(host.unordered()), Contains("node 'round'") && Contains("cycle"));
    }
    SECTION("a vertex that reads itself, behind one that waits for it and has no name either") {
        using graph =
            boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, echo::boost_edge>;
        const std::pair<int, int> ends[] = {{1, 0}, {1, 1}};
        const echo::boost_edge carried[] = {{0, 0}, {0, 0}};
        const graph g(boost::edges_are_unsorted_multi_pass, ends, ends + 2, carried, 2);
        const std::vector<echo::phase> phases(2, echo::phase::forward);
        const std::vector<std::vector<echo::tensor>> outputs(2, {{.bytes = 4}});
        std::vector<echo::value_of<std::size_t>> results;
        const auto facts = [](std::size_t) { return echo::op_facts{.name = "any"}; };
        CHECK_THAT(message(echo::boost_graph(
                       g, echo::facts_map(boost::make_function_property_map<std::size_t>(facts)),
                       echo::phase_map(phases.data()), echo::outputs_map(outputs.data()),
                       echo::edge_map(get(boost::edge_bundle, g)), echo::result_list(results))),
                   Contains("node '#1'") && Contains("cycle"));
    }
    SECTION("an input with two edges") {
        auto host = hosts::boost_host<boost::vecS>::from_snapshot(s);
        add_edge(host.order[0], host.order.back(), {0, 0}, host.graph);
        CHECK_THAT(message(host.unordered()), Contains("input 0 has more than one edge"));
    }
    SECTION("an input without an edge") {
        auto host = hosts::boost_host<boost::vecS>::from_snapshot(s);
        add_edge(host.order[0], host.order.back(), {0, 9}, host.graph);
        CHECK_THAT(message(host.unordered()), Contains("has no edge"));
    }
    SECTION("an order that runs a reader first") {
        auto host = hosts::boost_host<boost::vecS>::from_snapshot(s);
        std::reverse(host.order.begin(), host.order.end());
        CHECK_THAT(message(host.view()), Contains("execution order"));
    }
}
