// SPDX-License-Identifier: BSL-1.0
/// @file
/// `strategies`: each strategy's proposal for a graph, as an evaluated plan. A new strategy is a case of `propose`.
#pragma once

#include <echo/analysis/plan/allocator_choice.hpp>
#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/bound_of_plan.hpp>
#include <echo/analysis/plan/budget/budget.hpp>
#include <echo/analysis/plan/budget/search_effort.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/offload_choice.hpp>
#include <echo/analysis/plan/plan_options.hpp>
#include <echo/analysis/plan/plan_progress.hpp>
#include <echo/analysis/plan/roll_back.hpp>
#include <echo/analysis/plan/strategies/anchors.hpp>
#include <echo/analysis/plan/strategies/echo.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/analysis/plan/strategies/mirror.hpp>
#include <echo/analysis/plan/strategies/reweigh.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo::detail {

/// All must outlive it.
class strategies {
public:
    strategies(const snapshot& s, const candidates& c, const plan_options& options, evaluator& evaluate,
               plan_progress& progress)
        : s_(s), c_(c), options_(options), evaluate_(evaluate), progress_(progress), anchors_(s, c) {}

    /// What there is to say about a proposal goes to `notes`.
    [[nodiscard]] evaluated_plan propose(strategy how, std::vector<std::string>& notes) {
        return how == strategy::budget ? propose_budget(notes) : propose_named(how);
    }

    /// Plans along the front, of rising recomputation; of a host with an allocator too, by their peaks.
    [[nodiscard]] std::vector<rated_decision> front(std::size_t count) {
        budget_search search(evaluate_, anchors_, asked());
        tell_what_is_known(search);
        const auto& found = search.front(count);
        return {found.begin(), found.end()};
    }

    /// What the search for `propose` knew in the end: plans that no other beats, peaks falling and times rising. Where
    /// values may be offloaded, or else none.
    const std::vector<rated_decision>& known() const noexcept { return known_; }

private:
    /// The best plan of a sweep over anchor distances.
    struct swept {
        evaluated_plan plan;
        std::uint32_t distance;
    };

    /// By any strategy but the search for budgets.
    evaluated_plan propose_named(strategy how) {
        switch (how) {
        case strategy::baseline:
            return evaluate_(decision::nothing(s_));
        case strategy::mirror:
            return evaluate_(mirror(s_, c_));
        case strategy::echo_printed:
            return evaluate_(echo_as_printed(s_, c_, gradient_needs(s_, c_, options_.encode)));
        case strategy::echo: {
            const gradient_needs needs(s_, c_, options_.encode);
            return sweep([&](const backward_needs& when) { return echo_pass(s_, c_, needs, when); }).plan;
        }
        case strategy::min_cut:
        case strategy::budget:
            break;
        }
        return lowered(propose_cut());
    }

    budget_options asked() const {
        return {.encode = options_.encode, .passes = options_.search, .progress = progress_.of_search()};
    }

    evaluated_plan propose_budget(std::vector<std::string>& notes) {
        budget_search search(evaluate_, anchors_, asked());
        tell_what_is_known(search);
        if (search.is_reduced())
            notes.emplace_back("a graph of this size is searched from fewer starts than a small one");
        const bool has_budget = options_.budget != any_peak;
        auto plan = has_budget ? propose_cheapest(search) : propose_lowest(search);
        if (may_offload(options_)) {
            if (has_budget) search_above(search, plan);
            known_ = search.known();
        }
        if (!has_budget && search.is_spent())
            notes.push_back(
                "a search of so large a graph ends after so much work: a lower peak may be possible");
        return plan;
    }
    /// Above a budget in bytes, as far as moving values brings a plan down: with moves, plans from there keep the
    /// budget too, and recompute for less.
    void search_above(budget_search& search, const evaluated_plan& plan) {
        const std::uint64_t gain = offload_choice(evaluate_, options_).gain(plan.steps());
        for (std::uint64_t parts = tuning::limits_above; gain > 0 && parts > 0; --parts)
            static_cast<void>(search.cheapest(options_.budget + mul_div(gain, parts, tuning::limits_above)));
    }
    evaluated_plan propose_cheapest(budget_search& search) {
        if (!options_.allocator) return search.cheapest(options_.budget);
        return allocator_choice(evaluate_, options_.allocator, search).cheapest(options_.budget);
    }
    evaluated_plan propose_lowest(budget_search& search) {
        const ticks most = c_.times.at_most(options_.max_overhead);
        if (!options_.allocator) return search.lowest(most);
        return allocator_choice(evaluate_, options_.allocator, search).smallest(most);
    }

    /// No search does worse than the minimum cut, with what is rolled back of it; of small graphs, than any other
    /// strategy.
    void tell_what_is_known(budget_search& search) {
        const std::uint64_t own = footprint(s_, baseline_schedule(s_)).peak_bytes;
        const auto know = [&](evaluated_plan plan) {
            search.know(roll_back(evaluate_, std::move(plan), own).plan);
        };
        evaluated_plan cut = propose_cut();
        if (search.knows_all()) {
            know(lowered(evaluate_(cut.decided())));
            for (const strategy how : {strategy::mirror, strategy::echo, strategy::echo_printed})
                know(propose_named(how));
        }
        know(std::move(cut));
    }

    evaluated_plan propose_cut() {
        min_cut solve(s_, c_);
        auto best = sweep([&](const backward_needs& when) {
            decision decided = decision::nothing(s_);
            solve(when, {.encode = options_.encode}, decided);
            return decided;
        });
        return retained(reweigh(evaluate_, solve, anchors_(best.distance), std::move(best.plan),
                                options_.weight_rounds, options_.encode));
    }

    /// A cut counts what is held where it is taken; what making it again holds on the way is seen by the replay alone.
    /// So the peak is lowered further, by light ops, as long as it lies above the bound; not that of a large graph.
    evaluated_plan lowered(evaluated_plan plan) {
        if (search_effort::of(s_).is_reduced) return plan;
        const auto at = most_loaded(s_, plan.steps(), plan.load());
        const std::span first(at.data(), std::min(at.size(), tuning::few_cuts));
        const std::uint64_t bound = lower_bound(s_, c_, options_.encode)(first, tuning::few_cuts);
        return retained(evictor(evaluate_).in_steps(std::move(plan), bound));
    }

    /// With less recomputation, at the same peak.
    evaluated_plan retained(evaluated_plan plan) {
        const std::uint64_t peak = plan.peak_bytes();
        return retainer(evaluate_)(std::move(plan), peak);
    }

    /// The best of what `decide` makes of each anchor distance.
    template <class Decide>
    swept sweep(const Decide& decide) {
        backward_needs when = anchors_(no_anchor);
        const auto distances = anchor_distances(when.largest_span, options_.anchor_distances);
        std::optional<swept> best;
        decision before;
        for (std::size_t i = 0; i < distances.size(); ++i) {
            progress_.tell_cuts(static_cast<double>(i) / static_cast<double>(distances.size()));
            if (i > 0) when = anchors_(distances[i]);
            const decision decided = decide(when);
            if (i > 0 && decided == before) continue;
            before = decided;
            auto plan = evaluate_(decided);
            if (!best || plan.better_than(best->plan)) best = swept{std::move(plan), distances[i]};
        }
        return *std::move(best);
    }

    const snapshot& s_;
    const candidates& c_;
    const plan_options& options_;
    evaluator& evaluate_;
    plan_progress& progress_;
    anchor_finder anchors_;
    std::vector<rated_decision> known_;
};

} // namespace echo::detail
