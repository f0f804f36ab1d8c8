// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan --pareto`: the front of peak against recomputation, for people or as one JSON object.
#pragma once

#include "format/json_out.hpp"
#include "plan/pass.hpp"
#include "plan/table.hpp"
#include "plan/units.hpp"

#include <fmt/format.h>

#include <string>

namespace echo::format {

inline std::string front_json(const loaded_graph& g, const plan_front& found, double pass_ms) {
    std::string made;
    json_out out([&](std::string_view bytes) { made += bytes; });
    out.put("{\n \"graph\": ");
    out.text(g.name);
    out.put(",\n \"baseline_peak_bytes\": ", found.baseline_peak_bytes);
    out.put(",\n \"lower_bound_bytes\": ", found.lower_bound_bytes);
    out.put(",\n \"pass_ms\": ");
    out.number(pass_ms);
    out.put(",\n \"front\": [");
    for (std::string_view comma; const auto& point : found.points) {
        out.put(comma, "\n  {\"peak_bytes\": ", point.peak_bytes, ", \"recompute_time_ratio\": ");
        out.number(point.recompute_time_ratio);
        out.put("}");
        comma = ",";
    }
    out.put("\n ]\n}\n");
    out.flush();
    return made;
}

inline std::string front_table(const plan_front& found) {
    table rows({"peak", "of baseline", "overhead %"});
    for (const auto& point : found.points)
        rows.add({show_bytes(point.peak_bytes), show_part(point.peak_bytes, found.baseline_peak_bytes),
                  fmt::format("{:.2f}", 100 * point.recompute_time_ratio)});
    return rows.text() +
           fmt::format("bound: {} (no plan that runs each gradient once, in its order, is smaller)\n",
                       show_bytes(found.lower_bound_bytes));
}

/// Errors: as `run_pass`.
inline std::string run_front(const loaded_graph& g, const options& asked, progress& line) {
    const stopwatch watch;
    line.stage("planning");
    const auto show = [&](double part) { line.part_done(part); };
    plan_options wanted = plan_options_of(asked, g, strategy::budget);
    wanted.progress = show;
    const plan_front found = front(g.snapshot, wanted);
    const double pass_ms = g.read_ms + watch.ms();
    return asked.json ? front_json(g, found, pass_ms) : front_table(found);
}

} // namespace echo::format
