// SPDX-License-Identifier: BSL-1.0
/// @file
/// `local_search`: of plans under a limit, one with less recomputation, run by run. A value that is made again is kept
/// whatever that costs in memory; something else is forgotten for it; if that is cheaper, it stays so.
#pragma once

#include <echo/analysis/evict.hpp>
#include <echo/analysis/retain.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace echo {

/// For graphs so small that hundreds of replays are cheap. All must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class local_search {
public:
    local_search(evaluator& evaluate, evictor<>& relieve, retainer<>& spare)
        : evaluate_(evaluate), evict_(relieve), retain_(spare) {}

    /// `best` has a peak of at most `limit`, then too. Each node that runs again is tried once, the longest first; then
    /// changes are drawn, until `replays` replays were made.
    void operator()(rated_decision& best, std::uint64_t limit, std::size_t replays) {
        tried_.assign(evaluate_.graph().node_count(), 0);
        const std::size_t last = evaluate_.count() + replays;
        do evaluate_(best);
        while (evaluate_.count() < last && improve(best, limit, last));
        state_ = 1;
        rated_decision at = best;
        for (std::size_t i = 0; evaluate_.count() < last && best.recompute > 0; ++i) {
            if (i % 100 == 0) at = best;
            rated_decision t = at;
            if (!shake(t) || !evict_shaken(t, limit, 2 * best.recompute)) continue;
            retain_(t, limit, 3);
            if (t.recompute < best.recompute) best = t;
            // What is a little worse may lead on.
            if (t.recompute <= best.recompute + best.recompute / 5) at = std::move(t);
        }
    }

    /// Lowers the peak of `best` towards `limit` by changes that are drawn, until `replays` replays were made.
    void lower(rated_decision& best, std::uint64_t limit, std::size_t replays) {
        const std::size_t last = evaluate_.count() + replays;
        state_ = 1;
        while (evaluate_.count() < last && best.footprint.peak_bytes > limit) {
            rated_decision t = best;
            if (!shake(t)) continue;
            evict_shaken(t, std::max(limit, best.footprint.peak_bytes - 1),
                         std::numeric_limits<ticks>::max());
            if (t.footprint.peak_bytes <= best.footprint.peak_bytes) best = std::move(t);
        }
    }

private:
    /// Changes something at random: what is made again is made earlier, or kept; or what is kept is forgotten.
    bool shake(rated_decision& t) {
        evaluate_(t);
        const schedule& steps = evaluate_.steps();
        const std::size_t boundary = first_backward_step(evaluate_.graph(), steps).index();
        if (boundary >= steps.size()) return false;
        kept_.clear();
        runs_.clear();
        for (const auto step : steps.steps())
            if (retain_.can_be_retained(step)) runs_.push_back(retain_.kept_instead(step));
        const std::size_t kind = draw(20), changes = 1 + draw(2);
        for (std::size_t i = 0; i < changes; ++i) {
            if (kind >= 11)
                evict_.forget_at(t, step_id(boundary + draw(steps.size() - boundary)), draw(1U << 20));
            else if (runs_.empty())
                return false;
            else if (kind < 4)
                make_earlier(t.decided, runs_[draw(runs_.size())], evaluate_.homes()[boundary]);
            else {
                kept_.push_back(runs_[draw(runs_.size())]);
                retain_.keep(t.decided, kept_.back());
            }
        }
        evaluate_(t);
        return true;
    }

    /// One to three nodes earlier, or anywhere between the last use and the next.
    void make_earlier(decision& decided, const kept_copy& run, node_id boundary) {
        const std::size_t first = std::max(boundary.index(), run.from.index() + 1), end = run.to.index();
        if (first >= end) return;
        const std::size_t range = draw(2) == 0 ? end - first : std::min<std::size_t>(3, end - first);
        decided.make_early(run.node, node_id(end - 1 - draw(range)));
    }

    /// Meets the limit again, what the last shake kept being kept.
    bool evict_shaken(rated_decision& t, std::uint64_t limit, ticks most) {
        locked_.resize(evaluate_.graph().node_count(), 0);
        for (const auto& copy : kept_) locked_[copy.node.index()] = 1;
        evict_.lock(locked_);
        const bool fits = evict_(t, limit, {.rounds = 8, .most = most});
        evict_.lock({});
        for (const auto& copy : kept_) locked_[copy.node.index()] = 0;
        return fits;
    }

    /// Below `end`. A linear congruential generator: the same everywhere.
    std::size_t draw(std::size_t end) {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>(state_ >> 33) % end;
    }

    /// Whether a better plan was found.
    bool improve(rated_decision& best, std::uint64_t limit, std::size_t last) {
        const schedule& steps = evaluate_.steps();
        ranking by_time;
        for (const auto t : steps.steps())
            if (retain_.can_be_retained(t) && !tried_[steps[t].node.index()])
                by_time.add(t.index(), static_cast<std::uint64_t>(
                                           evaluate_.facts().times.of_node[steps[t].node.index()]));
        const auto order = by_time.descending();
        runs_.clear();
        for (const auto i : order) runs_.push_back(retain_.kept_instead(step_id(i)));
        for (const auto& run : runs_) {
            if (evaluate_.count() >= last) return false;
            if (std::exchange(tried_[run.node.index()], std::uint8_t{1})) continue;
            rated_decision t{.decided = best.decided};
            retain_.keep(t.decided, run);
            evaluate_(t);
            evict_.lock(tried_);
            const bool fits = evict_(t, limit, {.rounds = 10, .most = best.recompute + best.recompute / 10});
            evict_.lock({});
            if (!fits) continue;
            retain_(t, limit, 2);
            if (t.recompute >= best.recompute) continue;
            best = std::move(t);
            return true;
        }
        return false;
    }

    evaluator& evaluate_;
    evictor<>& evict_;
    retainer<>& retain_;
    std::uint64_t state_ = 1;
    std::vector<std::uint8_t> tried_, locked_;
    std::vector<kept_copy> runs_, kept_;
};

} // namespace echo
