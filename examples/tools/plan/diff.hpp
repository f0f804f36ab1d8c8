// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan diff A B`: what changed from one plan to another, for people, for a program, and for a model's own
/// checks.
#pragma once

#include "command_line/one_line.hpp"
#include "command_line/parse.hpp"
#include "command_line/print.hpp"
#include "plan/diff_figures.hpp"
#include "plan/diff_help.hpp"
#include "plan/options.hpp"
#include "plan/report_folder.hpp"
#include "plan/table.hpp"
#include "plan/units.hpp"
#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

struct diff_options {
    options planning{};                 ///< alike for both; its graph is that of plans' files, or empty
    std::string before{}, after{};      ///< A and B
    std::optional<double> fail_above{}; ///< a part, such as 0.02
    std::string print{};
};

/// The options of `echo-plan diff` that do not say how to plan. `above`: what `--fail-above` names.
inline void add_options(CLI::App& app, diff_options& chosen, std::string& above) {
    app.add_option("A", chosen.before)->required();
    app.add_option("B", chosen.after)->required();
    app.add_option("--graph", chosen.planning.graph);
    app.add_option("--fail-above", above);
    app.add_option("--report", chosen.planning.report_dir);
}

/// Errors: `usage_error` where the report would be written over what is read.
inline void check_page(const diff_options& chosen) {
    if (chosen.planning.report_dir.empty()) return;
    const place page = place::of_output(chosen.planning.report_dir + "/index.html");
    for (const std::string* const file : {&chosen.before, &chosen.after, &chosen.planning.graph})
        if (!file->empty() && page == place::of_input(*file))
            throw usage_error(fmt::format("--report would overwrite {}", *file));
}

/// `arguments` begin with the program's name and "diff". Errors: `usage_error`.
inline diff_options parse_diff(int count, const char* const* arguments, const completer& complete) {
    diff_options chosen;
    std::string above;
    CLI::App app;
    add_options(app, chosen, above);
    const planning_options planning(app, chosen.planning);
    chosen.print = parse(app, count - 1, arguments + 1, "echo-plan", diff_help_text(), complete);
    if (!chosen.print.empty()) return chosen;
    planning.read(chosen.planning);
    check_report(app, chosen.planning);
    if (app.count("--graph") > 0 && chosen.planning.graph.empty()) throw usage_error("--graph names no file");
    const bool streams[] = {is_stream(chosen.before), is_stream(chosen.after),
                            is_stream(chosen.planning.graph)};
    if (std::ranges::count(streams, true) > 1)
        throw usage_error("only one of A, B and --graph can be read from standard input");
    check_page(chosen);
    if (app.count("--fail-above") > 0) chosen.fail_above = parse_part("--fail-above", above);
    return chosen;
}

/// A figure of both.
struct change {
    std::string name{};
    double before = 0, after = 0;
    figure_unit unit = figure_unit::bytes;
    bool counts = false;

    /// Infinite where something came from nothing.
    double part() const {
        if (before == after) return 0;
        return before > 0 ? after / before - 1 : std::numeric_limits<double>::infinity();
    }
};

inline std::vector<change> changes_of(const diff_side& a, const diff_side& b) {
    std::vector<change> all;
    for (const figure& was : a.figures)
        for (const figure& is : b.figures)
            if (was.name == is.name) all.push_back({was.name, was.value, is.value, was.unit, was.counts});
    return all;
}

/// Rows of both profiles, those first that changed most.
inline std::vector<change> changes_of(const std::vector<profile_row>& a, const std::vector<profile_row>& b) {
    std::vector<change> all;
    for (const auto& row : a)
        all.push_back({row.name, static_cast<double>(row.bytes), static_cast<double>(bytes_of(b, row.name))});
    for (const auto& row : b)
        if (bytes_of(a, row.name) == 0) all.push_back({row.name, 0, static_cast<double>(row.bytes)});
    std::ranges::stable_sort(all, std::ranges::greater{},
                             [](const change& c) { return std::abs(c.after - c.before); });
    return all;
}

inline std::string show_figure(double value, figure_unit unit) {
    if (unit == figure_unit::part) return fmt::format("{:.2f} %", 100 * value);
    if (unit == figure_unit::microseconds) return fmt::format("{:.3f} ms", value / 1000);
    return show_bytes(static_cast<std::uint64_t>(value));
}

inline std::string show_change(const change& c) {
    if (c.unit == figure_unit::part) return fmt::format("{:+.2f} points", 100 * (c.after - c.before));
    return std::isinf(c.part()) ? "new" : fmt::format("{:+.2f} %", 100 * c.part());
}

/// The figures that grew by more than is allowed.
inline std::vector<change> failed(const std::vector<change>& all, std::optional<double> above) {
    std::vector<change> found;
    for (const change& c : all)
        if (above && c.counts && c.part() > *above) found.push_back(c);
    return found;
}

inline void add_rows(table& rows, const std::vector<change>& all, std::size_t most) {
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
        rows.add({all[i].name.empty() ? "(no layer)" : short_name(all[i].name),
                  show_figure(all[i].before, all[i].unit), show_figure(all[i].after, all[i].unit),
                  show_change(all[i])});
}

inline std::string diff_table(const diff_side& a, const diff_side& b) {
    table rows({"", "A", "B", "change"});
    add_rows(rows, changes_of(a, b), 20);
    std::string text = fmt::format("A: {}\nB: {}\n", short_line(a.name), short_line(b.name)) + rows.text();
    if (!a.where || !b.where) return text + "by layer and time: with --graph GRAPH, the graph of the plans\n";
    const std::pair<std::string_view, std::vector<profile_row> memory_profile::*> kinds[] = {
        {"layer", &memory_profile::by_layer},
        {"op", &memory_profile::by_op},
        {"kind", &memory_profile::by_structure}};
    for (const auto& [what, by] : kinds) {
        table more({fmt::format("at the peak, by {}", what), "A", "B", "change"});
        add_rows(more, changes_of((*a.where).*by, (*b.where).*by), 10);
        text += "\n" + more.text();
    }
    return text;
}

inline void put_changes(json_out& out, std::string_view key, const std::vector<change>& all) {
    out.put(",\n \"", key, "\": [");
    for (std::string_view comma; const change& c : all) {
        out.put(comma, "\n  {\"name\": ");
        out.text(one_line(c.name));
        out.put(", \"unit\": \"",
                c.unit == figure_unit::bytes  ? "bytes"
                : c.unit == figure_unit::part ? "ratio"
                                              : "us",
                "\", \"a\": ");
        out.number(c.before);
        out.put(", \"b\": ");
        out.number(c.after);
        out.put("}");
        comma = ",";
    }
    out.put("\n ]");
}

inline std::string diff_json(const diff_side& a, const diff_side& b, std::optional<double> above) {
    std::string made;
    json_out out([&](std::string_view bytes) { made += bytes; });
    out.put("{\n \"a\": ");
    out.text(one_line(a.name));
    out.put(",\n \"b\": ");
    out.text(one_line(b.name));
    const auto all = changes_of(a, b);
    put_changes(out, "figures", all);
    if (a.where && b.where) put_changes(out, "layers", changes_of(a.where->by_layer, b.where->by_layer));
    put_changes(out, "failed", failed(all, above));
    out.put("\n}\n");
    out.flush();
    return made;
}

/// Errors: the graph of one is not known; the folder cannot be written.
inline void write_diff_report(const diff_options& asked, const diff_side& a, const diff_side& b) {
    if (!a.graph || !b.graph)
        throw error({}, "--report", "is drawn of graphs, and a plan's file was given",
                    "give its graph as well: --graph GRAPH");
    const auto subject = [&](const diff_side& side, std::string_view letter) {
        return report::subject{.name =
                                   a.name == b.name ? fmt::format("{} ({})", side.name, letter) : side.name,
                               .graph = &side.graph->snapshot,
                               .made = &side.made->plan,
                               .arena = &side.made->arena,
                               .max_overhead = max_overhead_of(asked.planning),
                               .made_here = side.made_here,
                               .notes = side.made->extras.notes};
    };
    report_folder folder(asked.planning.report_dir);
    folder.write(report::comparison_of(subject(a, "A"), subject(b, "B")));
    folder.commit();
}

/// Why the command fails; empty if nothing grew too much.
inline std::string why_failed(const std::vector<change>& grown, double above) {
    std::string text;
    for (const change& c : grown)
        text += fmt::format("{}{} grew by {} ({} to {})", text.empty() ? "" : "; ", c.name,
                            std::isinf(c.part()) ? "all it has" : fmt::format("{:.2f} %", 100 * c.part()),
                            show_figure(c.before, c.unit), show_figure(c.after, c.unit));
    return text.empty() ? text : text + fmt::format("; at most {:g} % is allowed", 100 * above);
}

/// The graph of plans' files; nullptr where none is named. Errors: as `load`, with the path.
inline std::shared_ptr<const loaded_graph> graph_of_plans(const options& asked, progress& line) {
    if (asked.graph.empty()) return nullptr;
    return with_path(asked.graph, [&] { return std::make_shared<const loaded_graph>(load(asked, line)); });
}

/// Where both have one name, the files are named instead.
inline void tell_apart(const diff_options& asked, diff_side& a, diff_side& b) {
    if (a.name != b.name) return;
    a.name = shown_input(asked.before);
    b.name = shown_input(asked.after);
}

/// Prints the difference. Returns why it is too large, or "". Errors: as `read_side` and `write_diff_report`; a graph
/// is given for plans, and there are none.
inline std::string run_diff(const diff_options& asked, std::optional<progress>& line) {
    const auto plans_of = graph_of_plans(asked.planning, *line);
    diff_side a = read_side(asked.planning, asked.before, plans_of, *line);
    diff_side b = read_side(asked.planning, asked.after, plans_of, *line);
    tell_apart(asked, a, b);
    if (plans_of && a.made_here && b.made_here)
        throw error({}, "--graph", "is the graph of a plan's file, and both files are graphs",
                    "leave it out, or give plans");
    if (!asked.planning.report_dir.empty()) write_diff_report(asked, a, b);
    line.reset();
    print(asked.planning.json ? diff_json(a, b, asked.fail_above) : diff_table(a, b));
    return asked.fail_above ? why_failed(failed(changes_of(a, b), asked.fail_above), *asked.fail_above) : "";
}

} // namespace echo::format
