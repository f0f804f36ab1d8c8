// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fusion_group`: a recompute with the views of what it makes, the steps inside which the host would recompute them,
/// and whether it may. Legal means that whoever reads the step is a reader as fusable.hpp has it, or is fused too, that
/// views of what it makes are fused with it, and that nothing packs it.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// Looks at one step after the other of a schedule. Snapshot and candidates must outlive it; scratch memory is kept.
class fusion_group {
public:
    fusion_group(const snapshot& s, const candidates& c, const fusion_limits& limits)
        : s_(s), c_(c), limits_(limits) {}

    /// Looks at steps of this schedule from now on, of which none is fused yet. O(steps + reads).
    void begin(const schedule& steps) {
        steps_ = &steps;
        readers_.begin(steps.size());
        for (const auto t : steps.steps())
            for (const auto c : steps.inputs(t)) readers_.count(c.step);
        readers_.lay_out();
        for (const auto t : steps.steps())
            for (const auto c : steps.inputs(t)) readers_.add(c.step, t);
    }

    /// Whether the step is a recompute that a host fuses, and is not fused yet.
    bool is_candidate(step_id t) const {
        const step_record& step = (*steps_)[t];
        return step.kind == step_kind::recompute && !step.fused && c_.fusion.fusable[step.node] &&
               s_[step.node].kind == op_kind::light;
    }

    /// The step with the views of what it makes, and the steps inside which they would be recomputed.
    bool gather(step_id t) {
        group_.assign(1, t);
        real_.clear();
        for (std::size_t i = 0; i < group_.size(); ++i) {
            for (const step_id r : readers(group_[i])) {
                if (std::find(group_.begin(), group_.end(), r) != group_.end()) continue;
                if (!takes_in(r, group_[i])) return false;
                if (is_view_of(r, group_[i])) {
                    if (group_.size() > limits_.readers) return false;
                    group_.push_back(r);
                } else if (!add_real(r)) {
                    return false;
                }
            }
        }
        return !real_.empty();
    }

    /// The steps of the group that was gathered last, of which the first is the one that it was gathered for.
    const std::vector<step_id>& steps() const noexcept { return group_; }

    /// Whether the host may recompute the group of step `t`, marked as fused, inside its readers: each takes in only so
    /// many, and no more bytes are moved than before.
    bool within_limits(step_id t) {
        const auto real = real_;
        for (const step_id r : real) {
            const node_id reader = (*steps_)[r].node;
            std::size_t light = 0, keys = s_[reader].rerun == rerun_kind::seeded;
            for (const step_id inner : walk_.inside(*steps_, r)) {
                const node_record& node = s_[(*steps_)[inner].node];
                light += node.kind == op_kind::light;
                keys += node.rerun == rerun_kind::seeded;
            }
            if (light > limits_.inside) return false;
            if (read_in_truth(r).size() + s_.outputs(reader).size() + keys > limits_.tensors) return false;
        }
        // What was recomputed inside `t` is recomputed inside its readers now.
        inner_ = walk_.inside(*steps_, t);
        inner_.push_back(t);
        return std::all_of(inner_.begin(), inner_.end(), [&](step_id i) { return moves_no_more(i); });
    }

    /// The last of the steps inside which step `t`, which is fused, is recomputed.
    step_id last_reader(step_id t) {
        real_.clear();
        add_real(t);
        return *std::max_element(real_.begin(), real_.end());
    }

    /// The copies that step `t` reads in truth, each once. Until the next call.
    const std::vector<copy_id>& read_in_truth(step_id t) {
        read_.clear();
        walk_(*steps_, t, [&](std::uint32_t, copy_id c) {
            if (std::find(read_.begin(), read_.end(), c) == read_.end()) read_.push_back(c);
        });
        return read_;
    }

private:
    std::span<const step_id> readers(step_id t) const { return readers_[t]; }

    bool is_view_of(step_id r, step_id base) const {
        for (const auto v : s_.outputs((*steps_)[r].node))
            if (s_[v].view_of != no_input && steps_->inputs(r)[s_[v].view_of].step == base) return true;
        return false;
    }

    bool takes_in(step_id r, step_id made) const {
        const step_record& step = (*steps_)[r];
        const node_id n = step.node;
        if (step.kind == step_kind::encode) return false;
        if (is_view_of(r, made))
            return c_.fusion.fusable[n] && (step.kind == step_kind::recompute || may_run_early(step.node));
        if (!c_.fusion.reader[n]) return false;
        for (const copy_id c : steps_->inputs(r))
            if (c.step == made && s_[s_.output((*steps_)[made].node, c.output)].elements < c_.fusion.work[n])
                return false;
        return true;
    }

    /// Whether the view could as well run right after what it looks at.
    bool may_run_early(node_id n) const {
        return c_.hoistable[n] || (c_.movable[n] && s_.control(n).empty());
    }

    /// Adds the steps inside which `r` is recomputed, or itself, to `real_`. False if they are too many.
    bool add_real(step_id r) {
        up_.assign(1, r);
        while (!up_.empty()) {
            const step_id u = up_.back();
            up_.pop_back();
            if ((*steps_)[u].fused) {
                up_.insert(up_.end(), readers(u).begin(), readers(u).end());
                if (up_.size() > limits_.readers * limits_.inside) return false;
            } else if (std::find(real_.begin(), real_.end(), u) == real_.end()) {
                if (real_.size() == limits_.readers) return false;
                real_.push_back(u);
            }
        }
        return true;
    }

    std::uint64_t bytes_of(copy_id c) const {
        const step_record& maker = (*steps_)[c.step];
        return maker.kind == step_kind::encode ? maker.bytes : s_[s_.output(maker.node, c.output)].bytes;
    }

    /// Each reader reads what the step reads, which the step read once, to write what they all read.
    bool moves_no_more(step_id t) {
        real_.clear();
        if (!add_real(t)) return false;
        detail::uint128 in = 0, out = 0;
        for (const copy_id c : read_in_truth(t)) in += bytes_of(c);
        for (const auto v : s_.outputs((*steps_)[t].node)) out += s_[v].bytes;
        const std::size_t count = real_.size(); // at least 1
        return s_[(*steps_)[t].node].kind == op_kind::view || (count - 1) * in <= (count + 1) * out;
    }

    const snapshot& s_;
    const candidates& c_;
    fusion_limits limits_;
    const schedule* steps_ = nullptr;
    id_lists<step_id, step_id> readers_; // by step: those that read it, some more than once, in order
    read_walk walk_;
    std::vector<step_id> group_, real_, inner_, up_;
    std::vector<copy_id> read_;
};

} // namespace echo::detail
