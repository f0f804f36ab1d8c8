// SPDX-License-Identifier: BSL-1.0
/// @file
/// `bench-laws FIRST COUNT`: random graphs of 10 to 60 nodes number FIRST to FIRST + COUNT, a third of them without
/// forward results, through `budget`, `min_cut` and `echo`. Of every plan the peak is compared with the baseline's,
/// `verify` is asked, and a second replay that shares no code with the library's judges it
/// (tests/support/by_definition.hpp). Prints what was counted as JSON, and the first graphs that broke a law.
/// `bench/run laws [COUNT]` splits a million over the cores and keeps the counts.

#include "support/laws.hpp"
#include "support/numbered_graph.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>

namespace {

std::map<std::string, std::size_t> counted;

void count_graph(const echo::snapshot& s) {
    bool views = false, in_place = false, never = false, seeded = false, control = false, one_bit = false,
         forward_results = false;
    for (const auto n : s.nodes()) {
        const bool input = s[n].phase == echo::phase::input;
        never |= !input && s[n].rerun == echo::rerun_kind::never;
        seeded |= s[n].rerun == echo::rerun_kind::seeded;
        control |= !s.control(n).empty();
        for (std::size_t k = 0; k < s.inputs(n).size(); ++k) one_bit |= s.one_bit(n, k);
        for (const auto v : s.outputs(n)) {
            views |= s[v].view_of != echo::no_input;
            in_place |= s[v].inplace != echo::no_input;
        }
    }
    for (const auto v : s.results()) forward_results |= !echo::runs_after_forward(s[s[v].producer].phase);
    counted["graphs"] += 1;
    counted["graphs with aliases"] += views;
    counted["graphs with writes in place"] += in_place;
    counted["graphs with ops that never rerun"] += never;
    counted["graphs with seeded ops"] += seeded;
    counted["graphs with control dependencies"] += control;
    counted["graphs with one-bit reads"] += one_bit;
    counted["graphs with forward results"] += forward_results;
}

void count_plan(const echo::plan& p) {
    const auto& r = p.report();
    counted["plans"] += 1;
    counted["plans of a lower peak"] += r.peak_bytes < r.baseline_peak_bytes;
    counted["plans that recompute"] += r.recomputed_nodes > 0;
    counted["plans that encode"] += r.encoded_values > 0;
    counted["budgets"] += p.chosen_by() == echo::strategy::budget;
    counted["budgets met"] += p.chosen_by() == echo::strategy::budget && p.met();
}

/// Throws what `verify` or a law says.
void plan_one(const echo::snapshot& s, const support::definition& before, const echo::plan_options& options) {
    const auto p = echo::make_plan(s, options);
    count_plan(p);
    const auto faults = support::wrong(s, p.steps());
    support::require(faults.empty(), "second replay: " + support::lines(faults));
    const auto after = support::by_definition(s, p.steps());
    support::require(after.peak_bytes <= before.peak_bytes, "the peak rose");
    support::require(after.peak_bytes == p.report().peak_bytes, "the peak is not that of the second replay");
    support::require_budget(s, p, options);
    echo::verify(s, p);
}

} // namespace

int main(int arguments, char** argument) {
    if (arguments != 3) {
        fmt::print(stderr, "usage: bench-laws FIRST COUNT\n");
        return 2;
    }
    const std::uint64_t first = std::strtoull(argument[1], nullptr, 10),
                        count = std::strtoull(argument[2], nullptr, 10);
    std::size_t broken = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
        const echo::snapshot s = support::numbered_graph(i);
        count_graph(s);
        try {
            const auto before = support::by_definition(s, echo::baseline_schedule(s));
            const std::uint64_t part = 20 + i % 80;
            plan_one(s, before, {.how = echo::strategy::budget, .budget = before.peak_bytes * part / 100});
            plan_one(s, before, {.how = echo::strategy::min_cut});
            plan_one(s, before, {.how = echo::strategy::echo});
        } catch (const std::exception& e) {
            if (++broken <= 10) fmt::print(stderr, "graph {}, {} nodes: {}\n", i, s.node_count(), e.what());
        }
    }
    fmt::print("{{");
    for (const auto& [what, times] : counted) fmt::print("\"{}\": {}, ", what, times);
    fmt::print("\"graphs that broke a law\": {}}}\n", broken);
    return broken == 0 ? 0 : 1;
}
