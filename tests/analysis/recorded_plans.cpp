// SPDX-License-Identifier: BSL-1.0
/// @file
/// Plans are those recorded in tests/analysis/recorded_plans.txt, step by step. Laws say that a plan is right; this
/// says that no heuristic has changed unseen, and the figures say whether it has become better or worse.
#include "format/file_graph.hpp"
#include "format/read_file.hpp"
#include "support/numbered_graph.hpp"
#include "support/plan_hash.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <catch2/catch.hpp>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace {

/// The figures of a plan and of its arena, by name.
std::string figures(const echo::snapshot& s, const echo::plan_options& options) {
    const auto p = echo::make_plan(s, options);
    const auto& r = p.report();
    std::ostringstream out;
    out << "peak " << r.peak_bytes << " of " << r.baseline_peak_bytes << " allocated " << r.allocated_bytes
        << " stash " << r.stash_bytes << " of " << r.baseline_stash_bytes << " resident " << r.resident_bytes
        << " bound " << r.lower_bound_bytes << " again " << r.recomputed_nodes << " encoded "
        << r.encoded_values << " fused " << r.fused_nodes << " time " << r.recompute_time_ratio << " pieces "
        << r.subgraphs << " largest " << r.largest_subgraph << " arena "
        << echo::plan_memory(s, p.steps(), {.limit = 0}).bytes() << std::hex << " steps "
        << support::hash_of(p.steps()) << " blocks " << support::hash_of(s, p.steps()) << " notes "
        << support::hash_of(r);
    return out.str();
}

/// Figures by what they are of: one graph planned in many ways.
void add_figures(const std::string& graph, const echo::snapshot& s, std::map<std::string, std::string>& all) {
    const auto add = [&](const std::string& variant, const echo::plan_options& options) {
        all[graph + ", " + variant] = figures(s, options);
    };
    for (const bool fuse : {false, true}) {
        const std::string with = fuse ? ", fused" : "";
        for (const auto how : echo::all_strategies)
            if (how != echo::strategy::baseline)
                add(std::string(echo::name_of(how)) + with, {.how = how, .host = {.fuse = fuse}});
        add("budget" + with, {.host = {.fuse = fuse}});
        add("20 % of time" + with, {.max_overhead = 0.2, .host = {.fuse = fuse}});
    }
    const auto whole = echo::make_plan(s, {.how = echo::strategy::baseline}).report().baseline_peak_bytes;
    for (const std::uint64_t percent : {80U, 60U, 40U})
        add("within " + std::to_string(percent) + " %", {.budget = whole / 100 * percent});
    add("no encodings", {.how = echo::strategy::min_cut, .encode = false});
    add("nothing moves", {.how = echo::strategy::min_cut,
                          .host = {.recompute_results = false, .move = false, .erase = false}});
    auto takes = [&](const echo::schedule& steps) {
        return echo::plan_memory(s, steps, {.granularity = 512, .limit = 0}).bytes();
    };
    add("an allocator", {.allocator = takes});
    std::ostringstream points;
    for (const auto& point : echo::front(s, {}).points)
        points << point.peak_bytes << " at " << point.recompute_time_ratio << ' ';
    all[graph + ", front"] = points.str();
}

echo::snapshot committed_graph(const std::string& name) {
    return echo::read(echo::format::read_graph_file(ECHO_SOURCE_DIR "/examples/graphs/" + name + ".json.gz",
                                                    [](std::string_view op) { return echo::aten.find(op); }));
}

/// Of graphs whose front is not searched as a whole, those questions that are asked most.
void add_main_figures(const std::string& name, std::map<std::string, std::string>& all) {
    const auto s = committed_graph(name);
    const auto whole = echo::make_plan(s, {.how = echo::strategy::baseline}).report().baseline_peak_bytes;
    all[name + ", by default"] = figures(s, {});
    all[name + ", min_cut"] = figures(s, {.how = echo::strategy::min_cut});
    all[name + ", echo"] = figures(s, {.how = echo::strategy::echo});
    for (const std::uint64_t percent : {60U, 35U})
        all[name + ", within " + std::to_string(percent) + " %"] =
            figures(s, {.budget = whole / 100 * percent});
}

/// Of graphs that take seconds together.
std::map<std::string, std::string> all_figures() {
    std::map<std::string, std::string> all;
    for (const std::string name : {"mlp", "tiny_cnn", "more/squeezenet_b128"})
        add_figures(name, committed_graph(name), all);
    for (std::uint64_t i = 0; i < 12; ++i)
        add_figures("random graph " + std::to_string(i), support::numbered_graph(i), all);
    // DenseNet has nodes with so many inputs that it is remembered which of them may be missing.
    for (const std::string name :
         {"resnet50_b64", "vit_b16_b32", "densenet121_b32", "more/mobilenet_v2_b96", "more/unet_b16"})
        add_main_figures(name, all);
    return all;
}

const char* const recorded_plans = ECHO_SOURCE_DIR "/tests/analysis/recorded_plans.txt";

} // namespace

TEST_CASE("plans of small and middling graphs are those recorded", "[graphs]") {
    // Where plans are meant to change: test-plans "plans are recorded", and see what the file says then.
    std::ifstream file(recorded_plans);
    REQUIRE(file);
    std::map<std::string, std::string> recorded;
    for (std::string name, line; std::getline(file, name, ':') && std::getline(file >> std::ws, line);)
        recorded[name] = line;
    const auto found = all_figures();
    CHECK(found.size() == recorded.size());
    for (const auto& [name, line] : found) {
        CAPTURE(name, line, recorded[name]);
        CHECK(line == recorded[name]);
    }
}

TEST_CASE("plans are recorded", "[.record]") {
    std::ofstream file(recorded_plans);
    for (const auto& [name, line] : all_figures()) file << name << ": " << line << '\n';
    CHECK(file.flush());
}
