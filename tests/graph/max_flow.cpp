// SPDX-License-Identifier: BSL-1.0
// The flow network against Boost.Graph's maximum flow, the cut it reports against its own definition, and the
// chains and ladders on which augmenting paths take quadratic time.
#include "support/processor_time.hpp"
#include "support/properties.hpp"

#include <echo/graph/max_flow.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using echo::detail::flow_network;
using capacity = flow_network::capacity;

struct network {
    struct arc {
        std::uint32_t from, to;
        capacity c;
    };
    std::vector<capacity> source, sink;
    std::vector<arc> arcs;
};

void fill(flow_network& flow, const network& n) {
    flow.clear();
    for (std::size_t v = 0; v < n.source.size(); ++v) {
        const auto made = flow.add_vertex();
        flow.from_source(made, n.source[v]);
        flow.to_sink(made, n.sink[v]);
    }
    for (const auto& a : n.arcs) flow.add_arc(a.from, a.to, a.c);
}

capacity by_boost(const network& n) {
    using traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
    using graph = boost::adjacency_list<
        boost::vecS, boost::vecS, boost::directedS, boost::no_property,
        boost::property<boost::edge_capacity_t, capacity,
                        boost::property<boost::edge_residual_capacity_t, capacity,
                                        boost::property<boost::edge_reverse_t, traits::edge_descriptor>>>>;
    const std::size_t s = n.source.size(), t = s + 1;
    graph g(s + 2);
    const auto add = [&](std::size_t from, std::size_t to, capacity c) {
        const auto e = add_edge(from, to, g).first, back = add_edge(to, from, g).first;
        put(boost::edge_capacity, g, e, c);
        put(boost::edge_capacity, g, back, 0);
        put(boost::edge_reverse, g, e, back);
        put(boost::edge_reverse, g, back, e);
    };
    for (std::size_t v = 0; v < s; ++v) {
        add(s, v, n.source[v]);
        add(v, t, n.sink[v]);
    }
    for (const auto& a : n.arcs) add(a.from, a.to, a.c);
    return push_relabel_max_flow(g, s, t);
}

/// Capacity of what leads from the source's side to the sink's.
capacity crossing(const flow_network& flow, const network& n) {
    capacity sum = 0;
    for (std::uint32_t v = 0; v < n.source.size(); ++v)
        sum += flow.on_source_side(v) ? n.sink[v] : n.source[v];
    for (const auto& a : n.arcs)
        if (flow.on_source_side(a.from) && !flow.on_source_side(a.to)) sum += a.c;
    return sum;
}

/// Of all minimum cuts of a small network, the fewest vertices on the source's side: by brute force.
std::size_t fewest_on_source_side(const network& n, capacity least) {
    std::size_t fewest = n.source.size();
    for (std::size_t side = 0; side < std::size_t{1} << n.source.size(); ++side) {
        capacity sum = 0;
        std::size_t count = 0;
        for (std::size_t v = 0; v < n.source.size(); ++v) {
            const bool at_sink = side >> v & 1U;
            count += !at_sink;
            sum += at_sink ? n.source[v] : n.sink[v];
        }
        for (const auto& a : n.arcs)
            if (!(side >> a.from & 1U) && (side >> a.to & 1U)) sum += a.c;
        if (sum == least) fewest = std::min(fewest, count);
    }
    return fewest;
}

network random_network(std::mt19937_64& dice, std::size_t most) {
    network n;
    const std::size_t size = 1 + dice() % most;
    const capacity largest = dice() % 3 ? 20 : capacity{1} << 40;
    const auto some = [&] { return static_cast<capacity>(dice() % static_cast<std::uint64_t>(largest)); };
    for (std::size_t v = 0; v < size; ++v) {
        n.source.push_back(dice() % 3 ? 0 : some());
        n.sink.push_back(dice() % 3 ? 0 : some());
    }
    const std::size_t arcs = dice() % (4 * size);
    for (std::size_t i = 0; i < arcs; ++i) {
        const auto from = static_cast<std::uint32_t>(dice() % size),
                   to = static_cast<std::uint32_t>(dice() % size);
        if (from == to) continue;
        n.arcs.push_back({from, to, dice() % 4 ? some() : flow_network::infinite / 64});
    }
    return n;
}

/// What a recurrence gives: one required end, a small leak at every vertex, bytes on every second arc.
network chain(std::uint32_t length) {
    network n;
    n.source.assign(length, 0);
    n.sink.assign(length, 1);
    n.source[0] = capacity{1} << 40;
    for (std::uint32_t v = 0; v + 1 < length; ++v) n.arcs.push_back({v, v + 1, capacity{1} << 40});
    n.sink[length - 1] = capacity{1} << 30;
    return n;
}

network ladder(std::uint32_t rungs) {
    network n;
    n.source.assign(2 * rungs, 0);
    n.sink.assign(2 * rungs, 3);
    n.source[0] = n.source[1] = capacity{1} << 40;
    for (std::uint32_t i = 0; i < rungs; ++i) {
        const std::uint32_t a = 2 * i, b = 2 * i + 1;
        n.arcs.push_back({a, b, 5});
        n.arcs.push_back({b, a, 5});
        if (i + 1 == rungs) break;
        n.arcs.push_back({a, a + 2, capacity{1} << 40});
        n.arcs.push_back({b, b + 2, (capacity{1} << 40) - static_cast<capacity>(i)});
    }
    n.sink[2 * rungs - 1] = capacity{1} << 30;
    return n;
}

} // namespace

TEST_CASE("flow and cut are Boost.Graph's", "[max_flow]") {
    std::mt19937_64 dice(Catch::rngSeed());
    flow_network flow; // one for all: what is left of one must not reach the next
    for (int i = 0; i < 3000; ++i) {
        const auto n = random_network(dice, i % 10 ? 12 : 200);
        fill(flow, n);
        const auto found = flow.cut();
        REQUIRE(found == by_boost(n));
        REQUIRE(found == crossing(flow, n));
        REQUIRE(flow.component_count() <= n.source.size());
        if (n.source.size() > 10) continue;
        std::size_t at_source = 0;
        for (std::uint32_t v = 0; v < n.source.size(); ++v) at_source += flow.on_source_side(v);
        REQUIRE(at_source == fewest_on_source_side(n, found));
        REQUIRE(flow.cut() == found); // capacities are as given
    }
}

TEST_CASE("an empty network has an empty cut", "[max_flow]") {
    flow_network flow;
    CHECK(flow.cut() == 0);
    const auto v = flow.add_vertex();
    CHECK(flow.cut() == 0);
    CHECK(!flow.on_source_side(v)); // as few as possible
    flow.from_source(v, flow_network::infinite);
    flow.from_source(v, flow_network::infinite); // saturates
    flow.to_sink(v, 7);
    CHECK(flow.cut() == 7);
    CHECK(flow.on_source_side(v)); // the way to the sink is what is cut
}

TEST_CASE("infinite capacities that meet are no more than infinite", "[max_flow]") {
    flow_network flow;
    const auto middle = flow.add_vertex();
    flow.from_source(middle, 5);
    for (int i = 0; i < 9; ++i) {
        const auto v = flow.add_vertex();
        flow.to_sink(v, flow_network::infinite);
        flow.add_arc(middle, v, flow_network::infinite);
    }
    CHECK(flow.cut() == 5);
    CHECK(!flow.on_source_side(middle));
}

TEST_CASE("levels are emptied up to the height above the number of vertices", "[max_flow]") {
    echo::detail::height_levels levels;
    levels.resize(3);
    for (const std::uint32_t height : {1U, 4U}) {
        levels.clear(3);
        levels.enter(0, height);
        levels.activate(0, height);
        levels.clear(3);
        CHECK(levels.highest() == 0);
        CHECK(levels.is_empty(height));
        levels.activate(1, height);
        CHECK(levels.take_highest() == 1);
        CHECK(levels.take_highest() == echo::detail::height_levels::none);
    }
}

TEST_CASE("leaky chains and ladders take no quadratic time", "[max_flow]") {
    flow_network flow;
    for (const auto& make : {chain, ladder}) {
        const auto n = make(make == chain ? 40000 : 20000);
        fill(flow, n);
        capacity found = 0;
        CHECK(support::processor_seconds([&] { found = flow.cut(); }) < 1);
        CHECK(found == crossing(flow, n));
    }
}
