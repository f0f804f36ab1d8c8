// SPDX-License-Identifier: BSL-1.0
/// @file
/// The readers and the writer of examples/tools/format: every rule of `echo-graph/1`, each with what is accepted
/// beside what is refused; what a host must do for `apply`; `echo-plan/1` there and back.

#include "format/file_graph.hpp"
#include "format/output_file.hpp"
#include "format/read_file.hpp"
#include "format/read_plan.hpp"
#include "format/write_plan.hpp"
#include "format/write_report.hpp"

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

namespace {

using namespace echo::format;
using traits = echo::graph_traits<file_graph>;

static_assert(echo::rewritable_graph<file_graph>);
static_assert(echo::abilities<file_graph>() == echo::host_abilities{});

/// A graph in which every key of the format stands once at least.
constexpr std::string_view whole_graph = R"({
  "format": "echo-graph/1", "name": "small",
  "nodes": [
    { "name": "x", "op": "data", "phase": "input", "inputs": [],
      "outputs": [ { "dtype": "f32", "shape": [8, 4] } ] },
    { "name": "w", "op": "parameter", "phase": "input", "inputs": [],
      "outputs": [ { "dtype": "f16", "shape": [4, 4] } ] },
    { "name": "mm", "op": "aten.mm.default", "phase": "forward", "layer": "fc", "inputs": [[0, 0], [1, 0]],
      "outputs": [ { "dtype": "f32", "shape": [8, 4], "bytes": 256 } ],
      "flops": 1024, "time_us": 3.5, "workspace": 64, "kind": "heavy", "rerun": "pure" },
    { "name": "relu", "op": "aten.relu.default", "phase": "forward", "inputs": [[2, 0]], "control": [0],
      "outputs": [ { "dtype": "f32", "shape": [8, 4] } ], "kind": "light", "rerun": "pure" },
    { "name": "flat", "op": "aten.view.default", "phase": "forward", "inputs": [[3, 0]],
      "outputs": [ { "dtype": "f32", "shape": [32], "view_of": 0 } ], "kind": "view", "rerun": "pure" },
    { "name": "drelu", "op": "aten.threshold_backward.default", "phase": "backward",
      "inputs": [[4, 0], [3, 0]], "one_bit_inputs": [1], "kind": "light", "rerun": "never",
      "outputs": [ { "dtype": "f32", "shape": [8, 4] } ] },
    { "name": "step", "op": "sgd", "phase": "update", "inputs": [[1, 0], [5, 0]],
      "outputs": [ { "dtype": "f16", "shape": [4, 4], "inplace": 0 } ], "rerun": "never", "kind": "light" } ],
  "outputs": [[6, 0], [4, 0]], "resident": [[2, 0]] })";

std::string with(std::string_view from, std::string_view to, std::string_view in = whole_graph) {
    std::string text(in);
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

/// A graph of these nodes, behind one input `x` of 4 floats; its first output is the result.
std::string graph_of(std::string_view nodes) {
    return R"({"format": "echo-graph/1", "nodes": [
      {"name": "x", "op": "data", "phase": "input", "inputs": [], "outputs": [{"dtype": "f32", "shape": [4]}]})" +
           std::string(nodes) + R"(], "outputs": [[0, 0]]})";
}

/// The same with one forward node `n`; `keys` replaces what it has beside name, op and phase.
std::string node_with(std::string_view keys) {
    return graph_of(R"(, {"name": "n", "op": "f", "phase": "forward", )" + std::string(keys) + "}");
}
std::string output_with(std::string_view keys) {
    return node_with(R"("inputs": [[0, 0]], "outputs": [{)" + std::string(keys) + "}]");
}

/// What the reader says of a text that it refuses.
echo::error refusal(std::string_view text) {
    INFO(text.substr(0, 2000));
    try {
        read_graph_text(text);
    } catch (const echo::error& e) {
        CHECK(std::string_view(e.what()).find('\n') == std::string_view::npos);
        CHECK_FALSE(e.problem().empty());
        CHECK_FALSE(e.advice().empty());
        return e;
    }
    FAIL("was accepted");
    throw 0;
}

void refused(std::string_view text, std::string_view node, std::string_view key) {
    const auto e = refusal(text);
    INFO(e.what());
    CHECK(e.node() == node);
    CHECK(e.key() == key);
}

void accepted(std::string_view text) {
    INFO(text.substr(0, 2000));
    CHECK_NOTHROW(read_graph_text(text));
}

} // namespace

TEST_CASE("every fact of a file arrives in the host graph") {
    const auto g = read_graph_text(whole_graph);
    CHECK(g.name() == "small");
    CHECK(g.size() == 7);
    CHECK(traits::name(g, 2) == "mm");
    CHECK(traits::layer(g, 2) == "fc");
    CHECK(traits::layer(g, 3).empty());
    CHECK(traits::flops(g, 2) == 1024);
    CHECK(traits::time_us(g, 2) == 3.5);
    CHECK_FALSE(traits::time_us(g, 3));
    CHECK(traits::workspace(g, 2) == 64);
    CHECK(traits::phase(g, 5) == echo::phase::backward);
    CHECK(traits::facts(g, 2).kind == echo::op_kind::heavy);
    CHECK(traits::facts(g, 2).rerun == echo::rerun_kind::pure);
    CHECK(traits::facts(g, 2).known == true);
    CHECK(traits::facts(g, 2).name == "aten.mm.default");
    CHECK(traits::facts(g, 5).one_bit_inputs == echo::positions{1});
    CHECK(traits::control(g, 3).size() == 1);
    CHECK(traits::inputs(g, 5)[0] == traits::value{4, 0});
    CHECK(traits::results(g)[1] == traits::value{4, 0});
    const echo::tensor made = traits::outputs(g, 2)[0];
    CHECK(made.bytes == 256);
    CHECK(made.shape == echo::shape{8, 4});
    CHECK(made.type == echo::dtype::f32);
    CHECK(made.resident);
    CHECK_FALSE(echo::tensor(traits::outputs(g, 3)[0]).resident);
    CHECK(echo::tensor(traits::outputs(g, 4)[0]).view_of == 0);
    CHECK(echo::tensor(traits::outputs(g, 6)[0]).inplace == 0);
    CHECK(echo::tensor(traits::outputs(g, 1)[0]).bytes == 32);
}

TEST_CASE("a file graph reads into a snapshot with the same facts") {
    const auto s = echo::read(read_graph_text(whole_graph));
    REQUIRE(s.node_count() == 7);
    CHECK(s.host_node_count() == 7);
    CHECK(s.name(echo::node_id(5)) == "drelu");
    CHECK(s.one_bit(echo::node_id(5), 1));
    CHECK_FALSE(s.one_bit(echo::node_id(5), 0));
    CHECK(s[echo::node_id(2)].time_us == 3.5);
    CHECK(s[s.output(echo::node_id(2), 0)].bytes == 256);
    CHECK(s[s.output(echo::node_id(0), 0)].resident);
    CHECK(s[s.output(echo::node_id(2), 0)].resident);
}

TEST_CASE("a file is the whole graph: nothing is added where it has no gradients") {
    const auto s = echo::read(read_graph_text(node_with(R"("inputs": [[0, 0]], "outputs": [{"bytes": 8}])")));
    CHECK(s.node_count() == 2);
    CHECK(s.host_node_count() == 2);
}

TEST_CASE("keys may stand in any order") {
    const auto g = read_graph_text(R"({ "outputs": [[1, 0]], "resident": [[1, 0]], "nodes": [
        { "outputs": [ { "shape": [2], "dtype": "i64" } ], "inputs": [], "phase": "input", "op": "data" },
        { "one_bit_inputs": [0], "outputs": [ { "inplace": 0, "bytes": 8 } ], "inputs": [[0, 0]],
          "phase": "forward", "op": "f", "name": "last" } ], "name": "late", "format": "echo-graph/1" })");
    CHECK(g.name() == "late");
    CHECK(g.name(1) == "last");
    CHECK(g.name(0) == "#0");
    CHECK(echo::tensor(traits::outputs(g, 0)[0]).bytes == 16);
    CHECK(echo::tensor(traits::outputs(g, 1)[0]).resident);
}

TEST_CASE("unknown keys are passed over, whatever they hold") {
    accepted(with(R"("name": "small")", R"("version": {"a": [1, {"nodes": [[]]}], "b": null}, "x": -1e9)"));
    accepted(
        with(R"("layer": "fc")", R"("attributes": {"name": "no", "inputs": [[9, 9]]}, "y": [[[true]]])"));
    accepted(with(R"("bytes": 256)", R"("bytes": 256, "stride": [4, 1], "shape_of": {"shape": [-1]})"));
    accepted(with(R"("name": "small")", R"("z": 123456789012345678901234567890, "z": 1)"));
    accepted(with(R"("name": "small")", "\"deep\": " + std::string(20000, '[') + std::string(20000, ']')));
    const auto g = read_graph_text(with(R"("layer": "fc")", R"("attributes": {"name": "no"})"));
    CHECK(g.name(2) == "mm");
}

TEST_CASE("a missing required key is named with its node") {
    accepted(with(R"("name": "small",)", ""));
    accepted(with(R"("name": "small",)", R"("name": "",)"));
    accepted(with(R"(, "resident": [[2, 0]])", ""));
    refused(with(R"("format": "echo-graph/1",)", ""), "", "format");
    refused(with(R"("nodes")", R"("knots")"), "", "nodes");
    refused(with(R"("outputs": [[6, 0], [4, 0]],)", ""), "", "outputs");
    refused(with(R"("op": "aten.mm.default",)", ""), "mm", "op");
    refused(with(R"("op": "sgd", "phase": "update",)", R"("op": "sgd",)"), "step", "phase");
    refused(with(R"("inputs": [[0, 0], [1, 0]],)", ""), "mm", "inputs");
    refused(with(R"("outputs": [ { "dtype": "f32", "shape": [32], "view_of": 0 } ],)", ""), "flat",
            "outputs");
    refused("{}", "", "format");
}

TEST_CASE("a wrong type is named with its node and key") {
    refused("[]", "", "");
    refused("3", "", "");
    refused(R"({"nodes": {}})", "", "nodes");
    refused(R"({"nodes": [3]})", "#0", "nodes");
    refused(R"({"nodes": [{"outputs": [{}, 3]}]})", "#0", "outputs[1]");
    refused(with(R"("small")", "3"), "", "name");
    refused(with(R"("mm")", "null"), "#2", "name");
    refused(with(R"("aten.mm.default")", "[]"), "mm", "op");
    refused(with(R"("fc")", "true"), "mm", "layer");
    refused(with("1024", R"("1024")"), "mm", "flops");
    refused(with("3.5", "null"), "mm", "time_us");
    refused(with("64", "64.5"), "mm", "workspace");
    refused(with("256", R"("256")"), "mm", "outputs[0].bytes");
    refused(with("[8, 4]", R"("8x4")"), "x", "outputs[0].shape");
    refused(with("[8, 4]", "[8, null]"), "x", "outputs[0].shape");
    refused(with(R"("f32")", "32"), "x", "outputs[0].dtype");
    refused(with("[[0, 0], [1, 0]]", "[0, 0]"), "mm", "inputs");
    refused(with("[[0, 0], [1, 0]]", "[[0, 0], [1]]"), "mm", "inputs");
    refused(with("[[0, 0], [1, 0]]", "[[0, 0, 0], [1, 0]]"), "mm", "inputs");
    refused(with("[[0, 0], [1, 0]]", R"([["x", 0], [1, 0]])"), "mm", "inputs");
    refused(with(R"("control": [0])", R"("control": 0)"), "relu", "control");
    refused(with("[[6, 0], [4, 0]]", "[6, 4]"), "", "outputs");
    refused(with("[[2, 0]] }", "[[2]] }"), "", "resident");
    refused(with("echo-graph/1", "echo-graph/2"), "", "format");
    refused(with(R"("forward")", R"("onward")"), "mm", "phase");
    refused(with(R"("heavy")", R"("leaden")"), "mm", "kind");
    refused(with(R"("pure")", R"("maybe")"), "mm", "rerun");
}

TEST_CASE("a key that stands twice is ambiguous") {
    refused(with(R"("small")", R"("small", "name": "small")"), "", "name");
    refused(with(R"("flops": 1024)", R"("flops": 1024, "flops": 1024)"), "mm", "flops");
    refused(with(R"("bytes": 256)", R"("bytes": 256, "bytes": 256)"), "mm", "outputs[0].bytes");
}

TEST_CASE("an index names something that stands earlier") {
    accepted(node_with(R"("inputs": [[0, 0], [0, 0]], "outputs": [{"bytes": 4}], "control": [0, 0])"));
    refused(node_with(R"("inputs": [[0, 1]], "outputs": [])"), "n", "inputs");
    refused(node_with(R"("inputs": [[0, 1000000000]], "outputs": [])"), "n", "inputs");
    refused(node_with(R"("inputs": [[0, 4294967296]], "outputs": [])"), "n", "inputs");
    refused(node_with(R"("inputs": [[0, 18446744073709551615]], "outputs": [])"), "n", "inputs");
    refused(node_with(R"("inputs": [[1, 0]], "outputs": [{"bytes": 4}])"), "n", "inputs"); // itself
    refused(node_with(R"("inputs": [[4294967296, 0]], "outputs": [])"), "n", "inputs");
    refused(node_with(R"("inputs": [], "outputs": [], "control": [1])"), "n", "control");
    refused(node_with(R"("inputs": [], "outputs": [], "control": [4294967296])"), "n", "control");
    refused(with("[[6, 0], [4, 0]]", "[[7, 0]]"), "", "outputs");
    refused(with("[[6, 0], [4, 0]]", "[[6, 1]]"), "step", "outputs");
    refused(with("[[2, 0]] }", "[[2, 1]] }"), "mm", "resident");
    refused(with("[[2, 0]] }", "[[4294967298, 0]] }"), "", "resident");
    // A cycle of two nodes: the first reads what stands later.
    refused(graph_of(R"(, {"op": "f", "phase": "forward", "inputs": [[2, 0]], "outputs": [{"bytes": 4}]},
                          {"op": "g", "phase": "forward", "inputs": [[1, 0]], "outputs": [{"bytes": 4}]})"),
            "#1", "inputs");
    refused(
        with(R"("data", "phase": "input", "inputs": [])", R"("data", "phase": "input", "inputs": [[0, 0]])"),
        "x", "inputs");
    refused(with(R"("parameter", "phase": "input", "inputs": [])",
                 R"("parameter", "phase": "input", "inputs": [[0, 0]])"),
            "w", "inputs");
}

TEST_CASE("a whole number is one, and fits") {
    for (const auto* const wrong :
         {"1.5", "0.0", "1e30", "1e2", "18446744073709551616", "-1", "-0.5", "1E400", "NaN", "Infinity", "01",
          "+1", "\"0\"", "null", "true", "99999999999999999999999999999999"}) {
        const std::string number(wrong);
        refused(node_with(R"("inputs": [[)" + number + R"(, 0]], "outputs": [])"), "n", "inputs");
        refused(node_with(R"("inputs": [[0, )" + number + R"(]], "outputs": [])"), "n", "inputs");
        refused(node_with(R"("control": [)" + number + "]"), "n", "control");
        refused(node_with(R"("workspace": )" + number), "n", "workspace");
        refused(output_with(R"("bytes": )" + number), "n", "outputs[0].bytes");
        refused(output_with(R"("shape": [)" + number + "]"), "n", "outputs[0].shape");
        refused(output_with(R"("view_of": )" + number), "n", "outputs[0].view_of");
        refused(output_with(R"("inplace": )" + number), "n", "outputs[0].inplace");
        refused(node_with(R"("one_bit_inputs": [)" + number + "]"), "n", "one_bit_inputs");
    }
    accepted(node_with(R"("inputs": [[-0, 0]], "outputs": [])"));
    const std::string most = std::to_string(std::uint64_t{1} << 61);
    accepted(output_with(R"("bytes": )" + most));
    refused(output_with(R"("bytes": 4611686018427387905)"), "n", "outputs[0].bytes");
    refused(output_with(R"("bytes": 18446744073709551615)"), "n", "outputs[0].bytes");
    accepted(node_with(R"("inputs": [], "outputs": [], "workspace": )" + most));
    refused(node_with(R"("inputs": [], "outputs": [], "workspace": 18446744073709551615)"), "n", "workspace");
    refused(output_with(R"("shape": [9223372036854775808])"), "n", "outputs[0].shape");
}

TEST_CASE("a time and FLOPs are finite numbers of 0 or more") {
    for (const std::string key : {"time_us", "flops"}) {
        for (const auto* const right : {"0", "-0", "0.0", "3.25", "1e10", "18446744073709551615", "1e-300"})
            accepted(node_with(R"("inputs": [], "outputs": [], ")" + key + "\": " + right));
        for (const auto* const wrong : {"NaN", "nan", "Infinity", "-Infinity", "1e400", "-1", "-0.5", "\"3\"",
                                        "[3]", "null", "true", "-9223372036854775808"})
            refused(node_with("\"" + key + "\": " + wrong), "n", key);
    }
    const auto g = read_graph_text(node_with(R"("inputs": [], "outputs": [], "time_us": 0)"));
    CHECK(traits::time_us(g, 1) == 0);
}

TEST_CASE("an output has bytes, or shape and dtype") {
    accepted(output_with(R"("bytes": 0)"));
    accepted(output_with(R"("bytes": 100, "shape": [5], "dtype": "f32")")); // bytes win
    accepted(output_with(R"("bytes": 100, "dtype": "complex64")"));
    accepted(output_with(R"("shape": [], "dtype": "bool")"));
    accepted(output_with(R"("shape": [0, 9223372036854775807, 9223372036854775807], "dtype": "f64")"));
    accepted(output_with(R"("shape": [9223372036854775807, 9223372036854775807, 0], "dtype": "f64")"));
    accepted(output_with(R"("shape": [1099511627776, 0, 1099511627776], "dtype": "f32")"));
    accepted(output_with(R"("bytes": 4, "shape": [1099511627776, 1099511627776, 0])"));
    CHECK(echo::element_count({1ll << 40, 1ll << 40, 0}) == 0);
    CHECK_THROWS_AS(echo::element_count({1ll << 40, 1ll << 40}), echo::error);
    CHECK_THROWS_AS(echo::element_count({0, -1}), echo::error);
    refused(output_with(R"("dtype": "f32")"), "n", "outputs[0].bytes");
    refused(output_with(R"("shape": [5])"), "n", "outputs[0].bytes");
    refused(output_with(""), "n", "outputs[0].bytes");
    refused(output_with(R"("shape": [5], "dtype": "complex64")"), "n", "outputs[0].bytes");
    refused(output_with(R"("shape": [5], "dtype": "other")"), "n", "outputs[0].bytes");
    refused(output_with(R"("shape": [4294967296, 4294967296], "dtype": "f32")"), "n", "outputs[0].shape");
    refused(output_with(R"("shape": [4611686018427387904], "dtype": "f32")"), "n", "outputs[0].shape");
    refused(output_with(R"("shape": [2305843009213693952], "dtype": "f32")"), "n", "outputs[0].bytes");
    refused(output_with(R"("shape": [-4], "dtype": "f32")"), "n", "outputs[0].shape");
    // Its elements could not be counted, should it be encoded.
    refused(output_with(R"("bytes": 4, "shape": [4294967296, 4294967296])"), "n", "outputs[0].shape");
    const std::string big = R"({"bytes": 4611686018427387904})";
    refused(node_with(R"("inputs": [], "outputs": [)" + big + ", " + big + "]"), "n", "outputs");

    const std::pair<const char*, std::uint64_t> sizes[] = {{"f64", 8}, {"i64", 8},  {"f32", 4}, {"i32", 4},
                                                           {"f16", 2}, {"bf16", 2}, {"i16", 2}, {"f8", 1},
                                                           {"i8", 1},  {"u8", 1},   {"bool", 1}};
    for (const auto& [type, size] : sizes) {
        const auto g =
            read_graph_text(output_with(R"("shape": [3, 5], "dtype": ")" + std::string(type) + "\""));
        CHECK(echo::tensor(traits::outputs(g, 1)[0]).bytes == 15 * size);
    }
}

TEST_CASE("positions name inputs of the node") {
    accepted(output_with(R"("bytes": 4, "view_of": 0)"));
    refused(output_with(R"("bytes": 4, "view_of": 1)"), "n", "outputs[0].view_of");
    refused(output_with(R"("bytes": 4, "view_of": 4294967295)"), "n", "outputs[0].view_of");
    refused(output_with(R"("bytes": 4, "inplace": 1)"), "n", "outputs[0].inplace");
    refused(output_with(R"("bytes": 4, "inplace": 4294967295)"), "n", "outputs[0].inplace");
    const auto one_bit = [](std::string_view position, std::string_view more) {
        return node_with(R"("inputs": [[0, 0], [0, 0]], "outputs": [{"bytes": 4)" + std::string(more) +
                         R"(}], "one_bit_inputs": [)" + std::string(position) + "]");
    };
    accepted(one_bit("0, 1, 1", ""));
    accepted(one_bit("1", R"(, "view_of": 0)"));
    refused(one_bit("2", ""), "n", "one_bit_inputs");
    refused(one_bit("18446744073709551615", ""), "n", "one_bit_inputs");
    refused(one_bit("0", R"(, "view_of": 0)"), "n", "one_bit_inputs");

    std::string inputs = "[0, 0]";
    for (int i = 1; i < 70; ++i) inputs += ", [0, 0]";
    const auto g = read_graph_text(
        node_with(R"("inputs": [)" + inputs + R"(], "outputs": [], "one_bit_inputs": [62, 63, 69])"));
    const auto s = echo::read(g);
    CHECK(s.one_bit(echo::node_id(1), 62));
    CHECK_FALSE(s.one_bit(echo::node_id(1), 63)); // the set is coarse there: all bits needed
    CHECK_FALSE(s.one_bit(echo::node_id(1), 69));
}

TEST_CASE("only kind and rerun come from the registry, and only where the file is silent") {
    static echo::op_facts relu{.name = "relu",
                               .kind = echo::op_kind::light,
                               .rerun = echo::rerun_kind::pure,
                               .one_bit_inputs = {0},
                               .inplace = {{0, 0}}};
    int asked = 0;
    const auto registry = [&](std::string_view op) {
        ++asked;
        return op == "relu" ? &relu : nullptr;
    };
    const std::string node = R"("inputs": [[0, 0]], "outputs": [{"bytes": 16}])";
    const auto g = read_graph_text(graph_of(R"(,
        {"op": "relu", "phase": "forward", )" +
                                            node + R"(},
        {"op": "relu", "phase": "forward", "rerun": "never", )" +
                                            node + R"(},
        {"op": "relu", "phase": "forward", "kind": "heavy", )" +
                                            node + R"(},
        {"op": "odd", "phase": "forward", )" +
                                            node + R"(},
        {"op": "odd", "phase": "forward", "kind": "light", "rerun": "seeded", )" +
                                            node + R"(},
        {"op": "odd", "phase": "forward", "kind": "light", )" +
                                            node + "}"),
                                   registry);
    using echo::op_kind;
    using echo::rerun_kind;
    const auto check = [&](file_graph::node n, op_kind kind, rerun_kind rerun, bool known) {
        const auto facts = traits::facts(g, n);
        CHECK(facts.kind == kind);
        CHECK(facts.rerun == rerun);
        CHECK(facts.known == known);
        CHECK(facts.one_bit_inputs.empty());
        CHECK(facts.inplace.empty());
    };
    check(1, op_kind::light, rerun_kind::pure, true);
    check(2, op_kind::light, rerun_kind::never, true);
    check(3, op_kind::heavy, rerun_kind::pure, true);
    check(4, op_kind::heavy, rerun_kind::never, false);
    check(5, op_kind::light, rerun_kind::seeded, true);
    check(6, op_kind::light, rerun_kind::never, false);
    CHECK(traits::facts(g, 0).known == true); // an input never runs
    CHECK(asked == 2);                        // once per op

    const auto s = echo::read(g);
    CHECK(s[echo::node_id(4)].unknown_op);
    CHECK_FALSE(s[echo::node_id(5)].unknown_op);
}

TEST_CASE("what is no JSON, or not all of it, is refused where it breaks") {
    refused("", "", "");
    refused("nonsense", "", "");
    refused(std::string(whole_graph) + "x", "", "");
    refused(std::string(whole_graph) + "{}", "", "");
    refused(R"({"nodes": [)", "#0", "nodes");
    refused("\xff\xfe{}", "", "");
    refused(with("small", "sm\xff"), "", "name");
    refused(with("mm", "m\x01"), "#2", "name");
    refused(with("3.5", "NaN"), "mm", "time_us");
    refused(std::string(100000, '['), "", "");
    accepted("\xef\xbb\xbf" + std::string(whole_graph)); // a byte order mark
    for (std::size_t size = 0; size < whole_graph.size(); ++size) {
        INFO(size);
        CHECK_THROWS_AS(read_graph_text(whole_graph.substr(0, size)), echo::error);
    }
    CHECK(std::string_view(refusal(with("3.5", std::string(1000000, 'n'))).what()).size() < 1000);
    CHECK(std::string_view(refusal("\"" + std::string(1000000, 'n')).what()).size() < 1000);
}

TEST_CASE("control characters and quotes in names do not break the line") {
    const auto e = refusal(with(R"("mm", "op": "aten.mm.default", "phase": "forward")",
                                R"("a\nb\u0000\u001b[31m\"", "op": "f", "phase": "up\ndown")"));
    CHECK(e.node() == std::string("a\nb\0\x1b[31m\"", 10));
    CHECK(std::string_view(e.what()).find_first_of(std::string_view("\n\0\x1b", 3)) ==
          std::string_view::npos);
}

TEST_CASE("an order in which a value is read after it was overwritten is refused by the replay") {
    const auto order = [](std::string_view read_later) {
        return R"({"format": "echo-graph/1", "outputs": [], "nodes": [
          {"name": "w", "op": "p", "phase": "input", "inputs": [], "outputs": [{"bytes": 8}]},
          {"name": "update", "op": "sgd", "phase": "update", "inputs": [[0, 0]],
           "outputs": [{"bytes": 8, "inplace": 0}]},
          {"name": "late", "op": "f", "phase": "update", "inputs": [)" +
               std::string(read_later) + R"(], "outputs": [{"bytes": 8}]}]})";
    };
    CHECK_NOTHROW(echo::make_plan(echo::read(read_graph_text(order("[1, 0]")))));
    CHECK_THROWS_AS(echo::make_plan(echo::read(read_graph_text(order("[0, 0]")))), echo::error);
}

TEST_CASE("one output writes in place on a resident storage, and fits in it") {
    // Read as a file, `resident` behind the nodes that it concerns.
    const auto read_with = [](const std::string& outputs, const char* inputs = "[[2, 0]]") {
        const std::string text = R"({"format": "echo-graph/1", "nodes": [
          {"name": "x", "op": "p", "phase": "input", "inputs": [], "outputs": [{"bytes": 8}]},
          {"name": "state", "op": "zeros", "phase": "forward", "inputs": [[0, 0]], "outputs": [{"bytes": 16}]},
          {"name": "part", "op": "view", "phase": "forward", "inputs": [[1, 0]], "outputs": [{"bytes": 8, "view_of": 0}]},
          {"name": "fresh", "op": "f", "phase": "forward", "inputs": [[0, 0]], "outputs": [{"bytes": 16}]},
          {"name": "step", "op": "sgd", "phase": "update", "inputs": )" +
                                 std::string(inputs) + R"(, "outputs": [)" + outputs +
                                 R"(]}], "outputs": [], "resident": [[1, 0]]})";
        return echo::read(read_graph_text(text));
    };
    const auto complaint = [&](const std::string& outputs, const char* inputs = "[[2, 0]]") {
        try {
            read_with(outputs, inputs);
        } catch (const echo::error& e) {
            CHECK(e.node() == "step");
            CHECK(!e.advice().empty());
            return e.key() + ": " + e.problem();
        }
        return std::string("accepted");
    };
    const std::string fits = R"({"bytes": 16, "inplace": 0})", grows = R"({"bytes": 17, "inplace": 0})";
    const std::string other = R"({"bytes": 1, "inplace": 1})", view = R"({"bytes": 16, "view_of": 0})";
    CHECK(complaint(fits) == "accepted"); // the storage keeps its maker's size, whatever the view's is
    CHECK(complaint(grows) ==
          "outputs[0].inplace: 17 bytes do not fit in the resident storage of 'state', which has 16");
    const std::string taken =
        "outputs[1].inplace: takes the resident storage of 'state', as outputs[0].inplace does";
    CHECK(complaint(fits + "," + fits) == taken);
    CHECK(complaint(fits + "," + other, "[[2, 0], [1, 0]]") == taken);
    CHECK(complaint(fits + "," + other, "[[2, 0], [0, 0]]") == "accepted"); // two storages
    CHECK(complaint(fits + "," + view) == "accepted");
    // Storage that is not resident is taken or not, as the replay finds: nothing to refuse.
    CHECK(complaint(fits + "," + grows, "[[3, 0]]") == "accepted");
}

TEST_CASE("an empty graph, and one without bytes, are graphs") {
    const auto empty =
        echo::read(read_graph_text(R"({"format": "echo-graph/1", "nodes": [], "outputs": []})"));
    CHECK(echo::make_plan(empty).report().peak_bytes == 0);
    const auto g = read_graph_text(node_with(R"("inputs": [[0, 0]], "outputs": [{"bytes": 0}])"));
    CHECK(echo::make_plan(echo::read(g)).report().peak_bytes == 0);
}

namespace {

/// A folder of its own for one test.
class scratch {
public:
    scratch() {
        std::string pattern = (std::filesystem::temp_directory_path() / "echo-format-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~scratch() { std::filesystem::remove_all(path_); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;

    std::string operator/(std::string_view name) const { return (path_ / name).string(); }
    std::size_t file_count() const {
        const std::filesystem::directory_iterator all(path_);
        return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    }

private:
    std::filesystem::path path_;
};

void save(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }
std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
void write_whole(const std::string& path, std::string_view bytes) {
    output_file file(path);
    file.write(bytes);
    file.finish();
    file.commit();
}

} // namespace

TEST_CASE("a compressed file is whole, or refused") {
    const scratch folder;
    const std::string path = folder / "g.json.gz";
    write_whole(path, whole_graph);
    const std::string packed = contents(path);
    CHECK(packed.size() < whole_graph.size());
    CHECK(packed.starts_with("\x1f\x8b"));
    CHECK(read_graph_file(path).size() == 7);

    const auto refuses = [&](std::string_view bytes) {
        save(path, bytes);
        CHECK_THROWS_AS(read_graph_file(path), echo::error);
    };
    for (std::size_t size = 0; size < packed.size(); ++size) refuses(packed.substr(0, size));
    // Beyond the head every bit counts, but for those that fill up the last byte before the check sum.
    const std::size_t fill = packed.size() - 9;
    for (std::size_t at = 10; at < packed.size(); ++at) {
        auto damaged = packed;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
        INFO(at);
        if (at != fill) refuses(damaged);
    }
    refuses(whole_graph);
    refuses(packed + "x");
    refuses(packed + packed); // two graphs

    // Two members are one file.
    const std::string first = folder / "1.gz", second = folder / "2.gz";
    write_whole(first, whole_graph.substr(0, 100));
    write_whole(second, whole_graph.substr(100));
    save(path, contents(first) + contents(second));
    CHECK(read_graph_file(path).size() == 7);

    // The ending alone decides.
    save(folder / "g.json", packed);
    CHECK_THROWS_AS(read_graph_file(folder / "g.json"), echo::error);
}

TEST_CASE("a file that cannot be read says so") {
    const scratch folder;
    CHECK_THROWS_WITH(read_graph_file(folder / "none.json"), Catch::Contains("cannot be opened"));
    CHECK_THROWS_WITH(read_graph_file(folder / "none.json.gz"), Catch::Contains("cannot be opened"));
    CHECK_THROWS_WITH(read_graph_file(folder / ""), Catch::Contains("cannot be read"));
}

TEST_CASE("an output file is written whole or not at all") {
    const scratch folder;
    const std::string path = folder / "out.json";
    {
        output_file file(path);
        file.write("half");
    }
    CHECK(folder.file_count() == 0);
    save(path, "old");
    {
        output_file file(path);
        file.write("half");
        file.finish();
    }
    CHECK(contents(path) == "old");
    CHECK(folder.file_count() == 1);
    std::filesystem::create_symlink(path, folder / "link");
    write_whole(folder / "link", "new");
    CHECK(contents(path) == "new");
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(folder.file_count() == 2);

    CHECK_THROWS_AS(output_file(folder / "none/out.json"), echo::error);
    CHECK_THROWS_AS(output_file(folder / ""), echo::error);
    CHECK_THROWS_AS(write_whole("/dev/full", "x"), echo::error);
    write_whole("/dev/null", "x");
    CHECK(std::filesystem::is_character_file("/dev/null"));
}

namespace {

/// Forward: x·w, a light chain, a dropout; backward: gradients that read a sign, a mask and a feature map.
constexpr std::string_view trainable_graph = R"({ "format": "echo-graph/1", "name": "train", "nodes": [
  {"name": "x", "op": "i", "phase": "input", "inputs": [], "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "mm", "op": "mm", "kind": "heavy", "rerun": "pure", "phase": "forward", "inputs": [[0, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "tanh", "op": "tanh", "kind": "light", "rerun": "pure", "phase": "forward", "inputs": [[1, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "exp", "op": "exp", "kind": "light", "rerun": "pure", "phase": "forward", "inputs": [[2, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "relu", "op": "relu", "kind": "light", "rerun": "never", "phase": "forward", "inputs": [[3, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "view", "op": "view", "kind": "view", "rerun": "pure", "phase": "forward", "inputs": [[4, 0]],
   "outputs": [{"dtype": "f32", "shape": [32, 32], "view_of": 0}]},
  {"name": "mm2", "op": "mm", "kind": "heavy", "rerun": "pure", "phase": "forward", "inputs": [[5, 0]],
   "outputs": [{"dtype": "f32", "shape": [8]}]},
  {"name": "dmm2", "op": "dmm", "kind": "heavy", "phase": "backward", "inputs": [[6, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "drelu", "op": "drelu", "kind": "light", "phase": "backward", "inputs": [[7, 0], [4, 0]],
   "one_bit_inputs": [1], "outputs": [{"dtype": "f32", "shape": [1024]}]},
  {"name": "dexp", "op": "dexp", "kind": "light", "phase": "backward", "inputs": [[8, 0], [3, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024], "inplace": 0}]},
  {"name": "dtanh", "op": "dtanh", "kind": "light", "phase": "backward", "inputs": [[9, 0], [2, 0]],
   "outputs": [{"dtype": "f32", "shape": [1024], "inplace": 0}]} ],
  "outputs": [[10, 0], [6, 0]] })";

/// Law 10: the rewritten graph, read again, replays to the peak of the plan.
void check_apply(file_graph g, echo::strategy how) {
    const auto p = echo::make_plan(echo::read(g), {.how = how, .host = echo::abilities<file_graph>()});
    echo::apply(p, g);
    const auto s = echo::read(g);
    const auto after = echo::footprint(s, echo::baseline_schedule(s));
    CHECK(after.peak_bytes == p.report().peak_bytes);
    CHECK(after.stash_bytes == p.report().stash_bytes);
}

} // namespace

TEST_CASE("a file graph can be rewritten by a plan") {
    for (const auto how : echo::all_strategies) {
        INFO(echo::name_of(how));
        check_apply(read_graph_text(trainable_graph), how);
        for (const auto* const name : {"tiny_cnn", "mlp"})
            check_apply(read_graph_file(ECHO_SOURCE_DIR "/examples/graphs/" + std::string(name) + ".json.gz"),
                        how);
    }
}

TEST_CASE("handles stay valid while nodes are put in, moved and taken out") {
    auto g = read_graph_text(whole_graph);
    const auto order = [&] {
        std::vector<file_graph::node> all;
        for (const auto n : traits::nodes(g)) all.push_back(n);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(traits::index(g, all[i]) == i);
        return all;
    };
    using nodes = std::vector<file_graph::node>;
    CHECK(order() == nodes{0, 1, 2, 3, 4, 5, 6});
    const traits::value inputs[] = {{2, 0}};
    const auto again = traits::clone(g, 3, inputs, 5);
    CHECK(order() == nodes{0, 1, 2, 3, 4, again, 5, 6});
    CHECK(traits::name(g, again) == "relu.again");
    CHECK(traits::outputs(g, again).size() == 1);
    CHECK(traits::phase(g, again) == echo::phase::forward);
    CHECK(traits::facts(g, again).kind == echo::op_kind::light);
    CHECK(traits::control(g, again).size() == 1);
    traits::redirect(g, 5, 1, {again, 0});
    CHECK(traits::inputs(g, 5)[1] == traits::value{again, 0});
    CHECK(traits::inputs(g, 5)[0] == traits::value{4, 0});
    const auto packed = traits::encode(g, {3, 0}, 0);
    CHECK(order() == nodes{packed, 0, 1, 2, 3, 4, again, 5, 6});
    CHECK(echo::tensor(traits::outputs(g, packed)[0]).bytes == 4);
    CHECK(traits::time_us(g, packed) == 0);
    traits::move(g, packed, 4);
    CHECK(order() == nodes{0, 1, 2, 3, packed, 4, again, 5, 6});
    traits::move(g, 4, 4);
    traits::move(g, 4, again);
    CHECK(order() == nodes{0, 1, 2, 3, packed, 4, again, 5, 6});
    traits::erase(g, 0);
    traits::erase(g, 6);
    CHECK(order() == nodes{1, 2, 3, packed, 4, again, 5});
    traits::redirect_result(g, 0, {again, 0});
    CHECK(traits::results(g)[0] == traits::value{again, 0});
}

TEST_CASE("a plan is written and read back") {
    for (const auto* const name : {"tiny_cnn", "mlp", "resnet50_b64"}) {
        const auto s =
            echo::read(read_graph_file(ECHO_SOURCE_DIR "/examples/graphs/" + std::string(name) + ".json.gz"));
        for (const auto how : echo::all_strategies) {
            const auto p = echo::make_plan(s, {.how = how});
            auto d = document(s, p, {}, "a \"graph\"\n");
            d.arena_bytes = 12, d.align = 4, d.blocks = {{{echo::step_id(0), 0}, 8, 4}};
            const auto text = [&] {
                std::string made;
                write_plan([&](std::string_view bytes) { made += bytes; }, s, d, report_text(p.report(), {}));
                return made;
            };
            const std::string written = text();
            CHECK(read_plan_text(written, s) == d);
            CHECK(text() == written);
        }
    }
}

TEST_CASE("the inputs of a step are written only where they are not the latest copies") {
    const auto s = echo::read(read_graph_text(trainable_graph));
    const std::string head = R"({"format": "echo-plan/1", "schedule": [
        {"node": 0}, {"node": 1}, {"node": 2}, {"node": 3}, {"node": 4}, {"node": 5}, {"node": 6}, {"node": 7},
        {"encode": [4, 0]}, {"node": 8, "inputs": [[7, 0], [8, 0]]}, {"node": 2, "recompute": true},
        {"node": 3, "recompute": true)";
    const auto schedule = [&](std::string_view tail) {
        return read_plan_text(head + std::string(tail) + "]}", s).steps;
    };
    const auto latest = schedule(R"(}, {"node": 9}, {"node": 10})");
    CHECK(latest[echo::step_id(8)].bytes == 128);
    CHECK(latest.inputs(echo::step_id(11))[0] == echo::copy_id{echo::step_id(10), 0});
    CHECK(latest.inputs(echo::step_id(12))[1] == echo::copy_id{echo::step_id(11), 0});
    CHECK(latest ==
          schedule(R"(, "inputs": [[10, 0]]}, {"node": 9, "inputs": [[9, 0], [11, 0]]}, {"node": 10})"));
    const auto first = schedule(R"(, "inputs": [[2, 0]]}, {"node": 9}, {"node": 10})");
    CHECK(first.inputs(echo::step_id(11))[0] == echo::copy_id{echo::step_id(2), 0});

    std::string written;
    write_plan([&](std::string_view bytes) { written += bytes; }, s, {.steps = first});
    CHECK(written.find(R"({"node": 3, "recompute": true, "inputs": [[2, 0]]})") != std::string::npos);
    CHECK(written.find(R"({"encode": [4, 0], "bytes": 128})") != std::string::npos);
    CHECK(written.find(R"({"node": 8, "inputs": [[7, 0], [8, 0]]})") != std::string::npos);
    CHECK(written.find(R"({"node": 9},)") != std::string::npos);
    CHECK(read_plan_text(written, s).steps == first);
}

TEST_CASE("what is moved is written and read back") {
    const auto s = echo::read(read_graph_text(trainable_graph));
    const std::string forward = R"({"node": 0}, {"node": 1}, {"node": 2}, {"node": 3}, {"node": 4}, )";
    const auto whole = [](const std::string& schedule, std::string_view more = "") {
        return R"({"format": "echo-plan/1", "schedule": [)" + schedule + "]" + std::string(more) + "}";
    };
    const std::string text = whole(
        forward + R"({"offload": [3, 0]}, {"node": 5}, {"node": 6}, {"reload": 5}, {"node": 7})",
        R"(, "link": {"in_bytes_per_us": 12.5, "out_bytes_per_us": 25, "both_ways": false, "host_bytes": 99})");
    const auto read = read_plan_text(text, s);
    CHECK(read.link ==
          echo::link_model{
              .out_bytes_per_us = 25, .in_bytes_per_us = 12.5, .both_ways = false, .host_bytes = 99});
    CHECK(read.steps[echo::step_id(5)].kind == echo::step_kind::offload);
    CHECK(read.steps[echo::step_id(8)].kind == echo::step_kind::reload);
    CHECK(read.steps[echo::step_id(8)].bytes == read.steps[echo::step_id(5)].bytes);
    CHECK(read.steps[echo::step_id(8)].node == echo::node_id(3));
    std::string written;
    write_plan([&](std::string_view bytes) { written += bytes; }, s, read);
    CHECK(read_plan_text(written, s).steps == read.steps);
    CHECK(read_plan_text(written, s).link == read.link);

    const auto refused = [&](const std::string& schedule, std::string_view more,
                             std::initializer_list<std::string_view> words) {
        try {
            read_plan_text(whole(schedule, more), s);
            FAIL("accepted: " << schedule);
        } catch (const echo::error& e) {
            for (const auto word : words)
                CHECK_THAT(std::string(e.what()), Catch::Matchers::Contains(std::string(word)));
        }
    };
    refused(forward + R"({"reload": 3})", "", {"step 5", "reload", "no offload"});
    refused(forward + R"({"reload": 99})", "", {"step 5", "reload", "99"});
    refused(forward + R"({"offload": [3, 0], "node": 5})", "", {"step 5", "offload", "beside"});
    refused(forward + R"({"offload": [3, 0], "encode": [3, 0]})", "", {"step 5", "beside"});
    refused(forward + R"({"offload": [3, 0]}, {"offload": [5, 0]})", "", {"step 6", "the host's memory"});
    refused(forward + R"({"offload": [3, 0]}, {"reload": 5, "bytes": 7})", "", {"step 6", "bytes"});
    refused(forward + R"({"offload": [3]})", "", {"step 5", "offload", "[step, output]"});
    refused(forward + R"({"node": 5})", R"(, "link": {"in_bytes_per_us": 0, "out_bytes_per_us": 1})",
            {"in_bytes_per_us", "above 0"});
    refused(forward + R"({"node": 5})", R"(, "link": {"in_bytes_per_us": 1})",
            {"out_bytes_per_us", "missing"});
}

TEST_CASE("what is fused is written and read back") {
    const auto s = echo::read(read_graph_text(trainable_graph));
    const std::string text = R"({"format": "echo-plan/1", "schedule": [
        {"node": 0}, {"node": 1}, {"node": 2}, {"node": 3}, {"node": 4}, {"node": 5}, {"node": 6}, {"node": 7}, {"node": 8},
        {"node": 2, "recompute": true, "fused": true}, {"fused": true, "recompute": true, "node": 3},
        {"node": 9, "fused": false}, {"node": 10}]})";
    const auto d = read_plan_text(text, s);
    CHECK(d.steps.fused_count() == 2);
    CHECK(d.steps[echo::step_id(9)].fused);
    CHECK_FALSE(d.steps[echo::step_id(11)].fused);
    CHECK(d.steps.inputs(echo::step_id(10))[0] == echo::copy_id{echo::step_id(9), 0});
    std::string written;
    write_plan([&](std::string_view bytes) { written += bytes; }, s, d);
    CHECK(written.find(R"({"node": 2, "recompute": true, "fused": true})") != std::string::npos);
    CHECK(written.find(R"({"node": 9},)") != std::string::npos);
    CHECK(read_plan_text(written, s) == d);

    const auto p = echo::make_plan(s, {.how = echo::strategy::min_cut, .host = {.fuse = true}});
    CHECK(p.report().fused_nodes > 0);
    const auto made = document(s, p, echo::plan_memory(s, p), "train");
    written.clear();
    write_plan([&](std::string_view bytes) { written += bytes; }, s, made, report_text(p.report(), {}));
    const auto again = read_plan_text(written, s);
    CHECK(again == made);
    CHECK(written.find("\"fused_nodes\": " + std::to_string(p.report().fused_nodes)) != std::string::npos);
    CHECK_NOTHROW(echo::verify(s, p, memory_plan_of(s, again)));
    auto extra = again;
    for (const auto t : p.steps().steps())
        if (p.steps()[t].fused) extra.blocks.push_back({{t, 0}, 0, 4096});
    CHECK_THROWS_AS(memory_plan_of(s, extra), echo::error);
}

TEST_CASE("what may not be fused is refused with its step and key") {
    const auto s = echo::read(read_graph_text(trainable_graph));
    const auto refused = [&](const std::string& steps, std::string_view more, std::string_view step,
                             std::string_view key, const std::string& words) {
        try {
            read_plan_text(
                R"({"format": "echo-plan/1", "schedule": [)" + steps + "]" + std::string(more) + "}", s);
            FAIL_CHECK("was accepted");
        } catch (const echo::error& e) {
            CHECK(e.node() == step);
            CHECK(e.key() == key);
            CHECK_THAT(e.what(), Catch::Contains(words));
        }
    };
    const std::string forward = R"({"node": 0}, {"node": 1}, {"node": 2}, {"node": 3}, {"node": 4}, )";
    const std::string whole =
        forward + R"({"node": 5}, {"node": 6}, {"node": 7}, {"node": 8}, {"node": 9}, {"node": 10})";
    const auto fused = [](int node) {
        return R"({"recompute": true, "fused": true, "node": )" + std::to_string(node) + "}";
    };
    refused(R"({"node": 0, "fused": true})", "", "step 0", "fused", "is no recompute");
    refused(forward + fused(1), "", "step 5", "fused", "'mm' is fused, but heavy");
    refused(forward + R"({"encode": [3, 0], "fused": true})", "", "step 5", "encode", "beside a key");
    refused(forward + fused(3) + R"(, {"encode": [5, 0]})", "", "step 6", "encode", "which is nowhere");
    refused(forward + fused(4) + R"(, {"node": 5})", "", "step 6", "inputs",
            "is a view of what a fused step makes");
    refused(whole + ", " + fused(10), "", "step 11", "fused", "'dtanh' makes a graph output");
    refused(whole + ", " + fused(2), R"(, "stash": [[11, 0]])", "", "stash", "has no storage");
    refused(whole + ", " + fused(2),
            R"(, "arena": {"bytes": 8, "blocks": [{"step": 11, "output": 0, "offset": 0, "bytes": 8}]})", "",
            "blocks", "has no storage");
    CHECK_NOTHROW(
        read_plan_text(R"({"format": "echo-plan/1", "schedule": [)" + whole + ", " + fused(2) + "]}", s));
}

TEST_CASE("a plan that names what is not there is refused with its step and key") {
    const auto s = echo::read(read_graph_text(trainable_graph));
    const auto refused = [&](std::string_view steps, std::string_view step, std::string_view key) {
        INFO(steps);
        try {
            read_plan_text(R"({"format": "echo-plan/1", "schedule": [)" + std::string(steps) + "]}", s);
            FAIL_CHECK("was accepted");
        } catch (const echo::error& e) {
            CHECK(e.node() == step);
            CHECK(e.key() == key);
        }
    };
    refused("{}", "step 0", "node");
    refused(R"({"node": 99})", "step 0", "node");
    refused(R"({"node": 1})", "step 0", "node");
    refused(R"({"node": -1})", "step 0", "node");
    refused(R"({"node": 0}, {"node": 1, "inputs": [[1, 0]]})", "step 1", "inputs");
    refused(R"({"node": 0}, {"node": 1, "inputs": [[0, 1]]})", "step 1", "inputs");
    refused(R"({"node": 0}, {"node": 1, "inputs": []})", "step 1", "inputs");
    refused(R"({"node": 0}, {"node": 1, "recompute": 1})", "step 1", "recompute");
    refused(R"({"node": 0}, {"node": 1, "fused": true})", "step 1", "fused");
    refused(R"({"node": 0}, {"encode": [0, 0], "bytes": 127})", "step 1", "bytes");
    refused(R"({"node": 0}, {"encode": [0, 0], "node": 1})", "step 1", "encode");
    refused(R"({"node": 0}, {"encode": [0]})", "step 1", "encode");
    refused(R"({"node": 0}, {"encode": [0, 0]}, {"encode": [1, 0]})", "step 2", "encode");
    CHECK_THROWS_AS(read_plan_text(R"({"format": "echo-plan/1"})", s), echo::error);
    CHECK_THROWS_AS(read_plan_text(R"({"format": "echo-plan/1", "schedule": [], "stash": [[0, 0]]})", s),
                    echo::error);
    CHECK_THROWS_AS(read_plan_text(whole_graph, s), echo::error);
}

TEST_CASE("a report has every key of the format") {
    echo::plan_report r;
    r.recompute_time_ratio = 0.1;
    r.notes = {"a \"note\"", "and\tanother"};
    const auto text = report_text(r, {.pass_ms = 3, .load_ms = 1e-9});
    const auto parsed = nlohmann::json::parse(text);
    const std::set<std::string> keys{"baseline_peak_bytes",
                                     "peak_bytes",
                                     "resident_bytes",
                                     "baseline_stash_bytes",
                                     "stash_bytes",
                                     "lower_bound_bytes",
                                     "arena_bytes",
                                     "arena_lower_bound_bytes",
                                     "recomputed_nodes",
                                     "encoded_values",
                                     "fused_nodes",
                                     "recompute_time_ratio",
                                     "subgraphs",
                                     "pass_ms",
                                     "plan_ms",
                                     "load_ms",
                                     "unknown_ops",
                                     "notes"};
    std::set<std::string> found;
    for (const auto& [key, value] : parsed.items()) found.insert(key);
    CHECK(found == keys);
    CHECK(parsed["recompute_time_ratio"] == 0.1);
    CHECK(parsed["pass_ms"].is_number_float());
    CHECK(parsed["load_ms"] == 1e-9);
    r.recompute_time_bound = 0.05;
    CHECK(nlohmann::json::parse(report_text(r, {}))["recompute_time_bound"] == 0.05);
    CHECK(parsed["notes"][1] == "and\tanother");
    r.dead_backward_nodes = 7;
    CHECK(nlohmann::json::parse(report_text(r, {}))["dead_backward_nodes"] == 7);
}
