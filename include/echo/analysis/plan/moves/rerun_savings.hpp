// SPDX-License-Identifier: BSL-1.0
/// @file
/// `rerun_savings`: what leaving a run out saves, with the runs that only it needs.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstddef>
#include <cstdint>

namespace echo::detail {

/// What taking a run off a plan saves: its own time, unless it is a late first run, and that of the recomputes which
/// only it needs, directly or through each other. These are the runs below it in a tree: above a recompute stands the
/// first run that all its readers have above them or are. Where readers lie far apart in the tree, the recompute is
/// counted for none. Scratch memory is kept between uses.
class rerun_savings {
public:
    /// O(steps + inputs of those behind the forward pass).
    void read(const snapshot& s, const candidates& c, const evaluated_plan& plan) {
        const schedule& steps = plan.steps();
        above_.assign(steps.size(), unread);
        depth_.assign(steps.size(), 0);
        saved_.assign(steps.size(), 0);
        const auto late = late_steps(c, plan); // none before them is in the tree
        const std::size_t first = steps.size() - late.size();
        for (std::size_t i = steps.size(); i-- > first;) {
            const step_id t(i);
            const bool in_tree = can_be_retained(s, plan, t);
            if (!in_tree || steps[t].kind != step_kind::recompute || above_[t] == unread) above_[t] = root;
            if (in_tree) depth_[t] = above_[t] == root ? 1 : depth_[above_[t]] + 1;
            const step_id reader = in_tree ? t : root;
            for (const auto copy : steps.inputs(t)) {
                if (copy.step.index() < first) continue;
                step_id& above = above_[copy.step];
                above = above == unread ? reader : common(above, reader);
            }
        }
        for (const auto t : late) {
            if (steps[t].kind == step_kind::recompute && !steps[t].fused)
                saved_[t] += c.times.of_node[steps[t].node];
            if (above_[t] != root) saved_[above_[t]] += saved_[t];
        }
    }

    /// What keeping the copy, in the place of this run, saves.
    ticks operator[](step_id run) const { return saved_[run]; }

private:
    static constexpr step_id root = step_id::none();
    static constexpr step_id unread = step_id(step_id::limit() - 1);

    /// The first run that is above both, or either of them itself.
    step_id common(step_id a, step_id b) const {
        for (int climbed = 0; a != b; ++climbed) {
            if (a == root || b == root || climbed == tuning::most_climbed) return root;
            auto& deeper = depth_[a] > depth_[b] ? a : b;
            deeper = above_[deeper];
        }
        return a;
    }

    id_vector<step_id, step_id> above_; ///< in the tree; `root` if none is
    id_vector<step_id, std::uint32_t> depth_;
    id_vector<step_id, ticks> saved_;
};

} // namespace echo::detail
