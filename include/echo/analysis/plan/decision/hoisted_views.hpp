// SPDX-License-Identifier: BSL-1.0
/// @file
/// `hoisted_views`: views that are fused, though they run there for the first time. Gradients often read what an op
/// made through a view that serves them alone, a `detach`, and runs late. A first run cannot be fused: so the view runs
/// right after what it looks at, where it holds nothing, and what was its first run is a recompute.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace echo::detail {

/// Rewrites schedules of one snapshot, which must outlive it; scratch memory is kept between uses.
class hoisted_views {
public:
    explicit hoisted_views(const snapshot& s) : s_(s) {}

    /// Puts a run of each fused view that runs there for the first time behind the first run of what it looks at.
    /// O(steps + reads + views × log views).
    void operator()(schedule& steps) {
        hoisted_.clear();
        origins_.clear();
        for (const auto t : steps.steps()) {
            const step_record& step = steps[t];
            origins_.push_back(t);
            if (step.fused && step.kind == step_kind::run)
                hoisted_.push_back({s_[s_.inputs(step.node)[0]].producer, step.node});
        }
        if (hoisted_.empty()) return;
        std::sort(hoisted_.begin(), hoisted_.end());
        origins_.clear();
        rewritten_.clear();
        number_.assign(steps.size(), step_id::none());
        for (const auto t : steps.steps()) {
            step_record step = steps[t];
            const bool first = step.kind == step_kind::run && !step.fused;
            if (step.fused) step.kind = step_kind::recompute;
            number_[t] = rewritten_.add(step);
            for (const copy_id c : steps.inputs(t)) rewritten_.read({number_[c.step], c.output});
            origins_.push_back(t);
            if (first) run_views(step.node, number_[t], t);
        }
        std::swap(steps, rewritten_);
    }

    /// By step as they stand after the last use: the number it had before, or that of the one it was put in behind.
    const std::vector<step_id>& origins() const noexcept { return origins_; }

private:
    struct view {
        node_id of, node;
        friend auto operator<=>(const view&, const view&) = default;
    };

    void run_views(node_id base, step_id made, step_id origin) {
        views_.assign(1, {base, made});
        while (!views_.empty()) {
            const auto [looked_at, run] = views_.back();
            views_.pop_back();
            auto h = std::lower_bound(hoisted_.begin(), hoisted_.end(), view{looked_at, node_id(0)});
            for (; h != hoisted_.end() && h->of == looked_at; ++h) {
                const step_id t = rewritten_.add({.node = h->node});
                rewritten_.read({run, s_.output_index(s_.inputs(h->node)[0])});
                origins_.push_back(origin);
                views_.emplace_back(h->node, t);
            }
        }
    }

    const snapshot& s_;
    std::vector<view> hoisted_; // sorted
    std::vector<std::pair<node_id, step_id>> views_;
    schedule rewritten_;
    id_vector<step_id, step_id> number_;
    std::vector<step_id> origins_;
};

} // namespace echo::detail
