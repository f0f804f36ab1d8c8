// SPDX-License-Identifier: BSL-1.0
// Engines make the names of ops anew each time that they are asked, and a snapshot keeps them.
#include <echo/graph/read.hpp>
#include <echo/vocabulary/vocabulary.hpp>

#include <catch2/catch.hpp>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Nodes that know nothing but how their op is handed over.
struct engine {
    enum class way { temporary, local, characters, unknown };
    std::vector<way> nodes;
};

std::string type_of(std::size_t n) {
    return "a name that no short string has room for, of node " + std::to_string(n);
}

constexpr echo::vocabulary_row rows[] = {{{.kind = echo::op_kind::light}, "tanh"}};
constexpr auto table = echo::make_vocabulary<rows>();
static_assert(table["tanh"].name == "tanh" && table["tan"].name == "tan");

} // namespace

template <>
struct echo::graph_traits<engine> {
    using node = std::size_t;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const engine& g) {
        std::vector<node> all;
        for (node n = 0; n < g.nodes.size(); ++n) all.push_back(n);
        return all;
    }
    static std::vector<value> inputs(const engine&, node) { return {}; }
    static std::vector<tensor> outputs(const engine&, node) { return {{.bytes = 4}}; }
    static echo::phase phase(const engine&, node) { return phase::forward; }
    static std::vector<value> results(const engine&) { return {}; }
    static op_facts facts(const engine& g, node n) {
        switch (g.nodes[n]) {
        case engine::way::temporary:
            return {.name = type_of(n), .kind = op_kind::light};
        case engine::way::local: {
            const std::string name = type_of(n);
            return {.name = name};
        }
        case engine::way::characters:
            return {.name = type_of(n).c_str()};
        case engine::way::unknown:
            return table[type_of(n)];
        }
        return {};
    }
    static std::string name(const engine&, node n) { return "node " + type_of(n); }
    static std::string layer(const engine&, node n) { return "layer " + type_of(n); }
};

TEST_CASE("names that are made for the call", "[op_names]") {
    using enum engine::way;
    const auto s = echo::read(engine{{temporary, local, characters, unknown}});
    for (const auto n : s.nodes()) {
        CHECK(s.op_name(s[n].op) == type_of(n.index()));
        CHECK(s.name(n) == "node " + type_of(n.index()));
        CHECK(s.layer_name(s[n].layer) == "layer " + type_of(n.index()));
        CHECK(s[n].unknown_op == (n.index() != 0)); // of the first more is stated than its name
    }
}

TEST_CASE("a name is a value", "[op_names]") {
    echo::op_name kept;
    {
        const echo::op_name first = type_of(1);
        echo::op_name moved = echo::op_name(first);
        kept = first;
        CHECK(moved == first);
        moved = type_of(2);
        CHECK(moved != first);
        CHECK(kept == first);
        kept = std::move(moved);
        CHECK(kept == type_of(2));
        kept = first;
    }
    CHECK(kept == type_of(1));
    std::ostringstream out;
    out << kept;
    CHECK(out.str() == type_of(1));
    CHECK(echo::op_name() == "");
}
