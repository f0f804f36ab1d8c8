// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which schedule: ggml's allocator, which places tensors in an order of its own, says which of the plans that Echo
/// finds users pay least for.
#pragma once

#include "judge.hpp"
#include "settings.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <optional>
#include <string>
#include <vector>

namespace echo_ggml {

/// What became of one graph; all of it is reported.
struct decision {
    std::optional<echo::schedule> steps{}; ///< nothing: the graph stays as it is
    cost before{}, after{};
    std::uint64_t baseline_peak = 0, peak = 0,
                  lower_bound = 0;          ///< as Echo counts them, without the allocator's gaps
    double overhead = 0;                    ///< predicted: recomputation, as a part of a step's time
    std::size_t recomputed = 0, judged = 0; ///< nodes; schedules that ggml's allocator was asked about
    std::vector<std::string> unknown_ops{};
    std::string note{};    ///< why nothing is to be had
    std::string problem{}; ///< what stands in the way; it is said on standard error too
};

namespace detail {

class chooser {
public:
    chooser(const graph& g, const settings& asked)
        : graph_(g), asked_(asked), snapshot_(echo::read(g)), judge_(g) {}

    decision run() {
        best_.before = best_.after = judge_(echo::baseline_schedule(snapshot_));
        const auto limit = budget();
        if (limit && best_.before.bytes <= *limit) return std::move(best_);
        plan_for(limit);
        if (!best_.steps && best_.problem.empty()) best_.problem = std::move(too_large_);
        if (!best_.steps && best_.problem.empty()) best_.note = "no plan lowers it";
        return std::move(best_);
    }

private:
    std::optional<std::uint64_t> budget() const {
        if (asked_.budget) return asked_.budget;
        if (asked_.ratio)
            return static_cast<std::uint64_t>(*asked_.ratio * static_cast<double>(best_.before.bytes));
        return {};
    }

    echo::plan_options options() const {
        echo::plan_options o;
        o.encode = false;
        const double judging_us = static_cast<double>(snapshot_.node_count()) + 50;
        o.spare_run_questions =
            static_cast<std::size_t>(step_us() / 2 / judging_us); // half a step, by the model
        o.host =
            echo::host_abilities{.recompute_results = false, .move = false, .encode = false, .erase = false};
        return o;
    }

    /// The plan for which ggml's allocator takes least, or within a budget the one of least recomputation.
    void plan_for(std::optional<std::uint64_t> limit) {
        auto o = options();
        const auto takes = [this](const echo::schedule& steps) { return bytes_of(steps); };
        o.allocator = takes;
        o.max_overhead = asked_.max_overhead;
        if (limit) o.budget = *limit;
        const echo::plan made = echo::make_plan(snapshot_, o);
        echo::verify(snapshot_, made); // shares no code with the planner
        const auto& r = made.report();
        best_.unknown_ops = r.unknown_ops;
        best_.baseline_peak = r.baseline_peak_bytes;
        best_.lower_bound = r.lower_bound_bytes;
        if (r.recomputed_nodes > 0 && r.allocated_bytes < best_.before.bytes) {
            best_.steps = made.steps();
            best_.after = judge_(made.steps());
            best_.peak = r.peak_bytes;
            best_.overhead = r.recompute_time_ratio;
            best_.recomputed = r.recomputed_nodes;
        }
        if (!limit || best_.after.bytes <= *limit) return;
        best_.problem = "the budget of " + std::to_string(*limit) + " bytes is not met: the least found is " +
                        std::to_string(best_.after.bytes) + ", and no plan goes below " +
                        std::to_string(best_.lower_bound);
        if (best_.lower_bound <= *limit) return;
        best_.steps.reset();
        best_.after = best_.before;
    }

    /// Of ggml's allocator; more than there is where ggml cannot run the order, or the graph cannot hold it.
    std::uint64_t bytes_of(const echo::schedule& steps) {
        ++best_.judged;
        try {
            const cost of = judge_(steps);
            return best_.judged == 1 || fits(of) ? of.bytes : echo::any_peak; // first its own order, as it is
        } catch (const echo::error&) {
            return echo::any_peak;
        }
    }

    double step_us() const {
        double us = 0;
        for (const ggml_tensor* const t : graph_.order()) us += time_us(t);
        return us;
    }

    /// A graph of ggml holds so many nodes and leaves, and ggml aborts beyond. An optimizer will add a step and two
    /// moments for each parameter.
    bool fits(const cost& of) {
        std::size_t parameters = 0;
        for (const ggml_tensor* const t : graph_.order())
            parameters += (t->flags & GGML_TENSOR_FLAG_PARAM) != 0;
        const auto needed = static_cast<std::size_t>(of.nodes) + graph_.leaves() + 3 * parameters + 8;
        const auto size = static_cast<std::size_t>(ggml_graph_size(graph_.joint()));
        if (needed <= size) return true;
        too_large_ =
            "the graph holds " + std::to_string(size) + " tensors and a plan needs " + std::to_string(needed);
        return false;
    }

    const graph& graph_;
    const settings& asked_;
    echo::snapshot snapshot_;
    judge judge_;
    decision best_;
    std::string too_large_;
};

} // namespace detail

/// The schedule that ggml's allocator likes best. Errors: as `echo::read` and `echo::make_plan`.
inline decision choose(const graph& g, const settings& asked) { return detail::chooser(g, asked).run(); }

} // namespace echo_ggml
