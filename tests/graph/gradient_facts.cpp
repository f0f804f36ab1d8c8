// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where a host has gradient nodes of its own, the facts of its ops are checked against them.
#include <echo/graph/read.hpp>

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

namespace {

/// x → tanh → y; dy and, as the test has it, x or y → the gradient of tanh, whose facts say that it reads y.
struct tanh_graph {
    std::size_t gradient_reads;
};

enum node_name : std::size_t { x, y, dy, gradient };

} // namespace

template <>
struct echo::graph_traits<tanh_graph> {
    using node = std::size_t;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const tanh_graph&) { return {x, y, dy, gradient}; }
    static std::vector<value> inputs(const tanh_graph& g, node n) {
        if (n == y) return {{x, 0}};
        if (n == gradient) return {{dy, 0}, {g.gradient_reads, 0}};
        return {};
    }
    static std::vector<tensor> outputs(const tanh_graph&, node) { return {{.bytes = 4}}; }
    static echo::phase phase(const tanh_graph&, node n) {
        return n == x ? phase::input : n == y ? phase::forward : phase::backward;
    }
    static std::vector<value> results(const tanh_graph&) { return {{gradient, 0}}; }
    static op_facts facts(const tanh_graph&, node n) {
        op_facts f{.name = "op"};
        if (n == y) f.gradient_reads = {.inputs = {}, .outputs = {0}};
        return f;
    }
    static const char* name(const tanh_graph&, node n) {
        constexpr const char* names[] = {"x", "tanh", "dy", "tanh_gradient"};
        return names[n];
    }
    static std::optional<node> gradient_of(const tanh_graph&, node n) {
        return n == gradient ? std::optional<node>(y) : std::nullopt;
    }
};

TEST_CASE("a gradient node that reads what the facts name is accepted") {
    CHECK(echo::read(tanh_graph{.gradient_reads = y}).node_count() == 4);
}

TEST_CASE("a gradient node that reads what the facts exclude is refused, and both nodes are named") {
    try {
        echo::read(tanh_graph{.gradient_reads = x});
        FAIL("accepted");
    } catch (const echo::error& e) {
        CHECK(e.node() == "tanh_gradient");
        CHECK(e.key() == "gradient_reads");
        CHECK(std::string(e.what()).find("'tanh'") != std::string::npos);
    }
}
