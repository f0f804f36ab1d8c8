// SPDX-License-Identifier: BSL-1.0
// The drawing is a legal DOT text whatever nodes are called, the same on every call, and styled by the
// caller.
#include <echo/graph/graphviz.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

#include <sstream>

namespace {

echo::snapshot named(std::string_view name) {
    echo::snapshot_builder b;
    const echo::tensor four{.bytes = 4};
    const auto x = b.add({.name = name, .op = "data", .phase = echo::phase::input, .outputs = {&four, 1}});
    const echo::value_id in[] = {b.output(x, 0)};
    const echo::node_id after[] = {x};
    const auto y = b.add({.op = "relu", .inputs = in, .control = after, .outputs = {&four, 1}});
    b.add_result(b.output(y, 0));
    return std::move(b).finish();
}

std::string drawn(const echo::snapshot& s) {
    std::ostringstream out;
    echo::write_graphviz(out, s);
    return out.str();
}

} // namespace

TEST_CASE("nodes, edges, results and control are drawn", "[graphviz]") {
    CHECK(drawn(named("x")) == "digraph echo {\n"
                               "  node [shape=box, style=filled, fillcolor=white];\n"
                               "  n0 [label=\"x\\ndata\", shape=ellipse, fillcolor=\"lightgrey\"];\n"
                               "  n1 [label=\"#1\\nrelu\", peripheries=2, fillcolor=\"white\"];\n"
                               "  n0 -> n1 [label=\"4 B\"];\n"
                               "  n0 -> n1 [style=dotted];\n"
                               "}\n");
}

TEST_CASE("a name cannot leave its quotes", "[graphviz]") {
    CHECK(drawn(named("a\"]; b\\\n")).find(R"(label="a\"]; b\\\\x0a\ndata")") != std::string::npos);
}

TEST_CASE("the caller styles nodes and values", "[graphviz]") {
    const auto s = named("x");
    std::ostringstream out;
    echo::write_graphviz(
        out, s,
        [](echo::node_id) {
            return echo::graphviz_style{"red", "again"};
        },
        [](echo::value_id) {
            return echo::graphviz_style{"blue", "stash"};
        });
    CHECK(out.str().find("label=\"x\\ndata\\nagain\", shape=ellipse, fillcolor=\"red\"") !=
          std::string::npos);
    CHECK(out.str().find("label=\"4 B\\nstash\", color=\"blue\"") != std::string::npos);
}
