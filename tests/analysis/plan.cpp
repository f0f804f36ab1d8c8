// SPDX-License-Identifier: BSL-1.0
/// @file
/// Plans as values: what a report says in words, which nodes run again, when a budget is met, and where a copy lies.
#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>

#include <catch2/catch.hpp>

#include <sstream>

namespace {

std::string printed(const echo::plan_report& r) {
    std::ostringstream out;
    out << r;
    return out.str();
}

} // namespace

TEST_CASE("a report in words") {
    echo::plan_report r;
    r.baseline_peak_bytes = 6'000'000;
    r.peak_bytes = 3'000'000;
    r.lower_bound_bytes = 2'000'000;
    r.baseline_stash_bytes = 5'000'000;
    r.stash_bytes = 1'000'000;
    r.resident_bytes = 7'000'000;
    r.recomputed_nodes = 4;
    r.encoded_values = 2;
    r.recompute_time_ratio = 0.125;
    CHECK(printed(r) == "peak 6 -> 3 MB (2x, bound 2 MB, gap 50 %)\n"
                        "stash 5 -> 1 MB, resident 7 MB\n"
                        "recomputed nodes 4, encoded values 2, recompute time 12.5 % of a step\n");
    r.fused_nodes = 3;
    r.notes = {"all is well"};
    r.unknown_ops = {"mystery"};
    r.lower_bound_bytes = 0; // no gap is a part of nothing
    CHECK(printed(r) ==
          "note: all is well\n"
          "peak 6 -> 3 MB (2x, bound 0 MB, gap 0 %)\n"
          "stash 5 -> 1 MB, resident 7 MB\n"
          "recomputed nodes 4, encoded values 2, fused nodes 3, recompute time 12.5 % of a step\n"
          "unknown op (left alone): mystery\n");
}

TEST_CASE("a report says what is not as it was asked for") {
    echo::plan_report r{
        .baseline_peak_bytes = 4'000'000, .peak_bytes = 3'000'000, .lower_bound_bytes = 3'000'000};
    r.budget_bytes = 2'000'000;
    r.recompute_time_ratio = 1.5;
    CHECK(printed(r) ==
          "budget not met: 3 MB needed, 2 MB asked for\n"
          "peak 4 -> 3 MB (1.33333x, bound 3 MB, gap 0 %)\n"
          "stash 0 -> 0 MB, resident 0 MB\n"
          "recomputed nodes 0, encoded values 0, recompute time 150 % of a step: recomputation takes "
          "longer than the step without it\n");
    r.allocated_bytes = 5'000'000;
    CHECK(printed(r).starts_with("budget not met: 5 MB needed"));
    r.budget_bytes = 5'000'000;
    r.recompute_time_ratio = 1;
    CHECK(printed(r).starts_with("peak"));
    CHECK(printed(r).find("longer") == std::string::npos);
}

TEST_CASE("a report of nothing divides by nothing") {
    CHECK(printed({}) == "peak 0 -> 0 MB\n"
                         "stash 0 -> 0 MB, resident 0 MB\n"
                         "recomputed nodes 0, encoded values 0, recompute time 0 % of a step\n");
}

TEST_CASE("a budget is met by the larger of peak and what the allocator takes") {
    const auto met = [](std::uint64_t peak, std::uint64_t allocated, std::uint64_t budget) {
        echo::plan_report r;
        r.peak_bytes = peak;
        r.allocated_bytes = allocated;
        r.budget_bytes = budget;
        return echo::plan(echo::strategy::budget, {}, {}, r).met();
    };
    CHECK(met(10, 0, 10));
    CHECK_FALSE(met(11, 0, 10));
    CHECK(met(5, 10, 10));
    CHECK_FALSE(met(5, 11, 10));
    CHECK(met(5, 11, echo::any_peak));
}

TEST_CASE("a copy lies in the last arena that begins at or before it") {
    echo::memory_plan_parts parts;
    parts.first_copy = {0, 2, 4};
    parts.offsets = {0, 96, 100, echo::memory_plan_parts::no_offset};
    const echo::step_id first(0), second(1);
    const echo::memory_plan one(parts);
    CHECK(one.where({first, 1}) == echo::memory_place{0, 96});
    parts.arenas = {
        {.first = 0, .capacity = 90}, {.first = 96, .capacity = 10}, {.first = 112, .capacity = 5}};
    const echo::memory_plan several(parts);
    CHECK(several.where({first, 0}) == echo::memory_place{0, 0});
    CHECK(several.where({first, 1}) == echo::memory_place{1, 0});
    CHECK(several.where({second, 0}) == echo::memory_place{1, 4});
    CHECK_FALSE(several.where({second, 1})); // on resident storage
    CHECK_FALSE(several.where({second, 2}));
    CHECK_FALSE(several.where({echo::step_id(2), 0}));
}
