// SPDX-License-Identifier: BSL-1.0
/// @file
/// From a decision to its replayed figures: what every strategy asks before it prefers one decision to another.
#pragma once

#include <echo/analysis/footprint.hpp>
#include <echo/analysis/fusion.hpp>
#include <echo/analysis/schedule_builder.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace echo {

/// A decision and its replayed figures.
struct rated_decision {
    decision decided;
    footprint_result footprint{};
    ticks recompute = 0; ///< time of the steps that run a node again, those fused left out

    /// A lower peak, or of equal peaks, less recomputation.
    bool better_than(const rated_decision& other) const {
        if (footprint.peak_bytes != other.footprint.peak_bytes)
            return footprint.peak_bytes < other.footprint.peak_bytes;
        return recompute < other.recompute;
    }
};

/// Lays out, fuses if the host does, and replays; scratch memory is kept between calls. Snapshot and candidates must
/// outlive it.
class evaluator {
public:
    evaluator(const evaluator&) = delete; // it points into itself
    evaluator& operator=(const evaluator&) = delete;
    evaluator(const snapshot& s, const candidates& c) : s_(s), c_(c), builder_(s, c), fuse_(s, c) {}

    /// Fills in the figures of `t`. O(nodes + edges + steps). Errors: as `replay`.
    void operator()(rated_decision& t) {
        steps_ = &builder_(t.decided);
        t.footprint = replay_(s_, *steps_);
        homes_ = builder_.homes();
        if (c_.host.fuse) {
            t.footprint = fuse(*steps_, t.footprint, fused_);
            steps_ = &fused_;
        }
        t.recompute = recompute_time(*steps_);
        ++count_;
    }
    /// Fuses what may be fused in `plain`, of which nothing is yet; its peak does not rise. Errors: as `replay`.
    footprint_result fuse(const schedule& plain, schedule& fused) {
        return fuse(plain, replay_(s_, plain), fused);
    }
    /// Evaluations so far.
    std::size_t count() const noexcept { return count_; }

    /// Time of the steps that run a node again and are not fused. O(steps).
    ticks recompute_time(const schedule& steps) const {
        ticks sum = 0;
        for (const auto t : steps.steps())
            if (steps[t].kind == step_kind::recompute && !steps[t].fused)
                sum += c_.times.of_node[steps[t].node.index()];
        return sum;
    }

    /// Of the last evaluation.
    const schedule& steps() const noexcept { return *steps_; }
    /// Of the last evaluation.
    const replay& last() const noexcept { return replay_; }
    /// Of the last evaluation, by step: the node in whose place or for whose sake it runs.
    std::span<const node_id> homes() const noexcept { return homes_; }
    const snapshot& graph() const noexcept { return s_; }
    const candidates& facts() const noexcept { return c_; }

private:
    /// `found`: what the replay of `plain`, the last one, has found.
    footprint_result fuse(const schedule& plain, const footprint_result& found, schedule& fused) {
        fused = plain;
        if (fuse_(fused, replay_) == 0) return found;
        const footprint_result after = replay_(s_, fused);
        if (after.peak_bytes > found.peak_bytes) {
            fused = plain;
            return replay_(s_, plain);
        }
        if (&plain == &builder_.steps()) {
            fused_homes_.clear();
            for (const step_id t : fuse_.origins()) fused_homes_.push_back(builder_.homes()[t.index()]);
            homes_ = fused_homes_;
        }
        return after;
    }

    const snapshot& s_;
    const candidates& c_;
    schedule_builder builder_;
    fuser<> fuse_;
    replay replay_;
    schedule fused_; // of the last evaluation, if the host fuses
    std::span<const node_id> homes_;
    std::vector<node_id> fused_homes_;
    const schedule* steps_ = &builder_.steps();
    std::size_t count_ = 0;
};

} // namespace echo
