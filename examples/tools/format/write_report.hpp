// SPDX-License-Identifier: BSL-1.0
/// @file
/// The report object of `echo-plan/1`, which `echo-plan --json` prints too.
#pragma once

#include "format/json_out.hpp"

#include <echo/analysis/plan/plan.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

/// What is known of a plan beside its own report.
struct report_extras {
    std::string_view strategy{}; ///< written if not empty: in a list, reports need their names
    std::uint64_t arena_bytes = 0, arena_lower_bound_bytes = 0;
    double plan_ms = 0; ///< reading into a snapshot and planning
    double pass_ms = 0; ///< the whole pass: reading into a snapshot, planning, placing, verifying
    double load_ms = 0; ///< reading the file
    std::vector<std::string> notes{}; ///< on how the file was read
};

/// One object over several lines, each after the first indented by `indent`.
inline std::string report_text(const plan_report& r, const report_extras& more,
                               std::string_view indent = "") {
    std::string made;
    json_out out([&](std::string_view bytes) { made += bytes; });
    std::string_view comma;
    const auto key = [&](std::string_view name) {
        out.put(comma, "\n", indent, " \"", name, "\": ");
        comma = ",";
    };
    const auto whole = [&](std::string_view name, std::uint64_t value) {
        key(name);
        out.put(value);
    };
    const auto number = [&](std::string_view name, double value) {
        key(name);
        out.number(value);
    };
    const auto texts = [&](std::string_view name, const std::vector<std::string>& values) {
        key(name);
        out.put("[");
        for (std::string_view between; const auto& value : values) {
            out.put(between);
            out.text(value);
            between = ", ";
        }
        out.put("]");
    };

    out.put("{");
    if (!more.strategy.empty()) {
        key("strategy");
        out.text(more.strategy);
    }
    whole("baseline_peak_bytes", r.baseline_peak_bytes);
    whole("peak_bytes", r.peak_bytes);
    whole("resident_bytes", r.resident_bytes);
    whole("baseline_stash_bytes", r.baseline_stash_bytes);
    whole("stash_bytes", r.stash_bytes);
    whole("lower_bound_bytes", r.lower_bound_bytes);
    if (r.budget_bytes != any_peak) whole("budget_bytes", r.budget_bytes);
    whole("arena_bytes", more.arena_bytes);
    whole("arena_lower_bound_bytes", more.arena_lower_bound_bytes);
    whole("recomputed_nodes", r.recomputed_nodes);
    whole("encoded_values", r.encoded_values);
    whole("fused_nodes", r.fused_nodes);
    if (r.link) {
        whole("offloaded_values", r.offloaded_values);
        whole("offloaded_bytes", r.offloaded_bytes);
        whole("host_bytes", r.host_bytes);
        number("stall_time_ratio", r.stall_time_ratio);
        number("out_time_ratio", r.out_time_ratio);
        number("in_time_ratio", r.in_time_ratio);
    }
    if (r.dead_backward_nodes > 0) whole("dead_backward_nodes", r.dead_backward_nodes);
    number("recompute_time_ratio", r.recompute_time_ratio);
    if (r.recompute_time_bound > 0) number("recompute_time_bound", r.recompute_time_bound);
    whole("subgraphs", r.subgraphs);
    number("plan_ms", more.plan_ms);
    number("pass_ms", more.pass_ms);
    number("load_ms", more.load_ms);
    texts("unknown_ops", r.unknown_ops);
    std::vector<std::string> notes = r.notes;
    notes.insert(notes.end(), more.notes.begin(), more.notes.end());
    texts("notes", notes);
    out.put("\n", indent, "}");
    out.flush();
    return made;
}

} // namespace echo::format
