// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every plan of some graphs, one line each, for `tests/same_plans`: what two checkouts print is the same, or some plan
/// has changed.
///
///   bench-plans GRAPH…               files
///   bench-plans random FIRST COUNT   random graphs number FIRST to FIRST + COUNT
///
/// A line names the graph, the strategy and the options; then come the figures of the report, and hashes of the plan's
/// steps, of its report's notes and of the arena's offsets. No time is printed.

#include "format/read_file.hpp"
#include "support/numbered_graph.hpp"
#include "support/plan_hash.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

void print(const std::string& name, const echo::snapshot& s, const echo::plan_options& options,
           std::string_view variant) {
    const auto p = echo::make_plan(s, options);
    const auto& r = p.report();
    fmt::print(
        "{} {} {}: peak {} of {} allocated {} of {} resident {} stash {} of {} bound {} again {} encoded {} "
        "fused {} ratio {} subgraphs {} {} blocker {} {} steps {:016x} notes {:016x} arena {:016x}\n",
        name, echo::name_of(options.how), variant, r.peak_bytes, r.baseline_peak_bytes, r.allocated_bytes,
        r.baseline_allocated_bytes, r.resident_bytes, r.stash_bytes, r.baseline_stash_bytes,
        r.lower_bound_bytes, r.recomputed_nodes, r.encoded_values, r.fused_nodes, r.recompute_time_ratio,
        r.subgraphs, r.largest_subgraph, r.blocker.index(), r.blocker_bytes, support::hash_of(p.steps()),
        support::hash_of(r), support::hash_of(s, p.steps()));
}

void print_front(const std::string& name, const echo::snapshot& s, bool fuse) {
    const auto found = echo::front(s, {.host = {.fuse = fuse}});
    fmt::print("{} front {}: bound {}", name, fuse ? "fused" : "plain", found.lower_bound_bytes);
    for (const auto& p : found.points) fmt::print(" {}@{}", p.peak_bytes, p.recompute_time_ratio);
    fmt::print("\n");
}

/// Strategies × {plain, fused, three budgets}, the front, and hosts that can do less.
void print_all(const std::string& name, const echo::snapshot& s) {
    std::vector<echo::strategy> strategies(std::begin(echo::all_strategies), std::end(echo::all_strategies));
    strategies.push_back(echo::strategy::budget);
    for (const bool fuse : {false, true}) {
        const std::string with = fuse ? "fused" : "plain";
        for (const auto how : strategies) {
            print(name, s, {.how = how, .host = {.fuse = fuse}}, with);
            print(name, s, {.how = how, .encode = false, .host = {.fuse = fuse}},
                  with + " without encodings");
        }
        const auto whole = echo::make_plan(s, {.how = echo::strategy::baseline}).report().baseline_peak_bytes;
        for (const std::uint64_t percent : {80, 60, 40})
            print(name, s, {.budget = whole / 100 * percent, .host = {.fuse = fuse}},
                  fmt::format("{} within {} %", with, percent));
        print_front(name, s, fuse);
        auto takes = [&](const echo::schedule& steps) {
            return echo::plan_memory(s, steps, {.granularity = 512, .limit = 0}).bytes();
        };
        print(name, s, {.host = {.fuse = fuse}, .allocator = takes}, with + " for an allocator");
        print(name, s, {.budget = whole / 100 * 75, .host = {.fuse = fuse}, .allocator = takes},
              with + " for an allocator within 75 %");
    }
    print(name, s, {.max_overhead = 0.2}, "20 % of time");
    print(name, s, {.host = {.recompute = false}}, "no recomputation");
    print(name, s, {.host = {.recompute_results = false, .move = false, .erase = false}}, "nothing moves");
    std::fflush(stdout);
}

void print_file(const std::string& path) {
    const auto s = echo::read(
        echo::format::read_graph_file(path, [](std::string_view op) { return echo::aten.find(op); }));
    print_all(std::filesystem::path(path).stem().stem().string(), s);
}

int usage() {
    fmt::print(stderr, "usage: bench-plans GRAPH… | bench-plans random FIRST COUNT\n");
    return 2;
}

} // namespace

int main(int arguments, char** argument) {
    const std::vector<std::string> given(argument + 1, argument + arguments);
    if (given.empty() || (given[0] == "random" && given.size() != 3)) return usage();
    try {
        if (given[0] == "random") {
            const std::uint64_t first = std::strtoull(argument[2], nullptr, 10);
            const std::uint64_t count = std::strtoull(argument[3], nullptr, 10);
            for (std::uint64_t i = first; i < first + count; ++i)
                print_all(fmt::format("random-{}", i), support::numbered_graph(i, i % 3 == 2 ? 140 : 60));
        } else {
            for (const auto& path : given) print_file(path);
        }
    } catch (const std::exception& e) {
        fmt::print(stderr, "bench-plans: {}\n", e.what());
        return 1;
    }
}
