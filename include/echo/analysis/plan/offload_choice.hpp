// SPDX-License-Identifier: BSL-1.0
/// @file
/// `offload_choice`: of the plans that a search knows, each with as much moved to the host's memory as the link allows,
/// the one that does what was asked best.
#pragma once

#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/offload/offloader.hpp>
#include <echo/analysis/plan/plan_options.hpp>
#include <echo/analysis/plan/plan_outcome.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace echo::detail {

/// Whether values may be moved, by what the host can do and what was asked for.
inline bool may_offload(const plan_options& options) {
    return options.how == strategy::budget && options.host.offload && bool{options.link} &&
           !options.allocator;
}

/// All must outlive it. Errors: a link without rates.
class offload_choice {
public:
    offload_choice(evaluator& evaluate, const plan_options& options)
        : evaluate_(evaluate), options_(options), offload_(evaluate.graph(), evaluate.facts(), options_.link),
          evict_(evaluate) {}

    /// `best`, or what does better: a plan of those known, or the one that recomputes nothing, with moves; or what
    /// recomputation beside the moves makes of the best of them. Within the time that was asked for, or with the least
    /// time within the bytes. An offload for each plan known, and some ten more.
    [[nodiscard]] plan_outcome operator()(plan_outcome best, const std::vector<rated_decision>& known) {
        const schedule found = best.steps;                                       // `best` may change
        if (found != baseline_schedule(evaluate_.graph())) improve(best, found); // in which dead nodes run
        decision chosen = decision::nothing(evaluate_.graph());
        improve(best, evaluate_(chosen).steps());
        for (const rated_decision& each : known)
            if (each.recompute <= most_time(best) && improve(best, evaluate_(each.decided).steps()))
                chosen = each.decided;
        recompute_beside(best, std::move(chosen));
        return best;
    }

    /// Bytes by which moves without a wait bring the peak of a plan down.
    [[nodiscard]] std::uint64_t gain(const schedule& steps) {
        const std::uint64_t own = footprint(evaluate_.graph(), steps).peak_bytes;
        return own - offload_(steps, 0, 0).footprint.peak_bytes;
    }

    /// What moves make of each plan without a wait, and with waits of up to a tenth of a step: peaks and times.
    [[nodiscard]] std::vector<front_point> points(const std::vector<rated_decision>& known) {
        std::vector<front_point> found;
        const run_times& times = evaluate_.facts().times;
        const auto add = [&](const schedule& steps, ticks recompute) {
            for (const double waits : {0.0, 0.01, 0.02, 0.05, 0.1}) {
                const offloaded moved = offload_(steps, 0, times.at_most(waits));
                found.push_back({moved.footprint.peak_bytes, times.part(recompute + moved.copies.stall)});
            }
        };
        add(evaluate_(decision::nothing(evaluate_.graph())).steps(), 0);
        for (const rated_decision& each : known) add(evaluate_(each.decided).steps(), each.recompute);
        return found;
    }

private:
    bool has_budget() const { return options_.budget != any_peak; }

    /// The most that a plan may take to be better than `best`.
    ticks most_time(const plan_outcome& best) const {
        if (!has_budget()) return evaluate_.facts().times.at_most(options_.max_overhead);
        const bool is_met = best.figures.footprint.peak_bytes <= options_.budget;
        return is_met ? time_of(best) : std::numeric_limits<ticks>::max() / 4;
    }
    static ticks time_of(const plan_outcome& of) { return of.figures.recompute + of.copies.stall; }

    /// Of what is at the peak though all has left that leaves without a wait, more and more is recomputed: a little at
    /// a time, as long as there is time for it and peaks fall. Each plan on the way may be the best.
    void recompute_beside(plan_outcome& best, decision decided) {
        decided.heavy = true;
        const std::uint64_t least = lower_bound(evaluate_.graph(), evaluate_.facts(), options_.encode, true)
                                        .working_sets_with_results();
        const std::uint64_t target = has_budget() ? std::max(options_.budget, least) : least;
        std::uint64_t lowest = any_peak;
        for (std::size_t failed = 0; failed < tuning::limits_failed;) {
            if (!has_budget() && best.figures.footprint.peak_bytes <= least) return;
            const evaluated_plan plan = evaluate_(decided);
            if (plan.recompute() > most_time(best)) return;
            if (lowest != any_peak) improve(best, plan.steps());
            const offloaded moved = offload_(plan.steps(), target, 0);
            const std::uint64_t peak = moved.footprint.peak_bytes;
            if (peak <= target) return;
            failed = peak < lowest ? 0 : failed + 1;
            lowest = std::min(lowest, peak);
            std::vector<absent_storage> absent;
            for (const move& m : moved.moves)
                absent.push_back({plan.live().storage(m.of.content), m.gone, m.back});
            auto next =
                evict_.beside(plan, absent, std::max(target, peak - peak / tuning::step_parts_beside));
            if (!next) return;
            decided = *std::move(next);
        }
    }

    /// Whether the steps, with moves, are better than `best`, which they are then.
    bool improve(plan_outcome& best, const schedule& steps) {
        const ticks recompute = recompute_time(evaluate_.facts(), steps);
        const ticks most = most_time(best);
        if (recompute > most) return false;
        offloaded moved = offload_(steps, has_budget() ? options_.budget : 0, most - recompute);
        plan_outcome other{
            .figures = {moved.footprint, recompute}, .steps = std::move(moved.steps), .copies = moved.copies};
        const auto key = [&](const plan_outcome& of) {
            const std::uint64_t peak = of.figures.footprint.peak_bytes;
            return std::tuple(has_budget() ? std::max(peak, options_.budget) : peak, time_of(of), peak);
        };
        if (!(key(other) < key(best))) return false;
        best = std::move(other);
        return true;
    }

    evaluator& evaluate_;
    const plan_options& options_;
    offloader offload_;
    evictor evict_;
};

} // namespace echo::detail
