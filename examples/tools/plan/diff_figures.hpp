// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan diff` compares: the figures of a plan, made anew of a graph or read from the file of a plan.
/// Beside its graph such a file has all figures, or else those that it states.
#pragma once

#include "command_line/place.hpp"
#include "format/byte_source.hpp"
#include "onnx/read_bytes.hpp"
#include "plan/given_plan.hpp"
#include "plan/load.hpp"
#include "plan/pass.hpp"

#include <echo/analysis/profile.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
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
    std::shared_ptr<const loaded_graph> graph{}; ///< nullptr: a plan's file, of an unknown graph
    std::shared_ptr<const verified_plan> made{}; ///< likewise
    bool made_here = true;                       ///< not so: from a plan's file
};

/// A file that is opened more than once: what comes from standard input is held in memory. Errors: as `open_source`.
class input {
public:
    input(const std::string& path, size_limit limit) : path_(path), limit_(limit) {
        if (is_stream(path)) held_ = read_bytes(*open_source(path, limit));
    }
    std::unique_ptr<std::streambuf> open(part_read progress) const {
        if (is_stream(path_)) return std::make_unique<memory_source>(held_);
        return open_source(path_, limit_, std::move(progress));
    }

private:
    std::string path_, held_{};
    size_limit limit_;
};

/// The report of a plan's file, without its steps and blocks; nothing where the file is no plan. Errors: the file
/// cannot be read.
inline std::optional<nlohmann::json> read_plan_report(std::streambuf& source) {
    std::istream stream(&source);
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
    return {.name = document.value("graph", shown_input(path)),
            .figures = {{"peak", number("peak_bytes")},
                        {"peak without Echo", number("baseline_peak_bytes"), figure_unit::bytes, false},
                        {"arena", number("arena_bytes")},
                        {"resident", number("resident_bytes")},
                        {"stash", number("stash_bytes"), figure_unit::bytes, false},
                        {"recomputation", number("recompute_time_ratio"), figure_unit::part, false}}};
}

/// All figures. O(nodes + edges + steps).
inline diff_side side_of(std::string name, std::shared_ptr<const loaded_graph> graph, verified_plan made,
                         bool made_here) {
    const snapshot& s = graph->snapshot;
    const plan_report& r = made.plan.report();
    const auto bytes = [](std::uint64_t b) { return static_cast<double>(b); };
    const run_times times = times_of(s);
    diff_side side{
        .name = std::move(name),
        .figures = {{"peak", bytes(r.peak_bytes)},
                    {"peak without Echo", bytes(r.baseline_peak_bytes), figure_unit::bytes, false},
                    {"arena", bytes(made.extras.arena_bytes)},
                    {"resident", bytes(r.resident_bytes)},
                    {"stash", bytes(r.stash_bytes), figure_unit::bytes, false},
                    {"recomputation", r.recompute_time_ratio, figure_unit::part, false},
                    {"time of a step", times.microseconds(times.total) * (1 + r.recompute_time_ratio),
                     figure_unit::microseconds}},
        .where = profile(s, made.plan.steps()),
        .graph = std::move(graph),
        .made_here = made_here};
    side.made = std::make_shared<verified_plan>(std::move(made));
    return side;
}

inline diff_side side_of_graph(const options& asked, std::streambuf& source, progress& line) {
    auto graph = std::make_shared<const loaded_graph>(load(asked, source, line));
    const bool trains = !graph->model || graph->model->trains();
    const strategy how = trains || asked.names_goal ? asked.how : strategy::baseline;
    verified_plan made = run_pass(*graph, asked, how, line);
    const std::string name = graph->name;
    return side_of(name, std::move(graph), std::move(made), true);
}

/// What `make` returns. Errors: the same, with the path in front.
template <class Make>
auto with_path(const std::string& path, const Make& make) {
    try {
        return make();
    } catch (const file_error&) {
        throw; // names its file
    } catch (const std::exception& e) {
        throw std::runtime_error(shown_input(path) + ": " + e.what());
    }
}

/// `plans_of`: the graph of a plan's file, or nullptr. Errors: as `load`, `run_pass` and `read_given`, with the path.
inline diff_side read_side(options asked, const std::string& path,
                           const std::shared_ptr<const loaded_graph>& plans_of, progress& line) {
    asked.graph = path;
    return with_path(path, [&] {
        line.stage("reading");
        const input file(path, limit_of(asked));
        auto source = file.open(line.parts());
        if (is_onnx(asked, *source)) return side_of_graph(asked, *source, line);
        const auto document = read_plan_report(*source);
        source = file.open(line.parts());
        if (!document) return side_of_graph(asked, *source, line);
        if (!plans_of) return side_of_plan(path, *document);
        return side_of(std::filesystem::path(path).filename().string(), plans_of,
                       read_given(*plans_of, path, *source, line), false);
    });
}

} // namespace echo::format
