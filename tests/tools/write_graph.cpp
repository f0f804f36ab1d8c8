// SPDX-License-Identifier: BSL-1.0
// `write_graph`: what is read from the file again is the same graph. `saved_step`: an engine waits for its drawing only
// so long.
#include "format/read_file.hpp"
#include "format/saved_step.hpp"
#include "format/write_graph.hpp"
#include "hosts/random_graph.hpp"

#include <echo/graph/read.hpp>
#include <echo/graph/snapshot_key.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace {

std::string written(const echo::snapshot& s) {
    std::string text;
    echo::format::write_graph([&](std::string_view bytes) { text += bytes; }, s, "a \"graph\"");
    return text;
}

echo::snapshot again(const echo::snapshot& s) {
    return echo::read(echo::format::read_graph_text(written(s)));
}

/// What `draw` gives where the command is a script of one line.
std::string drawn_by(std::string_view line, std::chrono::milliseconds patience) {
    const auto folder =
        std::filesystem::temp_directory_path() / ("echo-saved-step-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    const auto script = folder / "echo-plan";
    std::ofstream(script) << "#!/bin/sh\n" << line << "\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    ::setenv("ECHO_PLAN", script.c_str(), 1);
    const std::string page = echo::format::saved_step((folder / "page.html").string(), 0).draw(patience);
    ::unsetenv("ECHO_PLAN");
    std::filesystem::remove_all(folder);
    return page;
}

} // namespace

TEST_CASE("a page is drawn by a command that ends well and in time", "[saved_step]") {
    using std::chrono::milliseconds, std::chrono::steady_clock;
    CHECK(drawn_by("exit 0", milliseconds(60'000)).ends_with("page/index.html"));
    CHECK(drawn_by("exit 3", milliseconds(60'000)).empty());
    CHECK(drawn_by("kill -9 $$", milliseconds(60'000)).empty());
    const auto start = steady_clock::now();
    CHECK(drawn_by("exec sleep 300", milliseconds(200)).empty());
    CHECK(steady_clock::now() - start < milliseconds(100'000));
}

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
