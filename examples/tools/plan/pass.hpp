// SPDX-License-Identifier: BSL-1.0
/// @file
/// The pass that `echo-plan` runs and measures: snapshot, plan, arena, and the proof of both.
#pragma once

#include "command_line/progress.hpp"
#include "format/file_graph.hpp"
#include "format/write_report.hpp"
#include "onnx/model.hpp"
#include "plan/options.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// Milliseconds from its making.
class stopwatch {
public:
    double ms() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A file as the pass sees it; the host graph itself is no longer needed.
struct loaded_graph {
    std::string name{};
    echo::snapshot snapshot{};
    std::vector<std::string> unmatched{}; ///< patterns of `--keep` that match no node
    std::shared_ptr<onnx_model> model{};  ///< nullptr: the file is no ONNX model
    double load_ms = 0;                   ///< reading the file
    double read_ms = 0;                   ///< reading the host graph: part of the pass
};

/// A plan that has been verified.
struct verified_plan {
    echo::plan plan{};
    memory_plan arena{};
    report_extras extras{};
    bool made_here = true; ///< not so: read from a file, of a goal that is not known
};

/// The part of a step's time within which the least peak is looked for.
inline double max_overhead_of(const options& asked) {
    return asked.max_overhead.value_or(plan_options{}.max_overhead);
}

/// What the options ask of `make_plan`. Errors: the graph's own order is unsound.
inline plan_options plan_options_of(const options& asked, const loaded_graph& g, strategy how) {
    plan_options wanted{.how = how,
                        .encode = asked.encode,
                        .host = {.fuse = asked.fuse, .offload = bool{asked.link}},
                        .link = asked.link};
    if (asked.budget)
        wanted.budget = asked.budget->bytes(footprint(g.snapshot, baseline_schedule(g.snapshot)).peak_bytes);
    wanted.max_overhead = max_overhead_of(asked);
    return wanted;
}

/// Errors: the graph's own order is unsound; or `verify` refuses the plan, which is never the input's fault.
inline verified_plan run_pass(const loaded_graph& g, const options& asked, strategy how, progress& line) {
    const stopwatch watch;
    verified_plan made;
    line.stage("planning");
    const auto show = [&](double part) { line.part_done(part); };
    plan_options wanted = plan_options_of(asked, g, how);
    wanted.progress = show;
    made.plan = make_plan(g.snapshot, wanted);
    const double plan_ms = g.read_ms + watch.ms();
    line.stage("placing");
    made.arena = plan_memory(g.snapshot, made.plan);
    line.stage("verifying");
    try {
        verify(g.snapshot, made.plan, made.arena);
    } catch (const error& e) {
        throw error({}, {}, std::string("the plan is not sound, which is a fault of Echo: ") + e.what(),
                    "report it with the graph");
    }
    made.extras = {.arena_bytes = made.arena.bytes(),
                   .arena_lower_bound_bytes = made.arena.lower_bound(),
                   .plan_ms = plan_ms,
                   .pass_ms = g.read_ms + watch.ms(),
                   .load_ms = g.load_ms};
    if (g.model) made.extras.notes = g.model->notes();
    return made;
}

} // namespace echo::format
