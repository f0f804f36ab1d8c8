// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan` prints for people: one plan in a few lines, or all strategies in a table.
#pragma once

#include "command_line/one_line.hpp"
#include "plan/claim_text.hpp"
#include "plan/fused_text.hpp"
#include "plan/pass.hpp"
#include "plan/spark.hpp"
#include "plan/table.hpp"
#include "plan/units.hpp"

#include <echo/analysis/profile.hpp>

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

inline std::string summary(const loaded_graph& g, const options& asked, const verified_plan& made) {
    const plan_report& r = made.plan.report();
    std::string out;
    const auto line = [&]<class... Arguments>(std::string_view what, fmt::format_string<Arguments...> format,
                                              Arguments&&... arguments) {
        fmt::format_to(std::back_inserter(out), "{:<12}", what);
        fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
        out += '\n';
    };
    line("graph", "{}, {} nodes", short_name(g.name.empty() ? "without a name" : g.name),
         g.snapshot.node_count());
    if (made.made_here)
        line("strategy", "{}", claim(made.plan, max_overhead_of(asked)));
    else
        line("plan", "read from {}", short_name(shown_input(asked.given_plan)));
    line("peak", "{} -> {} ({} smaller)", show_bytes(r.baseline_peak_bytes), show_bytes(r.peak_bytes),
         show_ratio(r.baseline_peak_bytes, r.peak_bytes));
    line("bound", "{} ({}; gap {} %)", show_bytes(r.lower_bound_bytes),
         bound_claim(made.plan, max_overhead_of(asked), made.made_here), show_gap(r));
    line("stash", "{} -> {}", show_bytes(r.baseline_stash_bytes), show_bytes(r.stash_bytes));
    line("resident", "{} (parameters, optimizer state, inputs; not in the peak)",
         show_bytes(r.resident_bytes));
    line("overhead", "{:.2f} % of a step's time; nodes recomputed: {}, values encoded: {}",
         100 * r.recompute_time_ratio, r.recomputed_nodes, r.encoded_values);
    if (r.link)
        line("offload",
             "{} values, {} each way; the step waits for {:.2f} % of its time; copies leave for {:.0f} % of "
             "it, "
             "come back for {:.0f} %; {} of the host's memory",
             r.offloaded_values, show_bytes(r.offloaded_bytes), 100 * r.stall_time_ratio,
             100 * r.out_time_ratio, 100 * r.in_time_ratio, show_bytes(r.host_bytes));
    if (r.recompute_time_bound > 0)
        line("at least",
             "{:.2f} % (no plan within {} that runs each gradient once, in its order, recomputes for less)",
             100 * r.recompute_time_bound, show_bytes(r.budget_bytes));
    if (made.plan.host().fuse) line("fused", "{}", fused_text(g.snapshot, made.plan));
    line("subgraphs", "{} between compute-heavy ops, the largest of {} nodes", r.subgraphs,
         r.largest_subgraph);
    line("arena", "{} (at least {})", show_bytes(made.extras.arena_bytes),
         show_bytes(made.extras.arena_lower_bound_bytes));
    line("time", "{:.1f} ms for the pass, {:.1f} ms for reading the file", made.extras.pass_ms,
         made.extras.load_ms);
    replay judge;
    const auto curve = [&](std::string_view what, const schedule& steps, std::string_view whose) {
        const replayed run = judge(g.snapshot, steps);
        line(what, "{} {}", spark(run.load(), r.baseline_peak_bytes, shows_utf8()), whose);
    };
    curve("memory", baseline_schedule(g.snapshot), "without Echo");
    curve("", made.plan.steps(), "with Echo");
    const memory_profile before = profile(g.snapshot, baseline_schedule(g.snapshot));
    const memory_profile after = profile(g.snapshot, made.plan.steps());
    line("at the peak", "{} -> {}", short_name(before.at), short_name(after.at));
    const auto where = [&](std::string_view what, const std::vector<profile_row>& was,
                           const std::vector<profile_row>& is) {
        for (std::size_t i = 0; i < was.size() && i < 4; ++i)
            line(i == 0 ? what : "", "{} -> {} {}", show_bytes(was[i].bytes),
                 show_bytes(bytes_of(is, was[i].name)),
                 was[i].name.empty() ? "(no layer)" : short_name(was[i].name));
    };
    where("  by kind", before.by_structure, after.by_structure);
    where("  by op", before.by_op, after.by_op);
    where("  by layer", before.by_layer, after.by_layer);
    if (!asked.report_dir.empty()) line("report", "{}/index.html", one_line(asked.report_dir));
    for (const auto& note : r.notes) line("note", "{}", one_line(note));
    for (const auto& note : made.extras.notes) line("note", "{}", one_line(note));
    for (const auto& op : r.unknown_ops) line("unknown op", "{} (left alone)", short_name(op));
    return out;
}

inline std::string comparison(const options& asked, std::span<const verified_plan> all) {
    const bool fuse = !all.empty() && all.front().plan.host().fuse;
    table::row head{"strategy", "peak before", "peak after", "ratio", "gap %", "overhead %", "recomputed"};
    if (fuse) head.push_back("fused");
    head.insert(head.end(), {"encoded", "arena", "pass ms"});
    table rows(std::move(head));
    for (const auto& made : all) {
        const plan_report& r = made.plan.report();
        table::row cells{short_claim(made.plan, max_overhead_of(asked)),
                         show_bytes(r.baseline_peak_bytes),
                         show_bytes(r.peak_bytes),
                         show_ratio(r.baseline_peak_bytes, r.peak_bytes),
                         show_gap(r),
                         fmt::format("{:.2f}", 100 * r.recompute_time_ratio),
                         std::to_string(r.recomputed_nodes)};
        if (fuse) cells.push_back(std::to_string(r.fused_nodes));
        cells.insert(cells.end(), {std::to_string(r.encoded_values), show_bytes(made.extras.arena_bytes),
                                   fmt::format("{:.1f}", made.extras.pass_ms)});
        rows.add(std::move(cells));
    }
    return rows.text();
}

} // namespace echo::format
