// SPDX-License-Identifier: BSL-1.0
/// @file
/// `missing_inputs`: which inputs of a node may not be there when it runs again behind the peak. What every step of a
/// long sequence reads may have as many inputs as there are steps, and for each of those it is asked anew.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/eviction.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace echo::detail {

/// Remembers, of nodes with many inputs at one peak, those that may be missing.
class missing_inputs {
public:
    /// Before another peak is looked at, and after anything else is decided.
    void clear() noexcept { known_.clear(); }

    /// Whether a node has many inputs.
    static bool remembers(const snapshot& s, node_id n) { return s.inputs(n).size() > tuning::few_inputs; }

    /// The inputs of `n`; where it has many, without those that are there at step `to`, which is behind the peak,
    /// whatever is given up. Valid until the next call for the same node. O(inputs × (runs of each + log forgets)), or
    /// O(log nodes remembered) where the same was asked for a step that stands as late in the graph or later; the first
    /// time O(nodes remembered) as well.
    std::span<const value_id> inputs(const eviction_view& view, node_id n, step_id to) {
        return remembers(view.s, n) ? remembered(view, n, to) : view.s.inputs(n);
    }

private:
    struct missing {
        node_id node{};
        /// Where it was asked, in the graph: what is there for a reader at this place is there for earlier ones.
        node_id asked_at{};
        std::vector<value_id> values;
    };

    /// Those that may be missing.
    std::span<const value_id> remembered(const eviction_view& view, node_id n, step_id to) {
        const node_id place = view.home(to);
        auto known = std::lower_bound(known_.begin(), known_.end(), n,
                                      [](const missing& m, node_id other) { return m.node < other; });
        const bool is_new = known == known_.end() || known->node != n;
        if (is_new) known = known_.insert(known, missing{n, place, {}});
        if (is_new || place > known->asked_at) {
            known->asked_at = place;
            known->values.clear();
            for (const value_id v : view.s.inputs(n))
                if (!is_there(view, v, to)) known->values.push_back(v);
        }
        return known->values;
    }

    /// Whether the value need be neither kept nor made again to be read at `to`.
    static bool is_there(const eviction_view& view, value_id v, step_id to) {
        const value_id base = view.c.base[v];
        const node_id maker = view.s[base].producer;
        if (view.c.resident[base] || view.s.phase_of(maker) != phase::forward) return true;
        const step_id run = view.history.run_before(maker, to);
        if (!run.valid()) return true;
        if (run >= view.peak || view.plan.steps()[run].fused || view.is_forgotten(maker, run, to))
            return false;
        return view.plan.live().last_held({run, view.s.output_index(base)}) >= view.peak;
    }

    std::vector<missing> known_; // by node; where others are put between, the values stay where they are
};

} // namespace echo::detail
