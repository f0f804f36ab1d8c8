// SPDX-License-Identifier: BSL-1.0
/// @file
/// The laws of plans as functions that throw what is broken.
#pragma once

#include "../hosts/vector_host.hpp"
#include "by_definition.hpp"

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/decision/fusable.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

struct law_broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& law) {
    if (!holds) throw law_broken(law);
}

inline std::string lines(const std::vector<std::string>& all) {
    std::string text;
    for (const auto& line : all) text += line + "; ";
    return text;
}

/// Laws of one schedule for one graph: it computes what the graph computes, and both replays agree.
inline definition require_sound(const echo::snapshot& s, const echo::schedule& steps) {
    const auto faults = wrong(s, steps);
    require(faults.empty(), "law 2: " + lines(faults));
    auto defined = by_definition(s, steps);
    const auto replayed = echo::footprint(s, steps);
    require(replayed.peak_bytes == defined.peak_bytes, "the replay's peak is not that of the definition");
    require(replayed.stash_bytes == defined.stash_bytes, "the replay's stash is not that of the definition");
    return defined;
}

/// Law 3: no dead node, no copy made again for nobody.
inline void require_lean(const echo::snapshot& s, const echo::plan& p, const definition& before,
                         const definition& after) {
    const auto dead = dead_by_definition(s, before);
    for (const auto t : p.steps().steps()) {
        const auto& step = p.steps()[t];
        if (p.host().erase)
            require(!dead[step.node.index()], "law 3: the dead node '" + s.name(step.node) + "' runs");
        if (step.kind == echo::step_kind::run) continue;
        bool used = false;
        for (const auto& copy : after.copies[t.index()]) used |= copy.named || copy.result;
        require(used, "law 3: '" + s.name(step.node) + "' runs again, and nobody reads it");
    }
}

inline void require_laws(const echo::snapshot& s, const echo::plan& p, const definition& before) {
    const auto after = require_sound(s, p.steps());
    require(after.peak_bytes <= before.peak_bytes, "law 1: the peak rose");
    require(after.peak_bytes == p.report().peak_bytes, "the report's peak is not the replay's");
    require(before.peak_bytes == p.report().baseline_peak_bytes, "the baseline's peak is not the replay's");
    require(before.resident_bytes == p.report().resident_bytes, "the resident bytes are not the replay's");
    require(p.report().lower_bound_bytes <= after.peak_bytes, "the bound lies above the peak");
    if (!(p.steps() == echo::baseline_schedule(s))) require_lean(s, p, before, after);
    echo::verify(s, p);                                                     // law 5
    const auto m = echo::plan_memory(s, p, {.align = 1, .granularity = 1}); // law 6
    echo::verify(s, p, m);
    require(m.bytes() >= m.lower_bound(), "law 6: the arena is smaller than what is live in it");
}

/// What a budget promises: a graph that fits is left alone, the bound is a bound, and recomputation keeps to its limit.
inline void require_budget(const echo::snapshot& s, const echo::plan& p, const echo::plan_options& asked) {
    const auto& r = p.report();
    require(p.met() == (r.peak_bytes <= asked.budget), "a plan is not as good as it says");
    if (p.chosen_by() != echo::strategy::budget) return;
    if (asked.budget == echo::any_peak) {
        require(r.recompute_time_ratio <= asked.max_overhead + 1e-9, "recomputation goes beyond its limit");
        return;
    }
    if (asked.budget >= r.baseline_peak_bytes)
        require(p.steps() == echo::baseline_schedule(s), "the graph fits, and is changed all the same");
    if (asked.budget < r.lower_bound_bytes) require(!p.met(), "a budget below the bound is met");
    require(p.met() || r.blocker.valid() || r.peak_bytes == 0, "a budget is not met, and nothing blocks");
}

/// Fusion makes nothing worse than the plan that the same options give without it.
inline void require_no_worse(const echo::plan& fused, const echo::plan& plain,
                             const echo::plan_options& asked) {
    const auto &f = fused.report(), &p = plain.report();
    require(p.fused_nodes == 0, "something is fused for a host that does not fuse");
    if (fused.chosen_by() == echo::strategy::budget && asked.budget != echo::any_peak) {
        require(f.peak_bytes <= std::max(p.peak_bytes, asked.budget),
                "with fusion the budget is missed by more");
        const bool same = std::max(f.peak_bytes, asked.budget) == std::max(p.peak_bytes, asked.budget);
        require(!same || f.recompute_time_ratio <= p.recompute_time_ratio, "with fusion more time is spent");
        return;
    }
    require(f.peak_bytes <= p.peak_bytes, "with fusion the peak is higher");
    if (fused.chosen_by() != echo::strategy::budget)
        require(f.recompute_time_ratio <= p.recompute_time_ratio, "with fusion more time is spent");
}

/// What `fusion_limits` promise, counted anew.
inline void require_fusion_limits(const echo::snapshot& s, const echo::schedule& steps) {
    std::vector<std::set<std::size_t>> inside(steps.size()), readers(steps.size());
    for (const auto t : steps.steps())
        for (const auto c : steps.inputs(t)) {
            if (!steps[c.step].fused) continue;
            inside[t.index()].insert(c.step.index());
            inside[t.index()].insert(inside[c.step.index()].begin(), inside[c.step.index()].end());
        }
    for (const auto t : steps.steps()) {
        if (steps[t].fused) continue;
        std::size_t light = 0;
        for (const auto i : inside[t.index()]) {
            readers[i].insert(t.index());
            light += s[steps[echo::step_id(i)].node].kind == echo::op_kind::light;
        }
        require(light <= echo::detail::fusion_limits{}.inside, "too much is recomputed inside one step");
    }
    for (const auto& all : readers)
        require(all.size() <= echo::detail::fusion_limits{}.readers, "a step is recomputed inside too many");
}

/// Law 10.
inline void require_applied(const echo::snapshot& s, const echo::plan& p) {
    auto host = hosts::vector_host::from_snapshot(s);
    echo::apply(p, host);
    const echo::snapshot again = echo::read(host);
    const auto replayed = echo::footprint(again, echo::baseline_schedule(again));
    require(replayed.peak_bytes == p.report().peak_bytes,
            "law 10: applied, the graph's peak is " + std::to_string(replayed.peak_bytes) + ", planned was " +
                std::to_string(p.report().peak_bytes));
}

} // namespace support
