// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fuser`: of the recomputes of a plan, which the host recomputes inside their readers. Such a step takes no time and
/// no memory; in turn what it reads must live until its last reader has run. Steps are taken in execution order, so
/// that chains grow from what they start with, and each is fused if that is legal (fusable.hpp, `fusion_group`), stays
/// within `fusion_limits`, moves no more bytes than before and leaves the peak where it is (`fusion_lifetimes`).
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/fusion_group.hpp>
#include <echo/analysis/plan/decision/fusion_lifetimes.hpp>
#include <echo/analysis/plan/decision/hoisted_views.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <cstddef>
#include <vector>

namespace echo::detail {

/// Snapshot and candidates must outlive it; scratch memory is kept between uses.
class fuser {
public:
    fuser(const snapshot& s, const candidates& c, fusion_limits limits = {})
        : s_(s), group_(s, c, limits), hoist_(s) {}

    /// Marks steps as fused; none is yet. `last`: these very steps replayed. Returns how many are fused. First runs
    /// of views may be put in: `origins` says where.
    /// O(steps + reads + recomputes × log steps), and as often again as passes find something, at most three.
    std::size_t operator()(schedule& steps, const replayed& last) {
        group_.begin(steps);
        fusion_lifetimes lifetimes(s_, steps, last);
        for (int pass = 0; pass < 3; ++pass) {
            const std::size_t before = steps.fused_count();
            for (const auto t : steps.steps())
                if (group_.is_candidate(t)) try_fuse(t, steps, lifetimes);
            if (steps.fused_count() == before) break;
        }
        hoist_(steps);
        return steps.fused_count();
    }

    /// By step as they stand after the last use: the number it had before, or that of the one it was put in behind.
    const std::vector<step_id>& origins() const noexcept { return hoist_.origins(); }

private:
    void try_fuse(step_id t, schedule& steps, fusion_lifetimes& lifetimes) {
        if (!group_.gather(t)) return;
        for (const step_id g : group_.steps()) steps.fuse(g);
        if (group_.within_limits(t) && extend(t, lifetimes)) return;
        for (const step_id g : group_.steps()) steps.fuse(g, false);
    }

    /// What the group reads lives until its last reader. False, and nothing changed, if it cannot.
    bool extend(step_id t, fusion_lifetimes& lifetimes) {
        const step_id until = group_.last_reader(t);
        lifetimes.begin(t);
        bool fits = true;
        for (const step_id g : group_.steps())
            for (const copy_id c : group_.read_in_truth(g)) fits = fits && lifetimes.stays(c, until);
        if (!fits) lifetimes.undo();
        return fits;
    }

    const snapshot& s_;
    fusion_group group_;
    hoisted_views hoist_;
};

} // namespace echo::detail
