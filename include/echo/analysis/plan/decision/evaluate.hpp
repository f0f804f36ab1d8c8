// SPDX-License-Identifier: BSL-1.0
/// @file
/// `evaluator`: from a decision to a plan with its replayed figures: what every strategy asks before it prefers one
/// decision to another.
#pragma once

#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/plan/decision/fusion.hpp>
#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/error.hpp>
#include <echo/function_ref.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace echo::detail {

/// Time of the steps that run a node again and are not fused. O(steps). Errors: none.
inline ticks recompute_time(const candidates& c, const schedule& steps) {
    ticks sum = 0;
    for (const auto t : steps.steps())
        if (steps[t].kind == step_kind::recompute && !steps[t].fused) sum += c.times.of_node[steps[t].node];
    return sum;
}

/// Builds schedules, fuses if the host does, and replays. It remembers the last plans that are gone, so that one that
/// is asked for again need not be made again. Snapshot and candidates must outlive it, and it the plans that it makes.
class evaluator {
public:
    evaluator(const evaluator&) = delete; // plans point to it
    evaluator& operator=(const evaluator&) = delete;
    /// `stop`: see `plan_options::stop`.
    evaluator(const snapshot& s, const candidates& c, function_ref<bool()> stop = {})
        : s_(s), c_(c), stop_(stop), pool_(plans_kept(s)), build_(s, c), fuse_(s, c) {}

    /// The plan of a decision. O(nodes + edges + steps); of one that was evaluated a short while ago, O(nodes +
    /// values). Errors: as `replay`, and that it was stopped.
    [[nodiscard]] evaluated_plan operator()(const decision& decided) {
        if (stop_ && stop_())
            throw error({}, "stop", "planning was stopped", "plan again without a stop, or for less");
        ++count_;
        if (auto known = pool_.find(decided); !known.empty()) return {pool_, std::move(known)};
        evaluated_plan plan(pool_, pool_.take());
        detail::plan_data& data = plan.data();
        data.rated.decided = decided;
        build_(decided, data.steps, data.homes);
        rate(data);
        if (c_.host.fuse) plan = fused(std::move(plan));
        plan.data().is_whole = true;
        return plan;
    }
    /// These steps, of which nothing is fused, with what may be fused: of no decision and without homes. The peak does
    /// not rise by it. Errors: as `replay`.
    [[nodiscard]] evaluated_plan fused(const schedule& plain) {
        evaluated_plan plan(pool_, pool_.take());
        detail::plan_data& data = plan.data();
        data.rated.decided = {};
        data.steps = plain;
        data.homes.clear();
        rate(data);
        return fused(std::move(plan));
    }

    /// Which steps of a plan that this made run each node; as long as there is the plan. O(nodes + steps) for the first
    /// who asks.
    const run_history& runs_of(const evaluated_plan& plan) const {
        const detail::plan_data& data = plan.data();
        if (data.has_runs) return data.history;
        data.history.read_runs(s_, plan.steps());
        data.has_runs = true;
        return data.history;
    }
    /// The same, and which steps read each storage. O(nodes + steps + inputs) for the first who asks.
    const copy_history& history_of(const evaluated_plan& plan) const {
        static_cast<void>(runs_of(plan));
        const detail::plan_data& data = plan.data();
        if (!data.has_reads) data.history.read_reads(s_, c_.base, plan.steps(), plan.live());
        data.has_reads = true;
        return data.history;
    }

    /// Decisions evaluated so far.
    std::size_t count() const noexcept { return count_; }
    const snapshot& graph() const noexcept { return s_; }
    const candidates& facts() const noexcept { return c_; }

private:
    /// How many plans that are gone are kept: of a large graph one, whose memory the next takes.
    static std::size_t plans_kept(const snapshot& s) {
        const std::size_t size = s.node_count() + s.value_count() + s.edge_count();
        return std::clamp<std::size_t>(tuning::size_kept / (size + 1), 1, tuning::most_plans_kept);
    }

    void rate(detail::plan_data& data) {
        replay_(s_, data.steps, data.judged);
        data.has_runs = data.has_reads = false;
        data.is_retained = false;
        data.rated.footprint = data.judged.footprint;
        data.rated.recompute = recompute_time(c_, data.steps);
    }

    evaluated_plan fused(evaluated_plan plain) {
        evaluated_plan plan(pool_, pool_.take());
        detail::plan_data& data = plan.data();
        detail::plan_data& before = plain.data();
        data.steps = before.steps;
        if (fuse_(data.steps, before.judged) == 0) return plain;
        rate(data);
        if (plan.peak_bytes() > plain.peak_bytes()) return plain;
        std::swap(data.rated.decided, before.rated.decided);
        data.homes.clear();
        if (!before.homes.empty())
            for (const step_id t : fuse_.origins()) data.homes.push_back(before.homes[t]);
        return plan;
    }

    const snapshot& s_;
    const candidates& c_;
    function_ref<bool()> stop_;
    detail::plan_pool pool_;
    schedule_builder build_;
    fuser fuse_;
    replay replay_;
    std::size_t count_ = 0;
};

} // namespace echo::detail
