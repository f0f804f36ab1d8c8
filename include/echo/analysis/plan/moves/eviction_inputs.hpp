// SPDX-License-Identifier: BSL-1.0
/// @file
/// `eviction_inputs`: what must be there to make again what is given up: what that keeps over the peak, and what else
/// is made again for it.
#pragma once

#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/eviction_finder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// For whom something is made again, and what is known there.
struct rerun_place {
    const eviction_view& view; ///< what is decided
    idle_copies& idle;         ///< at its peak
    step_id to;                ///< the step that reads it
};

/// What one eviction needs, which grows. Scratch memory is kept between uses.
class eviction_inputs {
public:
    /// Nothing is given up. O(nodes) the first time, else O(1).
    void begin(std::size_t nodes) {
        is_demanded_.resize(nodes);
        is_given_up_.resize(nodes);
        is_kept_.resize(nodes);
    }
    /// Takes everything back; what was given up are the copies of the list from number `first` on. O(copies + what they
    /// need).
    void end(const eviction_view& view, const eviction_list& list, std::size_t first) {
        for (std::size_t i = first; i < list.copies.size(); ++i) is_given_up_.erase(list.copies[i].node);
        keep_only(view, 0);
        demand_only(0);
    }

    /// The node is given up itself, so that nobody has to keep it. O(1).
    void give_up(node_id n) { is_given_up_.insert(n); }
    /// Whether it is. O(1).
    bool is_given_up(node_id n) const { return is_given_up_[n]; }
    /// What is kept over the peak, each once. O(1).
    const std::vector<evicted_copy>& kept() const { return kept_; }
    /// How many bytes that are. O(1).
    std::int64_t kept_bytes() const { return kept_bytes_; }

    /// Adds what making `n` keeps live over the peak, and what is not there any more and must be made as well; returns
    /// the time of the latter, which is paid once. `depth`: so many times it is asked what that needs in turn.
    /// O(inputs of `n` and of all that is made as well).
    ticks demand(const rerun_place& at, node_id n, int depth) { return demand(at, n, depth, false); }

    /// Whether making `n` keeps nothing more, and all that must be made for it takes no time; if not, nothing is added.
    /// O(inputs up to the first that is kept or takes time).
    bool demands_nothing(const rerun_place& at, node_id n, int depth) {
        const std::size_t kept = kept_.size(), demanded = demanded_.size();
        if (demand(at, n, depth, true) == 0 && kept_.size() == kept) return true;
        keep_only(at.view, kept);
        demand_only(demanded);
        return false;
    }

    /// Takes one of `kept()` out, and returns it. O(kept).
    evicted_copy take(const eviction_view& view, std::size_t number) {
        const evicted_copy taken = kept_[number];
        const auto place = kept_.begin() + static_cast<std::ptrdiff_t>(number);
        std::rotate(place, place + 1, kept_.end());
        keep_only(view, kept_.size() - 1);
        return taken;
    }

private:
    /// `only_nothing`: ends as soon as anything is kept or takes time.
    ticks demand(const rerun_place& at, node_id n, int depth, bool only_nothing) {
        const eviction_view& view = at.view;
        const snapshot& s = view.s;
        const std::size_t kept = kept_.size();
        ticks time = 0;
        for (const auto v : at.idle.missing.inputs(view, n, at.to)) {
            if (only_nothing && (time > 0 || kept_.size() > kept)) break;
            const value_id base = view.c.base[v];
            const node_id maker = s[base].producer;
            if (view.c.resident[base] || s.phase_of(maker) != phase::forward) continue;
            if (is_given_up_[maker] || is_kept_[maker]) continue;
            const step_id run = view.history.run_before(maker, at.to);
            if (!run.valid()) continue;
            if (view.is_forgotten(maker, run, at.to) || view.plan.steps()[run].fused) {
                if (!is_demanded_.add(maker)) continue;
                demanded_.push_back(maker);
                if (depth > 0) time += view.c.rerun[maker] + demand(at, maker, depth - 1, only_nothing);
            } else
                keep(view, maker, {run, s.output_index(base)}, at.to);
        }
        return time;
    }

    /// A copy that `maker` made, unless it is live at the peak anyway, or not made before it.
    void keep(const eviction_view& view, node_id maker, copy_id copy, step_id to) {
        const storage_id i = view.plan.live().storage(copy);
        const step_id last = view.plan.live().last_held(copy);
        if (last >= view.peak || view.plan.live()[i].first > view.peak) return;
        kept_.push_back({maker, i, last, to});
        kept_bytes_ += view.bytes_of(i);
        is_kept_.insert(maker);
    }

    /// Takes back what would be kept last, but for the first `count`.
    void keep_only(const eviction_view& view, std::size_t count) {
        for (; kept_.size() > count; kept_.pop_back()) {
            kept_bytes_ -= view.bytes_of(kept_.back().storage);
            is_kept_.erase(kept_.back().node);
        }
    }

    /// Takes back what was demanded last, but for the first `count`.
    void demand_only(std::size_t count) {
        for (; demanded_.size() > count; demanded_.pop_back()) is_demanded_.erase(demanded_.back());
    }

    std::vector<evicted_copy> kept_;
    std::int64_t kept_bytes_ = 0;
    std::vector<node_id> demanded_; // forgotten, and made again
    id_set<node_id> is_demanded_, is_given_up_, is_kept_;
};

} // namespace echo::detail
