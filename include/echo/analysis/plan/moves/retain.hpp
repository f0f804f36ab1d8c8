// SPDX-License-Identifier: BSL-1.0
/// @file
/// `retainer`: of plans under a limit, one with less recomputation. What is made again before or after the peak often
/// need not be: there is room to keep it. Runs are taken off the plan where the room is, dearest time per byte
/// first, each with the runs that only it needed.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>
#include <echo/analysis/plan/moves/rerun_savings.hpp>
#include <echo/analysis/schedule/room_under.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// Keeps copies in plans of one snapshot; scratch memory is kept between uses.
class retainer {
public:
    explicit retainer(evaluator& evaluate)
        : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()) {}

    /// The plan with fewer runs, as long as its peak stays at most `limit`; what is decided about `settled` stays. At
    /// most `rounds` replays, O(inputs of steps + recomputes × log steps) each.
    [[nodiscard]] evaluated_plan operator()(evaluated_plan plan, std::uint64_t limit, node_id settled = {},
                                            int rounds = 3) {
        for (int i = 0; i < rounds && !plan.is_retained_at(limit); ++i) {
            next_ = plan.decided();
            if (!retain_once(plan, limit, settled)) {
                if (!settled.valid()) plan.set_retained_at(limit);
                return plan;
            }
            evaluated_plan next = evaluate_(next_);
            if (next.peak_bytes() > limit || next.recompute() >= plan.recompute()) return plan;
            plan = std::move(next);
        }
        return plan;
    }

private:
    bool retain_once(const evaluated_plan& plan, std::uint64_t limit, node_id settled) {
        const schedule& steps = plan.steps();
        room_under room(limit, plan.load());
        if (!has_room_for_any(plan, room)) return false;
        savings_.read(s_, c_, plan);
        count_reads(plan);
        kept_.clear();
        for (const auto i : by_price(plan).descending()) {
            const step_id again(i);
            if (steps[again].node == settled || gone_[again] || !take_room(plan, again, room)) continue;
            take_off(steps, again);
            free_gone(plan, room, again);
            kept_.push_back(kept_instead(plan, evaluate_.runs_of(plan), again));
        }
        keep_copies(s_, next_, kept_);
        return !kept_.empty();
    }

    /// Whether a run could be taken off at all: mostly none can, and nothing else need be known then.
    bool has_room_for_any(const evaluated_plan& plan, room_under& room) {
        for (const auto t : late_steps(c_, plan))
            if (can_be_retained(s_, plan, t) && take_room(plan, t, room)) {
                give_room_back(t, room);
                return true;
            }
        return false;
    }

    /// Runs that could be taken off, by the time that this saves per byte kept.
    ranking by_price(const evaluated_plan& plan) const {
        const liveness& live = plan.live();
        ranking order;
        for (const auto t : late_steps(c_, plan)) {
            if (!can_be_retained(s_, plan, t) || savings_[t] <= 0) continue;
            std::uint64_t bytes = 1;
            for (std::uint32_t k = 0; k < s_.outputs(plan.steps()[t].node).size(); ++k)
                if (live.last_read({t, k}).valid()) bytes += live[live.storage({t, k})].bytes;
            order.add(t.index(),
                      detail::mul_div(static_cast<std::uint64_t>(savings_[t]), tuning::price_parts, bytes));
        }
        return order;
    }

    /// What runs again is read behind the forward pass alone.
    void count_reads(const evaluated_plan& plan) {
        const schedule& steps = plan.steps();
        readers_.assign(steps.size(), 0);
        gone_.assign(steps.size());
        for (const auto t : late_steps(c_, plan))
            for (const auto c : steps.inputs(t)) ++readers_[c.step];
    }

    /// Takes the run off, and those that only it needed.
    void take_off(const schedule& steps, step_id run) {
        taken_.assign(1, run);
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            const step_id t = taken_[i];
            gone_.insert(t);
            for (const auto c : steps.inputs(t))
                if (--readers_[c.step] == 0 && steps[c.step].kind == step_kind::recompute && !gone_[c.step])
                    taken_.push_back(c.step);
        }
    }

    /// Keeping fills the gap between the last reader of the copy there was and the copy that is made now. Whether there
    /// is room for that; it is taken then.
    bool take_room(const evaluated_plan& plan, step_id again, room_under& room) {
        gaps_.clear();
        const bool fits = for_each_gap(s_, plan, evaluate_.runs_of(plan), again, [&](const kept_gap& gap) {
            if (!room.has(gap.first, again.index(), gap.bytes)) return false;
            room.take(gap.first, again.index(), gap.bytes);
            gaps_.push_back(gap);
            return true;
        });
        if (!fits) give_room_back(again, room);
        return fits;
    }
    /// What was taken for the run last.
    void give_room_back(step_id again, room_under& room) const {
        for (const kept_gap& gap : gaps_) room.take(gap.first, again.index(), -gap.bytes);
    }

    /// What was made only for the run that was taken off is not held any more.
    void free_gone(const evaluated_plan& plan, room_under& room, step_id run) const {
        const liveness& live = plan.live();
        for (const auto t : taken_) {
            if (t == run) continue;
            if (plan.steps()[t].fused) continue;
            for (std::uint32_t k = 0; k < s_.outputs(plan.steps()[t].node).size(); ++k) {
                const storage_record& storage = live[live.storage({t, k})];
                if (storage.first == t && !storage.resident)
                    room.take(t.index(), storage.last.index(), -static_cast<std::int64_t>(storage.bytes));
            }
        }
    }

    evaluator& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    decision next_; // of the round
    rerun_savings savings_;
    id_vector<step_id, std::uint32_t> readers_;
    id_set<step_id> gone_;
    std::vector<step_id> taken_;
    std::vector<kept_copy> kept_;
    std::vector<kept_gap> gaps_; // for the run looked at last
};

} // namespace echo::detail
