// SPDX-License-Identifier: BSL-1.0
/// @file
/// `retainer`: of plans under a limit, one with less recomputation. What is made again before or after the peak often
/// need not be: there is room to keep it. Runs are taken off the plan where the room is, dearest time per byte
/// first, each with the runs that only it needed.
#pragma once

#include <echo/analysis/copy_history.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/load_profile.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// The copy of what `node` makes stays from its last use at `from` to the one at `to`.
struct kept_copy {
    node_id node, from, to;
};

/// Spares decisions of one snapshot; scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class retainer {
public:
    explicit retainer(evaluator& evaluate)
        : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()) {}

    /// Takes runs off `t`, the last rated_decision evaluated, as long as its peak stays at most `limit`; afterwards it is again
    /// the last one evaluated. At most `rounds` replays and one more,
    /// O(inputs of steps + recomputes × log steps) each.
    void operator()(rated_decision& t, std::uint64_t limit, int rounds = 3) {
        for (int i = 0; i < rounds; ++i) {
            rated_decision next{.decided = t.decided};
            if (!retain_once(next.decided, limit)) return;
            evaluate_(next);
            if (next.footprint.peak_bytes > limit || next.recompute >= t.recompute) {
                evaluate_(t);
                return;
            }
            t = std::move(next);
        }
    }

    /// Whether a step of the last rated_decision evaluated makes something for the backward pass that could have been kept.
    /// What is fused takes no time, so there is nothing to spare.
    bool can_be_retained(step_id run) const {
        const step_record& step = evaluate_.steps()[run];
        return step.kind != step_kind::encode && !step.fused && s_[step.node].phase == phase::forward &&
               is_backward(s_[evaluate_.homes()[run.index()]].phase);
    }

    /// What it means that such a step is spared. O(steps) for the first after an evaluation.
    kept_copy kept_instead(step_id run) {
        if (read_at_ != evaluate_.count()) read_history();
        const node_id n = evaluate_.steps()[run].node;
        const step_id before = history_.earlier(run);
        return {n, before.valid() ? evaluate_.homes()[before.index()] : n, evaluate_.homes()[run.index()]};
    }

    /// Changes `decided`, that of the last rated_decision evaluated, so that the copy stays. O(forgets).
    void keep(decision& decided, const kept_copy& copy) const {
        if (!is_backward(s_[copy.from].phase)) decided.again[copy.node.index()] = 0;
        decided.remember(copy.node, copy.from, copy.to);
    }

private:
    bool retain_once(decision& decided, std::uint64_t limit) {
        const schedule& steps = evaluate_.steps();
        live_ = &evaluate_.last().live();
        read_history();
        load_profile profile(evaluate_.last().load());
        count_reads(steps);

        find_savings(steps);
        ranking by_price; // time saved per byte kept
        for (const auto t : steps.steps()) {
            if (!can_be_retained(t) || saved_[t.index()] <= 0) continue;
            std::uint64_t bytes = 1;
            for (std::uint32_t k = 0; k < s_.outputs(steps[t].node).size(); ++k)
                if (live_->last_read({t, k}).valid()) bytes += (*live_)[live_->storage({t, k})].bytes;
            by_price.add(t.index(), detail::mul_div(static_cast<std::uint64_t>(saved_[t.index()]),
                                                    std::uint64_t{1} << 40, bytes));
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

    /// What taking a run off saves: its own time, unless it is a late first run, and that of the recomputes which only
    /// it needs, directly or through each other. These are the runs below it in a tree: above a recompute stands the
    /// first run that all its readers have above them or are. O(inputs of steps); where readers lie far apart in the
    /// tree, the recompute is counted for none.
    void find_savings(const schedule& steps) {
        above_.assign(steps.size(), unread);
        depth_.assign(steps.size(), 0);
        saved_.assign(steps.size(), 0);
        for (std::size_t i = steps.size(); i-- > 0;) {
            const step_id t(i);
            const bool in_tree = can_be_retained(t);
            if (!in_tree || steps[t].kind != step_kind::recompute || above_[i] == unread) above_[i] = root;
            if (in_tree) depth_[i] = above_[i] == root ? 1 : depth_[above_[i]] + 1;
            const std::uint32_t reader = in_tree ? static_cast<std::uint32_t>(i) : root;
            for (const auto c : steps.inputs(t)) {
                auto& above = above_[c.step.index()];
                above = above == unread ? reader : common(above, reader);
            }
        }
        for (const auto t : steps.steps()) {
            if (steps[t].kind == step_kind::recompute && !steps[t].fused)
                saved_[t.index()] += c_.times.of_node[steps[t].node.index()];
            if (above_[t.index()] != root) saved_[above_[t.index()]] += saved_[t.index()];
        }
    }

    /// The first run that is above both, or either of them itself.
    std::uint32_t common(std::uint32_t a, std::uint32_t b) const {
        for (int climbed = 0; a != b; ++climbed) {
            if (a == root || b == root || climbed == 64) return root;
            auto& deeper = depth_[a] > depth_[b] ? a : b;
            deeper = above_[deeper];
        }
        return a;
    }

    /// Takes the run off, and those that only it needed.
    void take_off(step_id run) {
        const schedule& steps = evaluate_.steps();
        taken_.assign(1, run);
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            const step_id t = taken_[i];
            gone_[t.index()] = 1;
            for (const auto c : steps.inputs(t))
                if (--readers_[c.step.index()] == 0 && steps[c.step].kind == step_kind::recompute &&
                    !gone_[c.step.index()])
                    taken_.push_back(c.step);
        }
    }

    /// Keeping fills the gap between the last reader of the copy there was and the copy that is made now.
    bool fits(step_id again, load_profile& profile, std::int64_t limit) {
        const node_id n = evaluate_.steps()[again].node;
        const step_id before = history_.earlier(again);
        gaps_.clear();
        bool room = true;
        for (std::uint32_t k = 0; k < s_.outputs(n).size(); ++k) {
            if (!live_->last_read({again, k}).valid()) continue;
            const storage_id kept = live_->storage({before.valid() ? before : again, k});
            room = kept.valid(); // there is no copy of what was fused
            if (!room) break;
            const storage_record& storage = (*live_)[kept];
            if (storage.resident || (before.valid() && storage.last >= again)) continue;
            const std::size_t from = before.valid() ? storage.last.index() + 1 : place_of(n);
            const auto bytes = static_cast<std::int64_t>(storage.bytes);
            room = profile.most(from, again.index()) + bytes <= limit;
            if (!room) break;
            profile.add(from, again.index(), bytes);
            gaps_.emplace_back(from, bytes);
        }
        if (!room)
            for (const auto& [from, bytes] : gaps_) profile.add(from, again.index(), -bytes);
        return room;
    }

    /// The step at which the node would run in its own place. O(log steps).
    std::size_t place_of(node_id n) const {
        const auto homes = evaluate_.homes();
        return static_cast<std::size_t>(std::lower_bound(homes.begin(), homes.end(), n) - homes.begin());
    }

    /// What was made only for the run that was taken off is not held any more.
    void free_gone(load_profile& profile, step_id run) {
        for (const auto t : taken_) {
            if (t == run) continue;
            if (evaluate_.steps()[t].fused) continue;
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
    static constexpr std::uint32_t root = ~std::uint32_t{0}, unread = root - 1;
    std::vector<std::uint32_t> readers_;
    std::vector<std::uint32_t> above_, depth_; // step: its place in the tree of savings
    std::vector<ticks> saved_;
    std::vector<std::uint8_t> gone_;
    std::vector<step_id> taken_;
    std::vector<std::pair<std::size_t, std::int64_t>> gaps_;
};

} // namespace echo
