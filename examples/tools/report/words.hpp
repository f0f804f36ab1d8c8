// SPDX-License-Identifier: BSL-1.0
/// @file
/// What stands at the head of a report, in words: figures, the bound and the gap.
#pragma once

#include "plan/claim_text.hpp"
#include "plan/decimal.hpp"
#include "plan/units.hpp"
#include "report/page.hpp"
#include "report/report.hpp"

#include <echo/analysis/plan/decision/cost.hpp>

#include <string>
#include <utility>

namespace echo::report {

/// 16438 as `16,438`.
inline std::string grouped(std::uint64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits;
}

/// `1 node runs`, `1,014 nodes run`.
inline std::string counted(std::uint64_t number, std::string_view one, std::string_view many) {
    return grouped(number) + " " + std::string(number == 1 ? one : many);
}

/// `34.6 % less`; `unchanged` where it is.
inline std::string change_text(std::uint64_t before, std::uint64_t after) {
    if (before == 0 || before == after) return "unchanged";
    const double part = 100 * (static_cast<double>(after) / static_cast<double>(before) - 1);
    return format::decimal(part < 0 ? -part : part, 1) + " % " + (part < 0 ? "less" : "more");
}

/// `4.20 %`, of a step's time.
inline std::string again_text(const plan_report& r) {
    return format::decimal(100 * r.recompute_time_ratio, 2) + " %";
}

/// What was asked for and what came of it.
inline std::string outcome_sentence(const subject& shown) {
    const plan_report& r = shown.made->report();
    using format::show_bytes;
    std::string text =
        shown.made_here ? "Asked for " + format::goal(*shown.made, shown.max_overhead) + ". " : "";
    text +=
        r.peak_bytes == r.baseline_peak_bytes
            ? "The peak stays at " + show_bytes(r.peak_bytes)
            : "The peak falls from " + show_bytes(r.baseline_peak_bytes) + " to " + show_bytes(r.peak_bytes);
    return text + "; " + counted(r.recomputed_nodes, "node runs", "nodes run") + " again, which takes " +
           again_text(r) + " of a step's time, and " +
           counted(r.encoded_values, "value waits", "values wait") + " as one bit per element.";
}

/// How far the peak lies above what is proved.
inline std::string bound_sentence(const subject& shown) {
    const plan_report& r = shown.made->report();
    if (shown.made_here && shown.made->chosen_by() == strategy::baseline)
        return "The graph's own order was left as it is.";
    const std::string claim = format::bound_claim(*shown.made, shown.max_overhead, shown.made_here);
    return "Proved: " + claim + " than " + format::show_bytes(r.lower_bound_bytes) + ". The peak lies " +
           format::show_gap(r) + " % above that bound.";
}

inline std::vector<tile> plan_tiles(const subject& shown) {
    const plan_report& r = shown.made->report();
    using format::show_bytes;
    std::vector<tile> tiles{
        {"Peak", show_bytes(r.peak_bytes),
         "from " + show_bytes(r.baseline_peak_bytes) + ": " +
             format::show_ratio(r.baseline_peak_bytes, r.peak_bytes) + " smaller"},
        {"Recomputation", again_text(r), "of a step's time, " + counted(r.recomputed_nodes, "run", "runs")},
        {"Above the bound", format::show_gap(r) + " %", "certified: " + show_bytes(r.lower_bound_bytes)},
        {"Waits for gradients", show_bytes(r.stash_bytes), "from " + show_bytes(r.baseline_stash_bytes)}};
    if (shown.arena)
        tiles.push_back({"Arena", show_bytes(shown.arena->bytes()),
                         "no arena is smaller than " + show_bytes(shown.arena->lower_bound())});
    tiles.push_back({"Resident", show_bytes(r.resident_bytes), "parameters, state, data; in no peak"});
    return tiles;
}

/// Nothing was made again, and nothing could be: what a page says of a plan would say nothing.
inline bool has_arena_only(const subject& shown) {
    const plan_report& r = shown.made->report();
    return !has_gradients(*shown.graph) && r.recomputed_nodes == 0 && r.peak_bytes == r.baseline_peak_bytes;
}

/// The head of a model without gradients: its arena is all there is to say.
inline page_head head_of_arena(const subject& shown) {
    const plan_report& r = shown.made->report();
    using format::show_bytes;
    page_head head{
        .title = shown.name.empty() ? "a graph without a name" : shown.name,
        .subtitle = grouped(shown.graph->node_count()) +
                    (shown.made_here ? " nodes, without gradients" : " nodes, in the order of their plan"),
        .tiles = {{"Peak", show_bytes(r.peak_bytes), "the most that is live at one step"},
                  {"Resident", show_bytes(r.resident_bytes), "parameters, data; in no peak"}},
        .sentences = {shown.made_here ? "Nothing waits for a gradient, so that nothing is recomputed and the "
                                        "order is left as it is."
                                      : "The plan was made elsewhere and is shown as it is."}};
    if (!shown.arena) return head;
    std::uint64_t apart = 0;
    for (const auto& block : shown.arena->blocks()) apart += block.bytes;
    const std::uint64_t bytes = shown.arena->bytes(), least = shown.arena->lower_bound();
    const double above = least > 0 ? 100 * (static_cast<double>(bytes) / static_cast<double>(least) - 1) : 0;
    head.tiles.insert(head.tiles.begin(), {{"Arena", show_bytes(bytes), "where all tensors lie"},
                                           {"Above the bound", format::decimal(above, 1) + " %",
                                            "no arena is smaller than " + show_bytes(least)},
                                           {"Apart", show_bytes(apart),
                                            counted(shown.arena->blocks().size(), "tensor", "tensors") +
                                                " that share no memory"}});
    head.sentences.push_back("In one arena the tensors take " + show_bytes(bytes) +
                             "; apart they would take " + show_bytes(apart) + " (" +
                             format::show_ratio(apart, bytes) + ").");
    return head;
}

inline page_head head_of(const subject& shown) {
    if (has_arena_only(shown)) return head_of_arena(shown);
    return {.title = shown.name.empty() ? "a graph without a name" : shown.name,
            .subtitle =
                grouped(shown.graph->node_count()) + " nodes, " +
                (shown.made_here ? "planned by the strategy " + std::string(name_of(shown.made->chosen_by()))
                                 : std::string("a plan from a file")),
            .tiles = plan_tiles(shown),
            .sentences = {outcome_sentence(shown), bound_sentence(shown)}};
}

/// What came of a plan and what is proved of it, of one of two.
inline std::string named_sentences(const subject& shown) {
    if (shown.is_program)
        return shown.name + ": " + grouped(shown.graph->node_count()) + " nodes, and " +
               format::show_bytes(shown.made->report().peak_bytes) + " at the peak.";
    return shown.name + ": " + outcome_sentence(shown) + " " + bound_sentence(shown);
}

/// What a step takes with the plan, by the times that the plan counts.
inline double step_us(const subject& shown) {
    const run_times times = times_of(*shown.graph);
    return times.microseconds(times.total) * (1 + shown.made->report().recompute_time_ratio);
}

inline std::string step_text(const subject& shown) {
    return format::significant(step_us(shown) / 1000, 4) + " ms";
}

/// The same for two plans.
inline page_head head_of(const subject& before, const subject& after) {
    const plan_report &a = before.made->report(), &b = after.made->report();
    using format::show_bytes;
    const auto tile_of = [](std::string label, std::uint64_t was, std::uint64_t is) {
        return tile{std::move(label), show_bytes(is),
                    "from " + show_bytes(was) + ", " + change_text(was, is)};
    };
    std::vector<tile> tiles{tile_of("Peak", a.peak_bytes, b.peak_bytes)};
    const bool are_plans = !before.is_program && !after.is_program;
    if (are_plans) {
        tiles.push_back(tile_of("Without Echo", a.baseline_peak_bytes, b.baseline_peak_bytes));
        tiles.push_back({"Recomputation", again_text(b), "from " + again_text(a) + " of a step's time"});
    }
    tiles.push_back(
        {"Time of a step", step_text(after),
         "from " + step_text(before) + (are_plans ? ", as the plans count it" : ", as modelled")});
    tiles.push_back(tile_of("Waits for gradients", a.stash_bytes, b.stash_bytes));
    if (are_plans) tiles.push_back(tile_of("Resident", a.resident_bytes, b.resident_bytes));
    return {.title = before.name + " → " + after.name,
            .subtitle = !are_plans                    ? "two programs side by side"
                        : before.graph == after.graph ? "two plans of one graph, side by side"
                                                      : "two plans side by side",
            .tiles = std::move(tiles),
            .sentences = {named_sentences(before), named_sentences(after)}};
}

} // namespace echo::report
