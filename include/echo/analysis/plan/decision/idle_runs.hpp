// SPDX-License-Identifier: BSL-1.0
/// @file
/// `idle_run_remover`: takes out of a schedule the runs whose copies nobody reads. A copy that is forgotten, or made
/// early, may turn out to serve no one.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo::detail {

/// Removes idle runs from schedules of one snapshot; scratch memory is kept between calls. Snapshot and candidates must
/// outlive it.
class idle_run_remover {
public:
    /// For schedules of this snapshot.
    idle_run_remover(const snapshot& s, const candidates& c) : s_(s), c_(c) {}

    /// Leaves out what nobody reads before it is forgotten, and what was run for that alone. The first run that is left
    /// of a node is no recompute. `homes`, by step, loses the entries of the same steps. O(nodes + steps + their
    /// inputs).
    void operator()(schedule& steps, id_vector<step_id, node_id>& homes) {
        if (find_idle(steps)) renumber(steps, homes);
    }

private:
    /// Whether there are any; `number_` is none for these.
    [[nodiscard]] bool find_idle(const schedule& steps) {
        readers_.assign(steps.size(), 0);
        for (const auto t : steps.steps())
            for (const auto c : steps.inputs(t)) ++readers_[c.step];
        seen_.assign(s_.node_count());
        number_.assign(steps.size(), step_id(0));
        bool any = false;
        for (std::size_t i = steps.size(); i-- > 0;) { // every reader is seen before what it reads
            const step_id t(i);
            if (steps[t].kind == step_kind::encode) continue;
            if (readers_[t] == 0 && may_go(steps[t])) {
                any = true;
                number_[t] = step_id::none();
                for (const auto c : steps.inputs(t)) --readers_[c.step];
            } else {
                seen_[steps[t].node] = 1;
            }
        }
        return any;
    }

    /// Of a step that nobody reads. The last run of a graph result is the result.
    bool may_go(const step_record& step) const {
        const node_id n = step.node;
        if (s_.phase_of(n) != phase::forward) return false;
        if (seen_[n]) return step.kind == step_kind::recompute || c_.late_is_free(n);
        bool makes_result = false;
        for (const auto v : s_.outputs(n)) makes_result |= s_.is_result(v);
        return step.kind == step_kind::recompute && !makes_result;
    }

    void renumber(schedule& steps, id_vector<step_id, node_id>& homes) {
        left_.clear();
        seen_.assign(s_.node_count());
        for (const auto t : steps.steps()) {
            if (!number_[t].valid()) continue;
            step_record step = steps[t];
            if (step.kind != step_kind::encode && seen_.add(step.node)) step.kind = step_kind::run;
            const auto inputs = steps.inputs(t);
            const step_id now = left_.add(step, inputs.size(), [&](std::size_t k) {
                return copy_id{number_[inputs[k].step], inputs[k].output};
            });
            number_[t] = now;
            homes[now] = homes[t];
        }
        homes.resize(left_.size());
        std::swap(steps, left_);
    }

    const snapshot& s_;
    const candidates& c_;
    schedule left_;                             ///< what is left; changes places with the caller's
    id_vector<step_id, std::uint32_t> readers_; ///< step: reads of its copies
    id_set<node_id> seen_;                      ///< node: a run of it that stays was met, behind or before
    id_vector<step_id, step_id> number_;        ///< step: its number once what is idle is left out
};

} // namespace echo::detail
