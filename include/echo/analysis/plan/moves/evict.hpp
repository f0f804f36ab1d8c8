// SPDX-License-Identifier: BSL-1.0
/// @file
/// `evictor`: lowers the peak of a plan to a limit. What is live at the peak without being read there is forgotten and
/// made again for its next reader, together with what its maker reads where that pays; cheapest time per byte at the
/// peak first. Where one bit per element is all that is read of it from there on, it is encoded, which takes no time.
/// eviction_finder.hpp finds what could go, eviction_price.hpp says what that costs, and here it is done.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/eviction_finder.hpp>
#include <echo/analysis/plan/moves/eviction_price.hpp>
#include <echo/analysis/schedule/load_profile.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// When to give up.
struct eviction_options {
    std::size_t rounds = 30; ///< replays
    /// Of recomputation; a plan beyond is not worth going on with.
    ticks most = std::numeric_limits<ticks>::max();
    node_id settled{}; ///< nothing more is decided about its copies; none if invalid
};

/// What came of it.
struct evicted_plan {
    /// The plan that the evictions led to.
    evaluated_plan plan;
    bool met = false; ///< the peak is at most the limit
};

/// Evicts from plans of one snapshot; scratch memory is kept between uses. A round is a replay and
/// O(steps + reads + peaks × (storages + idle storages × what making them again needs)), where each peak is below the
/// last.
class evictor {
public:
    /// `grow`: several copies may be given up together.
    explicit evictor(evaluator& evaluate, bool grow = true)
        : price_(grow), evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()) {}

    /// A plan with a peak of at most `limit`; if it cannot be lowered so far, the lowest that was reached.
    [[nodiscard]] evicted_plan operator()(evaluated_plan plan, std::uint64_t limit,
                                          const eviction_options& options) {
        std::optional<evaluated_plan> lowest;
        for (std::size_t round = 0;; ++round) {
            if (plan.peak_bytes() <= limit) return {std::move(plan), true};
            const bool goes_on = round < options.rounds && plan.recompute() <= options.most &&
                                 evict_once(plan, plan.load(), {}, limit, options.settled);
            keep_better(lowest, std::move(plan));
            if (!goes_on) break;
            plan = evaluate_(next_);
        }
        return {*std::move(lowest), false};
    }

    /// Lowers the peak towards `limit` as far as it goes, a little at a time: for a limit far below the peak, too much
    /// would be forgotten at once.
    [[nodiscard]] evaluated_plan in_steps(evaluated_plan plan, std::uint64_t limit) {
        for (std::uint64_t peak = 0; plan.peak_bytes() > limit && plan.peak_bytes() != peak;) {
            peak = plan.peak_bytes();
            plan = (*this)(std::move(plan), std::max(limit, peak - peak / tuning::step_parts - 1), {}).plan;
        }
        return plan;
    }

    /// What is decided after a round for a peak of at most `limit`, where what is `absent` takes no memory; nothing if
    /// nothing can be given up.
    [[nodiscard]] std::optional<decision>
    beside(const evaluated_plan& plan, std::span<const absent_storage> absent, std::uint64_t limit) {
        std::vector<std::uint64_t> load(plan.load().begin(), plan.load().end());
        for (const absent_storage& a : absent)
            for (std::uint64_t& bytes :
                 std::span(load).subspan(a.first.index(), a.until.index() - a.first.index()))
                bytes -= plan.live()[a.storage].bytes;
        if (!evict_once(plan, load, absent, limit, {})) return std::nullopt;
        return std::move(next_);
    }

    /// Evictions priced so far.
    std::size_t priced() const noexcept { return priced_; }

private:
    /// The other of the two is gone then, so that the next plan can take its memory: of large graphs a plan is as large
    /// as the graph.
    static void keep_better(std::optional<evaluated_plan>& best, evaluated_plan plan) {
        if (!best || plan.better_than(*best)) best = std::move(plan);
    }

    /// Leaves in `next_` what is decided then. Whether anything was evicted. `load`: without what is absent.
    bool evict_once(const evaluated_plan& plan, std::span<const std::uint64_t> load,
                    std::span<const absent_storage> absent, std::uint64_t limit, node_id settled) {
        next_ = plan.decided();
        touched_.assign(s_.node_count());
        if (settled.valid()) touched_.insert(settled);
        const copy_history& history = evaluate_.history_of(plan);
        load_profile profile(load);
        sums_.read(load, plan.peak_bytes(), limit);
        // The fewer at once, the better is known what each is worth; large graphs cannot afford a replay for each.
        std::size_t left = s_.node_count() < tuning::evicted_singly_below ? 1 : s_.node_count();
        bool changed = false;
        while (left > 0) {
            const std::int64_t excess = profile.most() - static_cast<std::int64_t>(limit);
            if (excess <= 0) break;
            const eviction_view view{s_, c_, plan, history, next_, step_id(profile.peak()), absent};
            if (!evict_at(view, excess, left, profile)) break;
            changed = true;
        }
        return changed;
    }

    /// At most `left` evictions, which are taken off it. Whether there was any.
    bool evict_at(const eviction_view& view, std::int64_t excess, std::size_t& left, load_profile& profile) {
        list_.clear();
        find_(view, idle_, list_, true);
        ranking cheapest; // of equal prices the one found last
        const auto found = [&](std::size_t i, std::uint64_t price) {
            cheapest.add(static_cast<std::uint32_t>(i), ~price, i);
        };
        for (std::size_t i = 0; i < list_.all.size(); ++i) found(i, 0);
        priced_ += idle_.all.size();
        for (std::size_t i = 0; i < idle_.all.size(); ++i)
            if (const auto price = price_(view, idle_, sums_, i, excess, list_))
                found(list_.all.size() - 1, *price);
        cheapest.begin_taking();
        std::int64_t relieved = 0;
        forgotten_.clear();
        while (!cheapest.empty() && relieved < excess && left > 0) {
            const eviction& e = list_.all[cheapest.take()];
            if (!apply(view, e, profile)) continue;
            relieved += e.freed;
            --left;
        }
        next_.forget_all(forgotten_);
        return relieved > 0;
    }

    /// Decides it in `next_`, but for what is to be forgotten, which it adds to `forgotten_`; unless it concerns what
    /// another eviction of this round does.
    bool apply(const eviction_view& view, const eviction& e, load_profile& profile) {
        const auto copies = list_.copies_of(e);
        for (const evicted_copy& copy : copies)
            if (touched_[copy.node]) return false;
        for (const evicted_copy& copy : copies) {
            touched_.insert(copy.node);
            for (const auto v : s_.inputs(copy.node)) touched_.insert(s_[c_.base[v]].producer);
            const bool forward = view.in_forward(copy.from);
            if (e.encodes.valid())
                next_.encoded[e.encodes] = 1;
            else if (e.pulls && forward) {
                next_.again[copy.node] = 0;
                next_.remember(copy.node, copy.node, view.home(copy.to));
            } else if (e.pulls)
                next_.make_early(copy.node, view.home(copy.from));
            else if (forward)
                next_.again[copy.node] = 1;
            else
                forgotten_.push_back({copy.node, view.forgotten_at(copy)});
        }
        // The first gap is free; what it costs elsewhere the replay tells.
        const auto [first, last] = list_.relieved(e);
        profile.add(first, last, -e.freed);
        return true;
    }

    eviction_pricer price_;
    evaluator& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    decision next_; // of the round
    eviction_finder find_;
    excess_sums sums_;
    idle_copies idle_;
    eviction_list list_;
    id_set<node_id> touched_;     // by evictions of the round
    std::vector<turn> forgotten_; // by those at one peak
    std::size_t priced_ = 0;
};

} // namespace echo::detail
