// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `make_plan` and `front` do: the planner of one host. `echo::core` compiles it once.
#pragma once

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/join_fronts.hpp>
#include <echo/analysis/plan/offload_choice.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/plan/plan_options.hpp>
#include <echo/analysis/plan/plan_outcome.hpp>
#include <echo/analysis/plan/plan_progress.hpp>
#include <echo/analysis/plan/plan_reporting.hpp>
#include <echo/analysis/plan/roll_back.hpp>
#include <echo/analysis/plan/spare_runs.hpp>
#include <echo/analysis/plan/strategies.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo {
namespace detail {

class planner {
public:
    planner(const snapshot& s, const plan_options& options)
        : s_(s), options_(options), c_(find_candidates(s, abilities_for(options), options.device)) {}

    /// `without`: what the same options give a host that does not fuse.
    plan run(const plan* without = nullptr) const {
        if (!is_amount(options_.max_overhead))
            throw error({}, "max_overhead", "is no number of 0 or more",
                        "give a part of a step's time, such as 0.05");
        plan_outcome best{.steps = baseline_schedule(s_)};
        if (options_.allocator) best.allocated_bytes = options_.allocator(best.steps);
        plan_report report = report_own_order(best);
        const std::uint64_t own_peak = report.baseline_peak_bytes;
        search_for_better(without, best, report);
        if (options_.allocator) spare_runs(s_, c_, options_).leave_out(best, own_peak);
        report_plan(s_, c_, options_, best, report);
        return {options_.how, std::move(best.steps), options_.host, std::move(report)};
    }

    plan_front front(std::size_t count) const {
        search with(*this);
        schedule steps = baseline_schedule(s_);
        plan_front found{.baseline_peak_bytes = footprint(s_, steps).peak_bytes};
        found.points.push_back({found.baseline_peak_bytes, 0});
        const auto plans = with.strategies.front(count);
        const rated_decision* lowest = nullptr;
        for (const rated_decision& t : plans) {
            if (t.footprint.peak_bytes >= found.points.back().peak_bytes) continue;
            if (t.recompute <= 0) found.points.pop_back();
            found.points.push_back({t.footprint.peak_bytes, c_.times.part(t.recompute)});
            lowest = &t;
        }
        if (may_offload(options_)) join(found.points, offload_choice(with.evaluate, options_).points(plans));
        if (lowest) steps = with.evaluate(lowest->decided).steps();
        found.lower_bound_bytes =
            bound_of_plan(s_, c_, options_.how, options_.encode, steps, replay{}(s_, steps), std::nullopt,
                          may_offload(options_) ? options_.link : link_model{});
        return found;
    }

private:
    static host_abilities abilities_for(const plan_options& options) {
        host_abilities can = options.host;
        can.encode &= options.encode;
        return can;
    }

    /// What finds plans, with the memory that it takes.
    struct search {
        explicit search(const planner& of)
            : evaluate(of.s_, of.c_, of.options_.stop),
              progress(of.options_.progress, of.options_.how == strategy::budget),
              strategies(of.s_, of.c_, of.options_, evaluate, progress) {}
        evaluator evaluate;
        plan_progress progress;
        detail::strategies strategies;
    };

    /// Adds to `own` its figures.
    plan_report report_own_order(plan_outcome& own) const {
        const replayed found = replay{}(s_, own.steps);
        own.figures.footprint = found.footprint;
        return report_baseline(found, own.allocated_bytes);
    }

    /// Leaves in `best` what is better than the graph's own order, if anything is. The memory of the search is given
    /// back before the report takes its own.
    void search_for_better(const plan* without, plan_outcome& best, plan_report& report) const {
        search with(*this);
        const bool is_wanted = is_asked(best);
        if (is_wanted)
            keep_promise(with.evaluate, with.strategies.propose(options_.how, report.notes), best,
                         report.notes);
        if (without) keep_to(with.evaluate, *without, best, report.notes);
        if (may_offload(options_) && is_wanted) {
            best = offload_choice(with.evaluate, options_)(std::move(best), with.strategies.known());
            if (best.copies.offloads == 0)
                report.notes.push_back(
                    "nothing is moved to the host's memory: no plan found gets a lower peak by it");
        }
        report.replays = with.evaluate.count();
    }

    /// Whether the graph's own order is not what was asked for.
    bool is_asked(const plan_outcome& own) const {
        if (options_.how == strategy::baseline) return false;
        return options_.how != strategy::budget || options_.budget == any_peak ||
               std::max(own.figures.footprint.peak_bytes, own.allocated_bytes) > options_.budget;
    }

    /// Law 1, and no recomputation for nothing. What even an empty decision breaks (a dead node kept storage from being
    /// taken over) stays the baseline, which `best` is.
    void keep_promise(evaluator& evaluate, evaluated_plan proposed, plan_outcome& best,
                      std::vector<std::string>& notes) const {
        const auto kept = roll_back(evaluate, std::move(proposed), best.figures.footprint.peak_bytes);
        if (kept.subgraphs > 0)
            notes.push_back(std::to_string(kept.subgraphs) +
                            " of the subgraphs to recompute were rolled back: they "
                            "would have raised the peak above the baseline's");
        if (best.figures.better_than(kept.plan.rated())) return;
        if (options_.allocator) {
            const std::uint64_t bytes = options_.allocator(kept.plan.steps());
            if (bytes >= best.allocated_bytes) return;
            best.allocated_bytes = bytes;
        }
        best.steps = kept.plan.steps();
        best.figures = kept.plan.rated();
    }

    /// Takes the plan without fusion, with what can be fused in it, where that is no worse than `best`.
    void keep_to(evaluator& evaluate, const plan& without, plan_outcome& best,
                 std::vector<std::string>& notes) const {
        const auto fused = evaluate.fused(without.steps());
        plan_outcome other{.figures = fused.rated(), .steps = fused.steps()};
        if (options_.allocator) other.allocated_bytes = options_.allocator(other.steps);
        if (!fusion_comparison(options_).takes(best, other, recompute_time(c_, without.steps()))) return;
        best = std::move(other);
        notes = without.report().notes;
    }

    const snapshot& s_;
    const plan_options& options_;
    candidates c_;
};

} // namespace detail

ECHO_INLINE plan make_plan(const snapshot& s, const plan_options& options) {
    if (!options.host.fuse) return detail::planner(s, options).run();
    detail::half_progress half{options.progress};
    plan_options asked = options;
    if (options.progress) asked.progress = half;
    asked.host.fuse = false;
    asked.host.offload = false;
    const plan without = detail::planner(s, asked).run();
    half.before = 0.5;
    asked.host = options.host;
    return detail::planner(s, asked).run(&without);
}

ECHO_INLINE plan_front front(const snapshot& s, const plan_options& options, std::size_t points) {
    plan_options asked = options;
    asked.how = strategy::budget;
    if (!options.host.fuse) return detail::planner(s, asked).front(points);
    detail::half_progress half{options.progress};
    if (options.progress) asked.progress = half;
    plan_front found = detail::planner(s, asked).front(points);
    half.before = 0.5;
    asked.host.fuse = false;
    detail::join(found.points, detail::planner(s, asked).front(points).points);
    return found;
}

} // namespace echo
