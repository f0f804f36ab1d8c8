// SPDX-License-Identifier: BSL-1.0
/// @file
/// From a choice to its replayed figures: what every strategy asks before it prefers one choice to another.
#pragma once

#include <echo/analysis/footprint.hpp>
#include <echo/analysis/lay_out.hpp>

#include <cstddef>
#include <span>

namespace echo {

/// A choice and its replayed figures.
struct trial {
    choice decided;
    footprint_result footprint{};
    double recompute_us = 0; ///< microseconds of the steps that run a node again

    /// A lower peak, or of equal peaks, less recomputation.
    bool better_than(const trial& other) const {
        if (footprint.peak_bytes != other.footprint.peak_bytes)
            return footprint.peak_bytes < other.footprint.peak_bytes;
        return recompute_us < other.recompute_us;
    }
};

/// Lays out and replays; scratch memory is kept between calls. Snapshot and candidates must outlive it.
class evaluator {
public:
    evaluator(const snapshot& s, const candidates& c) : s_(s), c_(c), layout_(s, c) {}

    /// Fills in the figures of `t`. O(nodes + edges + steps). Errors: as `replay`.
    void operator()(trial& t) {
        const schedule& steps = layout_(t.decided);
        t.footprint = replay_(s_, steps);
        t.recompute_us = recompute_us(steps);
        ++count_;
    }
    /// Evaluations so far.
    std::size_t count() const noexcept { return count_; }

    /// Time of the steps that run a node again, in microseconds. O(steps).
    double recompute_us(const schedule& steps) const {
        double sum = 0;
        for (const auto t : steps.steps())
            if (steps[t].kind == step_kind::recompute) sum += c_.time_us[steps[t].node.index()];
        return sum;
    }

    /// Of the last evaluation.
    const schedule& steps() const noexcept { return layout_.steps(); }
    /// Of the last evaluation.
    const replay& last() const noexcept { return replay_; }
    /// Of the last evaluation, by step: the node in whose place or for whose sake it runs.
    std::span<const node_id> moments() const noexcept { return layout_.moments(); }
    const snapshot& graph() const noexcept { return s_; }
    const candidates& facts() const noexcept { return c_; }

private:
    const snapshot& s_;
    const candidates& c_;
    layout layout_;
    replay replay_;
    std::size_t count_ = 0;
};

} // namespace echo
