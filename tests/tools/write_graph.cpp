// SPDX-License-Identifier: BSL-1.0
// `write_graph`: what is read from the file again is the same graph.
#include "format/read_file.hpp"
#include "format/write_graph.hpp"
#include "hosts/random_graph.hpp"

#include <echo/graph/read.hpp>
#include <echo/graph/snapshot_key.hpp>

#include <catch2/catch.hpp>

#include <string>

namespace {

std::string written(const echo::snapshot& s) {
    std::string text;
    echo::format::write_graph([&](std::string_view bytes) { text += bytes; }, s, "a \"graph\"");
    return text;
}

echo::snapshot again(const echo::snapshot& s) {
    return echo::read(echo::format::read_graph_text(written(s)));
}

} // namespace

TEST_CASE("a graph that was written is read as it was", "[write_graph]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        INFO("seed " << seed);
        hosts::dice dice(seed);
        const echo::snapshot s = hosts::random_graph(dice)(5 + seed % 30);
        CHECK(echo::snapshot_key(again(s)) == echo::snapshot_key(s));
    }
}

TEST_CASE("names, layers, unknown ops and odd numbers of elements are written", "[write_graph]") {
    echo::snapshot_builder builder;
    const echo::tensor data{.bytes = 12, .resident = true};
    builder.add({.name = "x\n\"1\"", .op = "data", .phase = echo::phase::input, .outputs = {&data, 1}});
    const echo::value_id in[] = {echo::value_id(0)};
    const echo::tensor out{.shape = {7}, .bytes = 100, .resident = true};
    builder.add(
        {.name = "f", .op = "own", .layer = "first", .unknown_op = true, .inputs = in, .outputs = {&out, 1}});
    builder.add_result(echo::value_id(1));
    const echo::snapshot s = std::move(builder).finish(), t = again(s);
    CHECK(echo::snapshot_key(t) == echo::snapshot_key(s));
    for (const auto n : s.nodes()) {
        CHECK(t.name(n) == s.name(n));
        CHECK(t.layer_name(t[n].layer) == s.layer_name(s[n].layer));
    }
}
