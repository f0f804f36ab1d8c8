// SPDX-License-Identifier: BSL-1.0
/// @file
/// `exchanger`: of plans under a limit, one with less recomputation, by swaps: what is made again is kept, and what
/// takes less time is made again instead. A swap is priced by the change of the load alone; only some of them together
/// are replayed.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/dear_evictions.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/eviction_choice.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>
#include <echo/analysis/plan/moves/rerun_savings.hpp>
#include <echo/analysis/plan/moves/retain.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace echo {

/// A swap that is tried.
struct swap_attempt {
    const evaluated_plan& plan; ///< without it
    std::int64_t limit;         ///< on the peak, in bytes
    ticks saved;                ///< by what is kept
    ticks spent = 0;            ///< on what is evicted instead, so far

    /// The time that may still be spent so that it pays.
    ticks left() const { return saved - saved / tuning::swap_margin - spent; }
    /// At this price per byte or above it, as `tuning::price_parts` counts them, evictions of `excess` bytes take all
    /// of that time. None where it is beyond all prices.
    std::optional<std::uint64_t> most_paid(std::int64_t excess) const {
        const std::uint64_t price = detail::mul_div(static_cast<std::uint64_t>(std::max<ticks>(0, left())),
                                                    tuning::price_parts, static_cast<std::uint64_t>(excess));
        if (price == detail::mul_div_most) return std::nullopt;
        return price + 1;
    }
};

/// Each round tries runs of the plan, those that save most time per byte first: what the run makes is kept since its
/// last use, and wherever the load is above the limit then, something that takes less time is evicted. Swaps that share
/// no node are collected, replayed together, and led back under the limit; what costs more than before is dropped.
/// Scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class exchanger {
public:
    /// Of the evaluator's graph. All must outlive it. O(1).
    exchanger(evaluator<>& evaluate, evictor<>& evict, retainer<>& retain)
        : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()), evict_(evict), retain_(retain) {}

    /// A plan that is as good as `best` or better, for a peak of at most `limit`, which that of `best` keeps to. Each
    /// round takes some replays, and O(storages + idle copies × what making them again needs) for each swap that is
    /// tried.
    [[nodiscard]] evaluated_plan operator()(evaluated_plan best, std::uint64_t limit, std::size_t rounds) {
        tried_.assign(best.steps().size());
        for (std::size_t i = 0; i < rounds && best.recompute() > 0 && swap_some(best, limit); ++i) {
            auto found = evict_(evaluate_(next_), limit,
                                {.rounds = tuning::rounds_after_swaps,
                                 .most = best.recompute() + best.recompute() / tuning::dearer_part});
            if (!found.met) continue;
            auto plan = retain_(std::move(found.plan), limit, tuning::retained_after_keeping);
            if (plan.recompute() >= best.recompute()) continue;
            best = std::move(plan);
            tried_.assign(best.steps().size()); // what was too dear may pay now
        }
        return best;
    }

private:
    /// Bytes that a swap adds to some steps, or takes off them.
    struct change {
        std::size_t first, last;
        std::int64_t bytes;
    };
    /// Leaves in `next_` the decision of `plan` with some swaps that seem to pay. Whether there is any.
    bool swap_some(const evaluated_plan& plan, std::uint64_t limit) {
        next_ = plan.decided();
        savings_.read(s_, c_, plan);
        profile_.emplace(plan.load());
        touched_.assign(s_.node_count());
        kept_.assign(s_.node_count());
        known_.clear();
        std::size_t tries = 0, swaps = 0;
        ranking<> runs = by_worth(plan);
        while (!runs.empty() && tries < tuning::swaps_tried && swaps < tuning::swaps_together) {
            const step_id run(runs.take());
            if (touched_[plan.steps()[run].node] || !tried_.add(run)) continue;
            ++tries;
            swaps += try_swap(plan, run, limit);
        }
        return swaps > 0;
    }

    /// Runs that could be left out, to be taken by most time saved per byte kept.
    ranking<> by_worth(const evaluated_plan& plan) const {
        const liveness& live = plan.live();
        ranking<> order;
        for (const auto t : late_steps(c_, plan)) {
            const node_id n = plan.steps()[t].node;
            if (!can_be_retained(s_, plan, t) || savings_[t] <= 0 || tried_[t]) continue;
            std::uint64_t bytes = 1;
            for (std::uint32_t k = 0; k < s_.outputs(n).size(); ++k)
                if (live.last_read({t, k}).valid()) bytes += live[live.storage({t, k})].bytes;
            order.add(t.index(),
                      detail::mul_div(static_cast<std::uint64_t>(savings_[t]), tuning::price_parts, bytes));
        }
        order.begin_taking();
        return order;
    }

    /// Keeps what the run makes and evicts, wherever that is above the limit, what is cheaper. Whether that pays; if
    /// not, nothing is changed.
    bool try_swap(const evaluated_plan& plan, step_id run, std::uint64_t limit) {
        const node_id n = plan.steps()[run].node;
        before_ = next_;
        const std::size_t decided = known_.decided();
        changes_.clear();
        concerned_.assign(1, n);
        kept_.insert(n);
        swap_attempt swap{plan, static_cast<std::int64_t>(limit), savings_[run]};
        bool pays = fill_gap(plan, run);
        const kept_copy kept = kept_instead(plan, evaluate_.runs_of(plan), run);
        keep_copy(s_, next_, kept);
        known_.keep(n, kept.from, kept.to);
        while (pays && profile_->most() > swap.limit) pays = replace_at(swap, step_id(profile_->peak()));
        if (pays) {
            for (const node_id m : concerned_) touched_.insert(m);
            return true;
        }
        for (const change& c : changes_) profile_->add(c.first, c.last, -c.bytes);
        std::swap(next_, before_);
        known_.undo(decided);
        kept_.erase(n);
        return false;
    }

    /// Adds to the load what is kept from the last use of the copy before to the run. Whether there is a copy to keep.
    bool fill_gap(const evaluated_plan& plan, step_id run) {
        return for_each_gap(s_, plan, evaluate_.runs_of(plan), run, [&](const kept_gap& gap) {
            if (gap.first < run.index()) add(gap.first, run.index() - 1, gap.bytes);
            return true;
        });
    }

    /// Forgets something at the step, where what was kept is too much. Whether anything costs less than is saved.
    bool replace_at(swap_attempt& swap, step_id at) {
        const bool is_own = std::any_of(changes_.begin(), changes_.end(), [&](const change& c) {
            return c.first <= at.index() && at.index() <= c.last;
        });
        if (!is_own) return false;
        const eviction_view<> view{s_, c_, swap.plan, evaluate_.history_of(swap.plan), kept_, next_, at};
        const std::int64_t excess = profile_->most() - swap.limit;
        const auto price = choose_(view, excess, swap.most_paid(excess), known_, touched_, list_);
        if (!price) return false;
        const eviction e = list_.all.back();
        const auto freed = static_cast<std::uint64_t>(std::min(e.freed, excess));
        swap.spent += static_cast<ticks>(detail::mul_div(*price, freed, tuning::price_parts));
        if (swap.left() <= 0) return false;
        const auto copies = list_.copies_of(e);
        for (const evicted_copy& copy : copies) {
            concerned_.push_back(copy.node);
            for (const auto v : s_.inputs(copy.node)) concerned_.push_back(s_[c_.base[v]].producer);
            if (e.encodes.valid()) {
                next_.encoded[e.encodes] = 1; // no price rests on that
                continue;
            }
            const node_id forgotten_at = view.forgotten_at(copy);
            if (view.in_forward(copy.from))
                next_.again[copy.node] = 1;
            else
                next_.forget(copy.node, forgotten_at);
            known_.give_up(copy.node, view.home(copy.from), forgotten_at);
        }
        const auto [first, last] = list_.relieved(e);
        add(first, last, -e.freed);
        return true;
    }

    void add(std::size_t first, std::size_t last, std::int64_t bytes) {
        profile_->add(first, last, bytes);
        changes_.push_back({first, last, bytes});
    }

    evaluator<>& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    evictor<>& evict_;
    retainer<>& retain_;
    rerun_savings<> savings_;
    eviction_choice<> choose_;
    eviction_list list_;
    std::optional<load_profile> profile_; // with the swaps of the round
    decision next_, before_;              // with the swaps of the round; without the one that is tried
    std::vector<change> changes_;         // of the swap that is tried
    std::vector<node_id> concerned_;      // by it
    dear_evictions<> known_;              // of the plan, and what it and the others have decided
    id_set<node_id> touched_;             // by the swaps of the round
    id_set<node_id> kept_;                // by them, so that it is not forgotten
    id_set<step_id> tried_;
};

} // namespace echo
