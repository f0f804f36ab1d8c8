// SPDX-License-Identifier: BSL-1.0
// The key by which an engine finds the plan of a graph again: equal for equal graphs, and different for any change that
// a plan could hang on.
#include <echo/graph/snapshot_builder.hpp>
#include <echo/graph/snapshot_key.hpp>

#include <catch2/catch.hpp>

#include <functional>
#include <set>
#include <vector>

namespace {

/// All that there is to say of a small graph.
struct description {
    std::vector<echo::node_description> nodes{3};
    std::vector<std::vector<echo::value_id>> inputs{
        {}, {echo::value_id(0)}, {echo::value_id(1), echo::value_id(0)}};
    std::vector<std::vector<echo::node_id>> control{{}, {}, {}};
    std::vector<echo::tensor> outputs{{.bytes = 8}, {.bytes = 8}, {.bytes = 8}};
    std::vector<echo::value_id> results{echo::value_id(2)};
    bool skeleton = false;

    std::string key() const { return echo::snapshot_key(graph()); }
    echo::snapshot graph() const {
        echo::snapshot_builder builder;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            echo::node_description d = nodes[i];
            if (i == 0) d.phase = echo::phase::input;
            d.inputs = inputs[i];
            d.control = control[i];
            d.outputs = {&outputs[i], 1};
            if (skeleton && i == 2) builder.end_of_host();
            builder.add(d);
        }
        for (const auto v : results) builder.add_result(v);
        return std::move(builder).finish();
    }
};

} // namespace

TEST_CASE("any change that a plan could hang on changes the key", "[snapshot_key]") {
    using d = description&;
    const std::vector<std::function<void(d)>> changes{
        [](d) {},
        [](d g) { g.nodes[1].op = "tanh"; },
        [](d g) { g.nodes[0].op = g.nodes[1].op = g.nodes[2].op = "relu"; },
        [](d g) { g.nodes[1].phase = echo::phase::backward; },
        [](d g) { g.nodes[1].kind = echo::op_kind::light; },
        [](d g) { g.nodes[1].rerun = echo::rerun_kind::pure; },
        [](d g) { g.nodes[1].keep = true; },
        [](d g) { g.nodes[1].may_fuse = false; },
        [](d g) { g.nodes[1].draws_by_element = true; },
        [](d g) { g.nodes[1].unknown_op = true; },
        [](d g) { g.nodes[1].flops = 1; },
        [](d g) { g.nodes[1].time_us = 1; },
        [](d g) { g.nodes[1].workspace = 1; },
        [](d g) { g.nodes[2].one_bit_inputs = {0}; },
        [](d g) { std::swap(g.inputs[2][0], g.inputs[2][1]); },
        [](d g) { g.inputs[2].pop_back(); },
        [](d g) { g.control[2] = {echo::node_id(0)}; },
        [](d g) { g.outputs[1].bytes = 9; },
        [](d g) { g.outputs[1].shape = {1}; },
        [](d g) { g.outputs[1].type = echo::dtype::f32; },
        [](d g) { g.outputs[1].view_of = 0; },
        [](d g) { g.outputs[1].inplace = 0; },
        [](d g) { g.outputs[1].resident = true; },
        [](d g) { g.results = {echo::value_id(1)}; },
        [](d g) { g.skeleton = true; },
    };
    std::set<std::string> keys;
    for (const auto& change : changes) {
        description of;
        change(of);
        CHECK(keys.insert(of.key()).second);
        CHECK(of.key() == of.key());
    }
}

TEST_CASE("names of nodes and layers do not change the key", "[snapshot_key]") {
    description named;
    named.nodes[1].name = "first";
    named.nodes[2].layer = "block";
    CHECK(named.key() == description().key());
}

TEST_CASE("one key leaves measured times out, and nothing else", "[snapshot_key]") {
    description plain, timed, other;
    timed.nodes[1].time_us = 3;
    other.nodes[1].flops = 3;
    const auto key = [](const description& d) { return echo::snapshot_key_without_times(d.graph()); };
    CHECK(timed.key() != plain.key());
    CHECK(key(timed) == key(plain));
    CHECK(key(plain) == plain.key());
    CHECK(key(other) != key(plain));
}
