// SPDX-License-Identifier: BSL-1.0
/// @file
/// `spare`: of plans under a limit, one with less recomputation. What is made again before or after the peak often
/// need not be: there is room to keep it. Runs are taken off the plan where the room is, dearest time per byte
/// first, each with the runs that only it needed.
#pragma once

#include <echo/analysis/copy_history.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/load_profile.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <vector>

namespace echo {

/// The copy of what `node` makes stays from its last use at `from` to the one at `to`.
struct kept_copy {
    node_id node, from, to;
};

/// Spares trials of one snapshot; scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class sparer {
public:
    explicit sparer(evaluator& evaluate) : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()) {}

    /// Takes runs off `t`, the last trial evaluated, as long as its peak stays at most `limit`; afterwards it is again
    /// the last one evaluated. At most `rounds` replays, O(recomputes × log steps) each.
    void operator()(trial& t, std::uint64_t limit, int rounds = 3) {
        for (int i = 0; i < rounds; ++i) {
            trial next{.decided = t.decided};
            if (!spare_once(next.decided, limit)) return;
            evaluate_(next);
            if (next.footprint.peak_bytes > limit || next.recompute_us >= t.recompute_us) {
                evaluate_(t);
                return;
            }
            t = std::move(next);
        }
    }

    /// Takes back what is made early and then not read, or forgotten before it is. Evaluates `t`.
    void prune(trial& t) {
        for (evaluate_(t); !t.decided.early.empty(); evaluate_(t)) {
            const schedule& steps = evaluate_.steps();
            count_reads(steps);
            bool changed = false;
            for (const auto step : steps.steps())
                if (steps[step].kind == step_kind::recompute && readers_[step.index()] == 0)
                    changed |= t.decided.undo_early(steps[step].node, evaluate_.moments()[step.index()]);
            if (!changed) return;
        }
    }

    /// Whether a step of the last trial evaluated makes something for the backward pass that could have been kept.
    bool can_be_spared(step_id run) const {
        const step_record& step = evaluate_.steps()[run];
        return step.kind != step_kind::encode && s_[step.node].phase == phase::forward &&
               is_backward(s_[evaluate_.moments()[run.index()]].phase);
    }

    /// What it means that such a step is spared. O(steps) for the first after an evaluation.
    kept_copy kept_instead(step_id run) {
        if (read_at_ != evaluate_.count()) read_history();
        const node_id n = evaluate_.steps()[run].node;
        const step_id before = history_.earlier(run);
        return {n, before.valid() ? evaluate_.moments()[before.index()] : n,
                evaluate_.moments()[run.index()]};
    }

    void keep(choice& decided, const kept_copy& copy) const {
        if (!is_backward(s_[copy.from].phase)) decided.again[copy.node.index()] = 0;
        decided.remember(copy.node, copy.from, copy.to);
    }

private:
    bool spare_once(choice& decided, std::uint64_t limit) {
        const schedule& steps = evaluate_.steps();
        live_ = &evaluate_.last().live();
        read_history();
        load_profile profile(evaluate_.last().load());
        count_reads(steps);

        ranking by_price; // microseconds saved per byte kept
        for (const auto t : steps.steps()) {
            if (!can_be_spared(t)) continue;
            const double us = take_off(t);
            put_back();
            if (us <= 0) continue;
            double bytes = 1;
            for (std::uint32_t k = 0; k < s_.outputs(steps[t].node).size(); ++k)
                if (live_->last_read({t, k}).valid())
                    bytes += static_cast<double>((*live_)[live_->storage({t, k})].bytes);
            by_price.add(t.index(), us / bytes);
        }
        bool changed = false;
        for (const auto i : by_price.descending()) {
            const step_id again(i);
            if (gone_[again.index()]) continue;
            if (!fits(again, profile, static_cast<std::int64_t>(limit))) continue;
            take_off(again);
            free_gone(profile, again);
            keep(decided, kept_instead(again));
            changed = true;
        }
        return changed;
    }

    void count_reads(const schedule& steps) {
        readers_.assign(steps.size(), 0);
        gone_.assign(steps.size(), 0);
        for (const auto t : steps.steps())
            for (const auto c : steps.inputs(t)) ++readers_[c.step.index()];
    }

    /// Takes the run off, and those that only it needed; returns their time. A late first run costs none itself.
    double take_off(step_id run) {
        const schedule& steps = evaluate_.steps();
        taken_.assign(1, run);
        double us = 0;
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            const step_id t = taken_[i];
            gone_[t.index()] = 1;
            if (steps[t].kind == step_kind::recompute) us += c_.time_us[steps[t].node.index()];
            for (const auto c : steps.inputs(t))
                if (--readers_[c.step.index()] == 0 && steps[c.step].kind == step_kind::recompute &&
                    !gone_[c.step.index()])
                    taken_.push_back(c.step);
        }
        return us;
    }
    void put_back() {
        for (const auto t : taken_) {
            gone_[t.index()] = 0;
            for (const auto c : evaluate_.steps().inputs(t)) ++readers_[c.step.index()];
        }
    }

    /// Keeping fills the gap between the last reader of the copy there was and the copy that is made now.
    bool fits(step_id again, load_profile& profile, std::int64_t limit) {
        const node_id n = evaluate_.steps()[again].node;
        const step_id before = history_.earlier(again);
        gaps_.clear();
        bool fits = true;
        for (std::uint32_t k = 0; k < s_.outputs(n).size() && fits; ++k) {
            if (!live_->last_read({again, k}).valid()) continue;
            const storage_record& storage = (*live_)[live_->storage({before.valid() ? before : again, k})];
            if (storage.resident || (before.valid() && storage.last >= again)) continue;
            const std::size_t from = before.valid() ? storage.last.index() + 1 : place_of(n);
            const auto bytes = static_cast<std::int64_t>(storage.bytes);
            fits = profile.most(from, again.index()) + bytes <= limit;
            if (!fits) break;
            profile.add(from, again.index(), bytes);
            gaps_.emplace_back(from, bytes);
        }
        if (!fits)
            for (const auto& [from, bytes] : gaps_) profile.add(from, again.index(), -bytes);
        return fits;
    }

    /// The step at which the node would run in its own place. O(log steps).
    std::size_t place_of(node_id n) const {
        const auto moments = evaluate_.moments();
        return static_cast<std::size_t>(std::lower_bound(moments.begin(), moments.end(), n) -
                                        moments.begin());
    }

    /// What was made only for the run that was taken off is not held any more.
    void free_gone(load_profile& profile, step_id run) {
        for (const auto t : taken_) {
            if (t == run) continue;
            for (std::uint32_t k = 0; k < s_.outputs(evaluate_.steps()[t].node).size(); ++k) {
                const storage_record& storage = (*live_)[live_->storage({t, k})];
                if (storage.first == t && !storage.resident)
                    profile.add(t.index(), storage.last.index(), -static_cast<std::int64_t>(storage.bytes));
            }
        }
    }

    void read_history() {
        history_.read(s_, c_.base, evaluate_.steps(), evaluate_.last().live());
        read_at_ = evaluate_.count();
    }

    evaluator& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    const liveness* live_ = nullptr;
    copy_history<> history_;
    std::size_t read_at_ = 0; // the evaluation that history_ is of
    std::vector<std::uint32_t> readers_;
    std::vector<std::uint8_t> gone_;
    std::vector<step_id> taken_;
    std::vector<std::pair<std::size_t, std::int64_t>> gaps_;
};

} // namespace echo
