// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan --knee`: what 1, 2, 5 and 10 % of a step would buy, for people or as one JSON object.
#pragma once

#include "command_line/one_line.hpp"
#include "format/json_out.hpp"
#include "plan/pass.hpp"
#include "plan/table.hpp"
#include "plan/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

/// The plan of least peak that was found within a part of a step's time.
struct knee_point {
    double max_overhead = 0;
    plan_report found{};
};

inline std::string knee_json(const loaded_graph& g, const std::vector<knee_point>& points, double pass_ms) {
    std::string made;
    json_out out([&](std::string_view bytes) { made += bytes; });
    out.put("{\n \"graph\": ");
    out.text(g.name);
    out.put(",\n \"baseline_peak_bytes\": ", points.front().found.baseline_peak_bytes);
    out.put(",\n \"pass_ms\": ");
    out.number(pass_ms);
    out.put(",\n \"knee\": [");
    for (std::string_view comma; const auto& [asked, found] : points) {
        out.put(comma, "\n  {\"max_overhead\": ");
        out.number(asked);
        out.put(", \"peak_bytes\": ", found.peak_bytes, ", \"recompute_time_ratio\": ");
        out.number(found.recompute_time_ratio);
        out.put(", \"lower_bound_bytes\": ", found.lower_bound_bytes, "}");
        comma = ",";
    }
    out.put("\n ]\n}\n");
    out.flush();
    return made;
}

inline std::string knee_table(const std::vector<knee_point>& points) {
    const std::uint64_t baseline = points.front().found.baseline_peak_bytes;
    table rows({"within %", "peak", "of baseline", "overhead %", "gap %"});
    std::vector<std::string> notes;
    for (const auto& [asked, found] : points) {
        rows.add({fmt::format("{:g}", 100 * asked), show_bytes(found.peak_bytes),
                  show_part(found.peak_bytes, baseline),
                  fmt::format("{:.2f}", 100 * found.recompute_time_ratio), show_gap(found)});
        for (const auto& note : found.notes)
            if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
    std::string text =
        rows.text() + fmt::format("without Echo: {}; the gap is to the bound that is certified within "
                                  "the same overhead\n",
                                  show_bytes(baseline));
    for (const auto& note : notes) text += fmt::format("note: {}\n", one_line(note));
    return text;
}

/// A plan within less is one within more as well, so that no point has a higher peak than one before it. Errors: as
/// `run_pass`.
inline std::string run_knee(const loaded_graph& g, const options& asked, progress& line) {
    const stopwatch watch;
    std::vector<knee_point> points;
    for (const double part : {0.01, 0.02, 0.05, 0.1}) {
        options once = asked;
        once.max_overhead = part;
        plan_report found = run_pass(g, once, strategy::budget, line).plan.report();
        if (!points.empty() && points.back().found.peak_bytes < found.peak_bytes) {
            const std::uint64_t bound = found.lower_bound_bytes;
            found = points.back().found;
            found.lower_bound_bytes = bound;
        }
        points.push_back({part, std::move(found)});
    }
    const double pass_ms = g.read_ms + watch.ms();
    return asked.json ? knee_json(g, points, pass_ms) : knee_table(points);
}

} // namespace echo::format
