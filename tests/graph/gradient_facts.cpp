// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where a host has gradient nodes of its own, the facts of its ops are checked against them.
#include <echo/graph/read.hpp>

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

namespace {

/// x → tanh → y, and a second output; dy and, as the test has it, x or y → the gradient of tanh, whose facts say which
/// output it reads.
struct tanh_graph {
    std::size_t gradient_reads;
    std::size_t output = 0;          ///< of what the gradient reads
    std::size_t output_of_facts = 0; ///< the one of tanh that its facts name
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
        if (n == gradient) return {{dy, 0}, {g.gradient_reads, g.output}};
        return {};
    }
    static std::vector<tensor> outputs(const tanh_graph&, node n) {
        return std::vector<tensor>(n == y ? 2 : 1, tensor{.bytes = 4});
    }
    static echo::phase phase(const tanh_graph&, node n) {
        return n == x ? phase::input : n == y ? phase::forward : phase::backward;
    }
    static std::vector<value> results(const tanh_graph&) { return {{gradient, 0}}; }
    static op_facts facts(const tanh_graph& g, node n) {
        op_facts f{.name = "op"};
        if (n == y) f.gradient_reads = {.inputs = {}, .outputs = {g.output_of_facts}};
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
    for (const std::size_t k : {0U, 1U}) {
        const tanh_graph g{.gradient_reads = y, .output = k, .output_of_facts = k};
        CHECK(echo::read(g).node_count() == 4);
    }
}

TEST_CASE("a gradient node that reads what the facts exclude is refused, and both nodes are named") {
    for (const tanh_graph& g :
         {tanh_graph{.gradient_reads = x}, tanh_graph{.gradient_reads = y, .output = 0, .output_of_facts = 1},
          tanh_graph{.gradient_reads = y, .output = 1, .output_of_facts = 0}}) {
        try {
            static_cast<void>(echo::read(g));
            FAIL("accepted");
        } catch (const echo::error& e) {
            CHECK(e.node() == "tanh_gradient");
            CHECK(e.key() == "gradient_reads");
            CHECK(std::string(e.what()).find("'tanh'") != std::string::npos);
        }
    }
}
