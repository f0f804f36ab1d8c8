// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which schedule: Echo proposes several plans, and ggml's allocator, which places tensors in an order of its own, says
/// which of them users pay least for.
#pragma once

#include "give_back.hpp"
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
                  lower_bound = 0; ///< as Echo counts them, without the allocator's gaps
    double overhead = 0;           ///< predicted: recomputation, as a part of a step's time
    std::size_t recomputed = 0, proposals = 0, chosen = 0; ///< the proposal that was taken, counted from 1
    std::vector<std::string> unknown_ops{};
    std::string note{};    ///< why nothing is to be had
    std::string problem{}; ///< what stands in the way; it is said on standard error too
};

namespace detail {

class chooser {
public:
    chooser(const graph& g, const settings& asked)
        : graph_(g), asked_(asked), snapshot_(echo::read(g)), judge_(g), exchange_(step_us() > 2e6) {}

    decision run() {
        best_.before = best_.after = judge_(echo::baseline_schedule(snapshot_));
        const auto limit = budget();
        if (limit && best_.before.bytes <= *limit) return std::move(best_);
        if (limit)
            to_budget(*limit);
        else
            within_time();
        if (best_.steps) give_back(limit ? *limit : 0);
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
        if (!exchange_) o.exchange_replays = 0;
        o.host =
            echo::host_abilities{.recompute_results = false, .move = false, .encode = false, .erase = false};
        return o;
    }

    /// The least that Echo finds need not be the least that ggml's allocator makes of it: less recomputation leaves other
    /// gaps. So plans for a little less time, and those that name no figure, are asked as well.
    void within_time() {
        auto o = options();
        for (const auto how : {echo::strategy::min_cut, echo::strategy::echo}) {
            o.how = how;
            propose(o);
        }
        o.how = echo::strategy::budget;
        for (const double part : {1.0, 0.7, 0.85, 0.5}) {
            o.max_overhead = asked_.max_overhead * part;
            if (may_search()) propose(o);
        }
    }

    /// The allocator ends above Echo's peak: peaks below the budget are asked for until what it makes of one fits.
    void to_budget(std::uint64_t limit) {
        auto o = options();
        o.how = echo::strategy::budget;
        bool met = false;
        auto target = static_cast<double>(limit);
        for (int round = 0; round < 8 && !met && (round == 0 || may_search()); ++round, target *= 0.97) {
            o.budget = static_cast<std::uint64_t>(target);
            const auto bytes = propose(o, limit);
            met = bytes && *bytes <= limit;
            if (best_.lower_bound > limit) break;
        }
        if (met) return;
        best_.problem = "the budget of " + std::to_string(limit) + " bytes is not met: the least found is " +
                        std::to_string(best_.after.bytes) + ", and no plan goes below " +
                        std::to_string(best_.lower_bound);
        if (best_.lower_bound <= limit) return;
        best_.steps.reset();
        best_.after = best_.before;
    }

    /// Echo's plan is the least for Echo's peak. What ggml's allocator needs does not hang on all of it: recomputations
    /// without which it takes no more, or no more than the budget, are left out one by one, the last of the pass first.
    void give_back(std::uint64_t limit) {
        const std::uint64_t most = std::max<std::uint64_t>(best_.after.bytes, limit);
        const double judging_us = static_cast<double>(snapshot_.node_count()) + 50;
        auto tries = static_cast<std::size_t>(std::max(0.0, (step_us() / 2 - spent_us_) / judging_us));
        for (std::size_t t = best_.steps->size(); t-- > 0 && tries > 0;) {
            const echo::step_record step = (*best_.steps)[echo::step_id(t)];
            if (step.kind != echo::step_kind::recompute) continue;
            --tries;
            echo::schedule less = without(*best_.steps, echo::step_id(t));
            try {
                const cost of = judge_(less);
                if (of.bytes > most) continue;
                best_.after = of;
            } catch (const echo::error&) {
                continue;
            }
            best_.steps = std::move(less);
            --best_.recomputed;
            best_.overhead -=
                echo::graph_traits<graph>::time_us(graph_, graph_.order()[step.node.index()]).value_or(0) /
                step_us();
        }
        best_.peak = echo::footprint(snapshot_, *best_.steps).peak_bytes;
    }

    /// All searches together are to take no longer than one step of the training: by the model of times.hpp on two
    /// processors, and by how long a search takes, so that the same graph gets the same plan whatever the clock says.
    bool may_search() {
        const double us =
            std::max(20e3, 25 * static_cast<double>(snapshot_.node_count())) + (exchange_ ? 100e3 : 0);
        if (spent_us_ + us > step_us() / 3) return false;
        spent_us_ += us;
        return true;
    }

    double step_us() const {
        double us = 0;
        for (const ggml_tensor* const t : graph_.order()) us += time_us(t);
        return us;
    }

    /// What ggml's allocator makes of a plan with these options; the plan is kept if it is the best so far.
    std::optional<std::size_t> propose(const echo::plan_options& o, std::uint64_t limit = 0) {
        const echo::plan p = echo::make_plan(snapshot_, o);
        const auto& r = p.report();
        best_.unknown_ops = r.unknown_ops;
        best_.baseline_peak = r.baseline_peak_bytes;
        ++best_.proposals;
        if (o.how == echo::strategy::budget && best_.lower_bound == 0)
            best_.lower_bound = r.lower_bound_bytes;
        const bool in_time = limit || r.recompute_time_ratio <= asked_.max_overhead;
        if (r.recomputed_nodes == 0 || !in_time) return {};
        cost of;
        try {
            of = judge_(p.steps());
        } catch (const echo::error&) {
            return {}; // this order cannot be kept in ggml; another may
        }
        const auto over = [&](std::size_t bytes) { return std::max<std::uint64_t>(bytes, limit); };
        const bool better =
            over(of.bytes) < over(best_.after.bytes) ||
            (over(of.bytes) == over(best_.after.bytes) && r.recompute_time_ratio < best_.overhead);
        if (of.bytes < best_.before.bytes && better && fits(of)) {
            echo::verify(snapshot_, p); // shares no code with the planner
            best_.steps = p.steps();
            best_.after = of;
            best_.peak = r.peak_bytes;
            best_.overhead = r.recompute_time_ratio;
            best_.chosen = best_.proposals;
            best_.recomputed = r.recomputed_nodes;
        }
        return of.bytes;
    }

    /// A graph of ggml holds so many nodes and leaves, and ggml aborts beyond. An optimizer will add a step and two moments
    /// for each parameter.
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
    bool exchange_; // small graphs of long steps are searched more closely
    double spent_us_ = 0;
};

} // namespace detail

/// The schedule that ggml's allocator likes best. Errors: as `echo::read` and `echo::make_plan`.
inline decision choose(const graph& g, const settings& asked) { return detail::chooser(g, asked).run(); }

} // namespace echo_ggml
