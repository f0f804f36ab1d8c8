// SPDX-License-Identifier: BSL-1.0
/// @file
/// The data of a report, and its page.

#include "report/report.hpp"
#include "report/side_data.hpp"
#include "report/words.hpp"

#include <array>

namespace echo::report {
namespace {

void put_figures(json_out& out, std::string_view key, const subject& shown) {
    const plan_report& r = shown.made->report();
    put_key(out, key);
    out.put("{");
    put_key(out, "strategy", true);
    out.text(name_of(shown.made->chosen_by()));
    put_key(out, "claim");
    out.text(shown.made_here ? format::claim(*shown.made, shown.max_overhead) : "a plan from a file");
    out.put(",\"peak\":", r.peak_bytes, ",\"baselinePeak\":", r.baseline_peak_bytes,
            ",\"bound\":", r.lower_bound_bytes, ",\"overhead\":");
    out.number(r.recompute_time_ratio);
    out.put(",\"maxOverhead\":");
    out.number(shown.made_here && format::within_overhead(*shown.made) ? shown.max_overhead : 0);
    put_texts(out, "unknownOps", r.unknown_ops.size(), [&](std::size_t i) { return r.unknown_ops[i]; });
    std::vector<std::string> notes = r.notes;
    notes.insert(notes.end(), shown.notes.begin(), shown.notes.end());
    put_texts(out, "notes", notes.size(), [&](std::size_t i) { return notes[i]; });
    out.put("}");
}

void put_front(json_out& out, const plan_front& front) {
    put_key(out, "front");
    out.put("{\"bound\":", front.lower_bound_bytes);
    const auto& points = front.points;
    put_column(out, "peak", points.size(), [&](std::size_t i) { return points[i].peak_bytes; });
    put_key(out, "overhead");
    out.put("[");
    for (std::size_t i = 0; i < points.size(); ++i) {
        out.put(i == 0 ? "" : ",");
        out.number(points[i].recompute_time_ratio);
    }
    out.put("]}");
}

void put_sides(json_out& out, const std::array<side, 2>& sides) {
    put_key(out, "sides");
    out.put("[");
    put_side(out, sides[0]);
    out.put(",\n");
    put_side(out, sides[1]);
    out.put("]");
}

/// The JSON text that `write` makes.
template <class Write>
std::string text_of(const Write& write) {
    std::string made;
    json_out out([&](std::string_view bytes) { made += bytes; });
    out.put("{\"format\":\"echo-report/1\"");
    write(out);
    out.put("}\n");
    out.flush();
    return made;
}

} // namespace

bool has_gradients(const snapshot& s) {
    for (const auto n : s.nodes())
        if (s[n].phase >= phase::backward) return true;
    return false;
}

std::string report_of(const subject& shown) {
    const bool arena_only = has_arena_only(shown);
    const schedule own = baseline_schedule(*shown.graph);
    const std::array<side, 2> sides{side{.title = "Without Echo", .of = shown.graph, .steps = &own},
                                    side{.title = arena_only ? "Live" : "With Echo",
                                         .of = shown.graph,
                                         .steps = &shown.made->steps(),
                                         .arena = shown.arena}};
    return make_page(head_of(shown), text_of([&](json_out& out) {
                         put_key(out, "graphs");
                         out.put("[");
                         put_graph(out, *shown.graph, shown.name);
                         out.put("]");
                         put_sides(out, sides);
                         put_figures(out, "plan", shown);
                         if (arena_only) out.put(",\"arenaOnly\":true");
                         if (shown.front) put_front(out, *shown.front);
                     }));
}

std::string comparison_of(const subject& before, const subject& after) {
    const bool same = before.graph == after.graph; // which then stands in the page once
    const std::array<side, 2> sides{side{.title = before.name,
                                         .of = before.graph,
                                         .steps = &before.made->steps(),
                                         .has_reasons = !before.is_program},
                                    side{.title = after.name,
                                         .graph = same ? 0U : 1U,
                                         .of = after.graph,
                                         .steps = &after.made->steps(),
                                         .has_reasons = !after.is_program,
                                         .arena = after.arena}};
    return make_page(head_of(before, after), text_of([&](json_out& out) {
                         put_key(out, "graphs");
                         out.put("[");
                         put_graph(out, *before.graph, before.name);
                         if (!same) {
                             out.put(",\n");
                             put_graph(out, *after.graph, after.name);
                         }
                         out.put("]");
                         put_sides(out, sides);
                         put_figures(out, "before", before);
                         put_figures(out, "plan", after);
                     }));
}

} // namespace echo::report
