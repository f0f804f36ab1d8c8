// SPDX-License-Identifier: BSL-1.0
/// @file
/// `local_search`: of plans under a limit, one with less recomputation, run by run. A value that is made again is kept
/// whatever that costs in memory; something else is forgotten for it; if that is cheaper, it stays so.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>
#include <echo/analysis/plan/moves/retain.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace echo {

/// For graphs so small that hundreds of replays are cheap. All must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class local_search {
public:
    local_search(evaluator<>& evaluate, evictor<>& evict, retainer<>& retain)
        : evaluate_(evaluate), s_(evaluate.graph()), evict_(evict), retain_(retain) {}

    /// A plan that is as good as `best` or better, for a peak of at most `limit`, which that of `best` keeps to. Each
    /// node that runs again is tried once, the longest first; then changes are drawn, until `replays` replays were
    /// made.
    [[nodiscard]] evaluated_plan operator()(evaluated_plan best, std::uint64_t limit, std::size_t replays) {
        tried_.assign(s_.node_count());
        const std::size_t last = spent() + replays;
        do ++returns_;
        while (spent() < last && improve(best, limit, last));
        state_ = 1;
        std::optional<evaluated_plan> other; // what is a little worse than the best may lead on
        for (std::size_t i = 0; spent() < last && best.recompute() > 0; ++i) {
            if (i % tuning::draws_between_restarts == 0) other.reset();
            auto changed = shaken(other ? *other : best);
            if (!changed) continue;
            auto found = evict_shaken(*std::move(changed), limit, 2 * best.recompute());
            if (!found.met) continue;
            auto plan = retain_(std::move(found.plan), limit, tuning::retained_after_draw);
            if (plan.recompute() < best.recompute()) {
                best = std::move(plan);
                other.reset();
            } else if (plan.recompute() <= best.recompute() + best.recompute() / tuning::worse_part) {
                other = std::move(plan);
            }
        }
        return best;
    }

    /// A plan with a peak that is lower, towards `limit`, or the same, by changes that are drawn, until `replays`
    /// replays were made.
    [[nodiscard]] evaluated_plan lower(evaluated_plan best, std::uint64_t limit, std::size_t replays) {
        const std::size_t last = spent() + replays;
        state_ = 1;
        while (spent() < last && best.peak_bytes() > limit) {
            auto changed = shaken(best);
            if (!changed) continue;
            auto found = evict_shaken(*std::move(changed), std::max(limit, best.peak_bytes() - 1),
                                      std::numeric_limits<ticks>::max());
            if (found.plan.peak_bytes() <= best.peak_bytes()) best = std::move(found.plan);
        }
        return best;
    }

private:
    /// Replays so far; to go back to an earlier plan counts as one.
    std::size_t spent() const noexcept { return evaluate_.count() + retain_.rejected() + returns_; }

    /// The plan with something changed at random: what is made again is made earlier, or kept; or what is kept is
    /// forgotten.
    std::optional<evaluated_plan> shaken(const evaluated_plan& plan) {
        ++returns_;
        const schedule& steps = plan.steps();
        const std::size_t boundary = first_backward_step(s_, steps).index();
        if (boundary >= steps.size()) return std::nullopt;
        kept_.clear();
        find_runs(plan);
        decision next = plan.decided();
        const std::size_t kind = draw(tuning::kinds_drawn), changes = 1 + draw(2);
        for (std::size_t i = 0; i < changes; ++i) {
            if (kind >= tuning::kinds_in_backward) {
                const std::size_t which = draw(tuning::places_drawn);
                const step_id at(boundary + draw(steps.size() - boundary));
                evict_.forget_at(plan, next, at, which);
            } else if (runs_.empty()) {
                return std::nullopt;
            } else if (kind < tuning::kinds_earlier) {
                make_earlier(next, runs_[draw(runs_.size())], plan.homes()[step_id(boundary)]);
            } else {
                kept_.push_back(runs_[draw(runs_.size())]);
                keep_copy(s_, next, kept_.back());
            }
        }
        return evaluate_(next);
    }

    /// All that the plan makes again for the backward pass, in the order of its steps.
    void find_runs(const evaluated_plan& plan) {
        runs_.clear();
        const run_history<>& runs = evaluate_.runs_of(plan);
        for (const auto t : late_steps(evaluate_.facts(), plan))
            if (can_be_retained(s_, plan, t)) runs_.push_back(kept_instead(plan, runs, t));
    }

    /// One to three nodes earlier, or anywhere between the last use and the next.
    void make_earlier(decision& decided, const kept_copy& run, node_id boundary) {
        const std::size_t first = std::max(boundary.index(), run.from.index() + 1), end = run.to.index();
        if (first >= end) return;
        const std::size_t range =
            draw(2) == 0 ? end - first : std::min(tuning::most_earlier_nodes, end - first);
        decided.make_early(run.node, node_id(end - 1 - draw(range)));
    }

    /// Meets the limit again, what the last change kept being kept.
    evicted_plan evict_shaken(evaluated_plan plan, std::uint64_t limit, ticks most) {
        locked_.resize(s_.node_count());
        for (const auto& copy : kept_) locked_.insert(copy.node);
        auto found =
            evict_(std::move(plan), limit, {.rounds = tuning::rounds_after_draw, .most = most}, locked_);
        for (const auto& copy : kept_) locked_.erase(copy.node);
        return found;
    }

    /// Below `end`. A linear congruential generator: the same everywhere.
    std::size_t draw(std::size_t end) {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>(state_ >> 33) % end;
    }

    /// Whether a better plan was found, which is `best` then.
    bool improve(evaluated_plan& best, std::uint64_t limit, std::size_t last) {
        const auto& times = evaluate_.facts().times.of_node;
        find_runs(best);
        ranking<> by_time;
        for (std::uint32_t i = 0; i < runs_.size(); ++i)
            if (!tried_[runs_[i].node]) by_time.add(i, static_cast<std::uint64_t>(times[runs_[i].node]));
        for (const auto i : by_time.descending()) {
            const kept_copy& run = runs_[i];
            if (spent() >= last) return false;
            if (!tried_.add(run.node)) continue;
            decision next = best.decided();
            keep_copy(s_, next, run);
            auto found = evict_(evaluate_(next), limit,
                                {.rounds = tuning::rounds_after_keeping,
                                 .most = best.recompute() + best.recompute() / tuning::dearer_part},
                                tried_);
            if (!found.met) continue;
            auto plan = retain_(std::move(found.plan), limit, tuning::retained_after_keeping);
            if (plan.recompute() >= best.recompute()) continue;
            best = std::move(plan);
            return true;
        }
        return false;
    }

    evaluator<>& evaluate_;
    const snapshot& s_;
    evictor<>& evict_;
    retainer<>& retain_;
    std::uint64_t state_ = 1;
    std::size_t returns_ = 0;
    id_set<node_id> tried_, locked_;
    std::vector<kept_copy> runs_, kept_;
};

} // namespace echo
