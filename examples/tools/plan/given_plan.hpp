// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan GRAPH --plan FILE`: a plan that was made elsewhere is judged and shown as if it had been made here.
#pragma once

#include "command_line/file_error.hpp"
#include "command_line/place.hpp"
#include "format/read_plan.hpp"
#include "plan/pass.hpp"
#include "plan/report_of_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <streambuf>
#include <string>
#include <utility>

namespace echo::format {

/// The strategy of that name; `budget` where there is none, since such a plan may do all that Echo can.
inline strategy strategy_named(std::string_view name) {
    for (const strategy how : all_strategies)
        if (name_of(how) == name) return how;
    return strategy::budget;
}

/// An error of a plan's file: which step, what is wrong, what to do.
inline file_error error_of_plan(const std::string& path, const error& e) {
    std::string where = e.node();
    if (!where.empty() && !where.starts_with("step ")) where = "node '" + where + "'";
    if (!e.key().empty()) where += (where.empty() ? "" : ", ") + e.key();
    return {{},
            shown_input(path),
            where.empty() ? e.problem() : where + ": " + e.problem(),
            e.advice().empty() ? "make the plan of this graph" : e.advice()};
}

/// The plan in `source`, placed by us and verified; `path` for errors. Errors: the file is no plan for this graph, or
/// an unsound one.
inline verified_plan read_given(const loaded_graph& g, const std::string& path, std::streambuf& source,
                                progress& line) {
    const stopwatch watch;
    try {
        plan_document document = read_plan(source, g.snapshot);
        if (!document.link && std::ranges::any_of(document.steps.steps(), [&](step_id t) {
                return document.steps[t].kind == step_kind::offload;
            }))
            throw error({}, "link", "is missing, though steps move values to the host's memory",
                        "say how fast copies travel");
        plan_report r = report_of_steps(g.snapshot, document.steps, document.link);
        if (r.peak_bytes > r.baseline_peak_bytes)
            throw error({}, "schedule",
                        fmt::format("its peak of {} bytes is above that of the graph's own order, {}",
                                    r.peak_bytes, r.baseline_peak_bytes),
                        "leave out recomputations, or run the graph without a plan");
        const host_abilities all{.fuse = document.steps.fused_count() > 0, .offload = bool{document.link}};
        line.stage("bounding");
        r.lower_bound_bytes = std::min(
            r.peak_bytes, front(g.snapshot, {.host = all, .link = document.link}, 1).lower_bound_bytes);
        r.notes.push_back("the plan was read from a file");
        verified_plan made{.made_here = false};
        made.plan = plan(strategy_named(document.strategy), std::move(document.steps), all, std::move(r));
        line.stage("placing");
        made.arena = plan_memory(g.snapshot, made.plan);
        verify(g.snapshot, made.plan, made.arena);
        made.extras = {.arena_bytes = made.arena.bytes(),
                       .arena_lower_bound_bytes = made.arena.lower_bound(),
                       .plan_ms = watch.ms(),
                       .pass_ms = watch.ms(),
                       .load_ms = g.load_ms};
        return made;
    } catch (const error& e) {
        throw error_of_plan(path, e);
    }
}

/// Likewise, of the file that the options name.
inline verified_plan read_given(const loaded_graph& g, const options& asked, progress& line) {
    line.stage("reading the plan");
    std::unique_ptr<std::streambuf> source;
    try {
        source = open_source(asked.given_plan, {}, line.parts());
    } catch (const error& e) {
        throw error_of_plan(asked.given_plan, e);
    }
    return read_given(g, asked.given_plan, *source, line);
}

} // namespace echo::format
