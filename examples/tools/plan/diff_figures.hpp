// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan diff` compares: the figures of a plan, made anew of a graph or read from the file of a plan.
#pragma once

#include "format/byte_source.hpp"
#include "plan/load.hpp"
#include "plan/pass.hpp"

#include <echo/analysis/profile.hpp>

#include <nlohmann/json.hpp>

#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// A figure that should not grow, such as "peak"; `shown` in bytes, µs or a part of a step's time.
enum class figure_unit : std::uint8_t { bytes, microseconds, part };
struct figure {
    std::string name{};
    double value = 0;
    figure_unit unit = figure_unit::bytes;
    bool counts = true; ///< for --fail-above; others are shown only
};

/// One of the two.
struct diff_side {
    std::string name{};            ///< of the graph, or of the file
    std::vector<figure> figures{}; ///< both sides have those that the kinds of their files know
    std::optional<memory_profile> where{};
    std::shared_ptr<loaded_graph> graph{}; ///< nullptr: read from a plan
    std::shared_ptr<verified_plan> made{}; ///< likewise
};

/// The report of a plan's file, without its steps and blocks; nothing where the file is no plan. Errors: the file
/// cannot be read.
inline std::optional<nlohmann::json> read_plan_report(const std::string& path, size_limit limit) {
    const auto source = open_source(path, limit);
    std::istream stream(source.get());
    const auto needed = [](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
        using kind = nlohmann::json::parse_event_t;
        return event != kind::key || depth != 1 || parsed == "format" || parsed == "graph" ||
               parsed == "report";
    };
    const auto document = nlohmann::json::parse(stream, needed, false);
    if (!document.is_object() || document.value("format", nlohmann::json()) != "echo-plan/1")
        return std::nullopt;
    return document;
}

/// Errors: the plan's report lacks a figure.
inline diff_side side_of_plan(const std::string& path, const nlohmann::json& document) {
    const auto report = document.value("report", nlohmann::json::object());
    const auto number = [&](const char* key) {
        const auto found = report.find(key);
        if (found == report.end() || !found->is_number())
            throw error({}, key, "the plan's report does not state it",
                        "write the plan with echo-plan --emit-plan");
        return found->get<double>();
    };
    return {.name = document.value("graph", path),
            .figures = {{"peak", number("peak_bytes")},
                        {"peak without Echo", number("baseline_peak_bytes"), figure_unit::bytes, false},
                        {"arena", number("arena_bytes")},
                        {"resident", number("resident_bytes")},
                        {"stash", number("stash_bytes"), figure_unit::bytes, false},
                        {"recomputation", number("recompute_time_ratio"), figure_unit::part, false}}};
}

inline diff_side side_of_graph(const options& asked, progress& line) {
    diff_side side;
    side.graph = std::make_shared<loaded_graph>(load(asked, line));
    const bool trains = !side.graph->model || side.graph->model->trains();
    const strategy how = trains || asked.names_goal ? asked.how : strategy::baseline;
    side.made = std::make_shared<verified_plan>(run_pass(*side.graph, asked, how, line));
    const plan_report& r = side.made->plan.report();
    const auto bytes = [](std::uint64_t b) { return static_cast<double>(b); };
    const run_times times = times_of(side.graph->snapshot);
    side.name = side.graph->name;
    side.figures = {{"peak", bytes(r.peak_bytes)},
                    {"peak without Echo", bytes(r.baseline_peak_bytes), figure_unit::bytes, false},
                    {"arena", bytes(side.made->extras.arena_bytes)},
                    {"resident", bytes(r.resident_bytes)},
                    {"stash", bytes(r.stash_bytes), figure_unit::bytes, false},
                    {"recomputation", r.recompute_time_ratio, figure_unit::part, false},
                    {"time of a step", times.microseconds(times.total) * (1 + r.recompute_time_ratio),
                     figure_unit::microseconds}};
    side.where = profile(side.graph->snapshot, side.made->plan.steps());
    return side;
}

/// Errors: as `load` and `run_pass`, with the path.
inline diff_side read_side(options asked, const std::string& path, progress& line) {
    asked.graph = path;
    try {
        line.stage("reading");
        const size_limit limit = asked.max_bytes ? size_limit{*asked.max_bytes, 0} : size_limit{};
        if (!asked.is_onnx())
            if (const auto document = read_plan_report(path, limit)) return side_of_plan(path, *document);
        return side_of_graph(asked, line);
    } catch (const std::exception& e) {
        throw std::runtime_error(path + ": " + e.what());
    }
}

} // namespace echo::format
