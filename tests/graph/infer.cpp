// SPDX-License-Identifier: BSL-1.0
/// @file
/// Shapes and types filled in over a host graph, from its inputs on.
#include <echo/graph/infer.hpp>

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace {

/// input [n] → doubled [2n] → joined with the input [3n]; all of it as long as the inputs say.
struct joins {
    std::vector<std::vector<std::size_t>> inputs{{}, {0, 0}, {0, 1}};
    std::vector<echo::tensor> outputs{{.shape = {4}, .type = echo::dtype::f32}, {}, {}};
    std::size_t inferred = 1;
};

} // namespace

template <>
struct echo::graph_traits<joins> {
    using node = std::size_t;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const joins&) { return {0, 1, 2}; }
    static std::vector<value> inputs(const joins& g, node n) {
        std::vector<value> made;
        for (const auto i : g.inputs[n]) made.push_back({i % 10, i / 10});
        return made;
    }
    static std::vector<tensor> outputs(const joins& g, node n) { return {g.outputs[n]}; }
    static echo::phase phase(const joins&, node n) { return n == 0 ? phase::input : phase::forward; }
    static std::vector<value> results(const joins&) { return {}; }
    static op_facts facts(const joins&, node) { return {}; }
    static std::string name(const joins&, node n) { return "node" + std::to_string(n); }
    static std::vector<tensor> infer(const joins& g, node, std::span<const tensor> in) {
        std::int64_t total = 0;
        for (const tensor& t : in) {
            total += t.shape[0];
        }
        if (total > 100)
            throw error({}, "shape", "join expected at most 100, found " + std::to_string(total), "cut it");
        return std::vector<tensor>(g.inferred, {.shape = {total}, .type = in[0].type});
    }
    static void set_outputs(joins& g, node n, std::span<const tensor> made) { g.outputs[n] = made[0]; }
};
static_assert(echo::inferable_graph<joins>);

TEST_CASE("shapes flow from the inputs, and only changes count") {
    joins g;
    CHECK(echo::infer(g) == 2);
    CHECK(g.outputs[1].shape == echo::shape{8});
    CHECK(g.outputs[2].shape == echo::shape{12});
    CHECK(echo::infer(g) == 0);
    g.outputs[0].shape = {5};
    CHECK(echo::infer(g) == 2);
    CHECK(g.outputs[2].shape == echo::shape{15});
    g.outputs[0].type = echo::dtype::f16;
    CHECK(echo::infer(g) == 2);
    CHECK(g.outputs[2].type == echo::dtype::f16);
}

TEST_CASE("what is refused names the node") {
    const auto message = [](joins g) -> std::string {
        try {
            echo::infer(g);
        } catch (const echo::error& e) {
            return e.what();
        }
        return {};
    };
    joins large;
    large.outputs[0].shape = {40}; // 80 is taken, 120 is not
    CHECK(message(large) == "node 'node2', shape: join expected at most 100, found 120; cut it");
    joins output;
    output.inputs[1] = {0, 10}; // output 1 of node 0
    CHECK(message(output) ==
          "node 'node1', inputs: reads output 1 of a node that has 1; name an existing output");
    joins many;
    many.inferred = 2;
    CHECK(message(many).find("node 'node1', outputs: expected at most 1 outputs, found 2") == 0);
}
