// SPDX-License-Identifier: BSL-1.0
/// @file
/// Plans have the peaks and the recompute times that tests/analysis/recorded_plans.txt records, within half a per cent.
/// Laws say that a plan is right; this says that no heuristic has changed unseen, and the figures say whether it has
/// become better or worse.
#include "format/file_graph.hpp"
#include "format/read_file.hpp"
#include "support/numbered_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// A plan's peak, in bytes, and its recompute time, as a part of the step.
struct figures {
    std::uint64_t peak;
    double time;
};

/// One plan, or those of a front.
using plans = std::vector<figures>;

/// By how much a figure may differ from the recorded one, as a part of the greater. tests/same_plans asks of two builds
/// whether plans are the same byte for byte.
constexpr double tolerance = 0.005;

bool is_near(double a, double b) { return std::abs(a - b) <= tolerance * std::max(a, b); }

bool is_near(const figures& a, const figures& b) {
    return is_near(static_cast<double>(a.peak), static_cast<double>(b.peak)) && is_near(a.time, b.time);
}

/// Whether each of some plans is near one of others.
bool each_has_a_near_one(const plans& some, const plans& others) {
    return std::ranges::all_of(some, [&](const figures& a) {
        return std::ranges::any_of(others, [&](const figures& b) { return is_near(a, b); });
    });
}

bool are_near(const plans& found, const plans& recorded) {
    return each_has_a_near_one(found, recorded) && each_has_a_near_one(recorded, found);
}

/// As the file has them.
std::string shown(const plans& all) {
    std::ostringstream out;
    for (const auto& p : all) out << (&p == all.data() ? "" : " ") << p.peak << " at " << p.time;
    return out.str();
}

plans read_plans(const std::string& line) {
    plans all;
    std::istringstream in(line);
    std::string at;
    for (figures p{}; in >> p.peak >> at >> p.time;) all.push_back(p);
    REQUIRE(shown(all) == line);
    return all;
}

plans plan_of(const echo::snapshot& s, const echo::plan_options& options) {
    const auto r = echo::make_plan(s, options).report();
    return {{.peak = r.peak_bytes, .time = r.recompute_time_ratio}};
}

/// Figures by what they are of: one graph planned in many ways.
void add_figures(const std::string& graph, const echo::snapshot& s, std::map<std::string, plans>& all) {
    const auto add = [&](const std::string& variant, const echo::plan_options& options) {
        all[graph + ", " + variant] = plan_of(s, options);
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
    for (const auto& point : echo::front(s, {}).points)
        all[graph + ", front"].push_back({.peak = point.peak_bytes, .time = point.recompute_time_ratio});
}

echo::snapshot committed_graph(const std::string& name) {
    return echo::read(echo::format::read_graph_file(ECHO_SOURCE_DIR "/examples/graphs/" + name + ".json.gz",
                                                    [](std::string_view op) { return echo::aten.find(op); }));
}

/// Of graphs whose front is not searched as a whole, those questions that are asked most.
void add_main_figures(const std::string& name, std::map<std::string, plans>& all) {
    const auto s = committed_graph(name);
    const auto whole = echo::make_plan(s, {.how = echo::strategy::baseline}).report().baseline_peak_bytes;
    all[name + ", by default"] = plan_of(s, {});
    all[name + ", min_cut"] = plan_of(s, {.how = echo::strategy::min_cut});
    all[name + ", echo"] = plan_of(s, {.how = echo::strategy::echo});
    for (const std::uint64_t percent : {60U, 35U})
        all[name + ", within " + std::to_string(percent) + " %"] =
            plan_of(s, {.budget = whole / 100 * percent});
}

/// Of graphs that take seconds together.
std::map<std::string, plans> all_figures() {
    std::map<std::string, plans> all;
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
    std::map<std::string, plans> recorded;
    for (std::string name, line; std::getline(file, name, ':') && std::getline(file >> std::ws, line);)
        recorded[name] = read_plans(line);
    const auto found = all_figures();
    CHECK(found.size() == recorded.size());
    for (const auto& [name, made] : found) {
        CAPTURE(name, shown(made), shown(recorded[name]));
        CHECK(are_near(made, recorded[name]));
    }
}

TEST_CASE("a figure 0.4 % off the recorded one is near it, one 0.6 % off is not", "[graphs]") {
    const plans recorded{{.peak = 1'000'000, .time = 0.1}, {.peak = 500'000, .time = 0.2}};
    REQUIRE(are_near(recorded, recorded));
    for (const double off : {-0.004, 0.004, -0.006, 0.006}) {
        CAPTURE(off);
        for (const bool is_peak : {true, false}) {
            auto found = recorded;
            auto& [peak, time] = found.back();
            if (is_peak)
                peak = static_cast<std::uint64_t>(500'000 * (1 + off));
            else
                time *= 1 + off;
            CHECK(are_near(found, recorded) == (std::abs(off) < 0.005));
        }
    }
    CHECK_FALSE(are_near({recorded.front()}, recorded));
    CHECK_FALSE(are_near(recorded, {recorded.front()}));
    CHECK_FALSE(are_near({{.peak = 1'000'000, .time = 0.0001}}, {{.peak = 1'000'000, .time = 0}}));
}

TEST_CASE("plans are recorded", "[.record]") {
    std::ofstream file(recorded_plans);
    for (const auto& [name, made] : all_figures()) file << name << ": " << shown(made) << '\n';
    CHECK(file.flush());
}
