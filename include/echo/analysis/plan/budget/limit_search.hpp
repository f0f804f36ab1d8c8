// SPDX-License-Identifier: BSL-1.0
/// @file
/// `limit_search`: the least recomputation under one limit on the peak, of graphs that are too large for their whole
/// front to be searched.
#pragma once

#include <echo/analysis/plan/budget/lowest_peak.hpp>
#include <echo/analysis/plan/budget/rung_search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace echo {

/// Searches towards limits, and leaves what it finds with the rungs' search, which must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class limit_search {
public:
    explicit limit_search(rung_search<>& rungs) : rungs_(rungs) {}

    /// A plan from which light ops alone may lead further down where a limit is dear. The first that is known counts.
    void know(const evaluated_plan& plan) {
        if (!known_first_) known_first_ = plan.rated();
    }

    /// Of larger graphs: a way down to the limit, what else there is to try where it is not met or only by much
    /// recomputation, and swaps at the limit. It ends where hardly anything cheaper is possible, as is proved, and
    /// goes on where much may be.
    void search(std::uint64_t limit) {
        const std::size_t near = ladder_.above(limit);
        search_towards(limit, near);
        if (!known_.within(limit)) lowest_peak<>(rungs_).approach(limit);
        if (rungs_.polishing_replays() == 0 || !known_.within(limit) ||
            rungs_.is_proved(limit, tuning::proved_part))
            return;
        polish(limit, near);
        if (!takes(limit, tuning::costly_part) && may_be_far(limit)) {
            search_from_higher(limit, near);
            swap_while_it_helps(limit);
        }
        if (may_be_far(limit)) {
            swap_below(near);
            swap_while_it_helps(limit);
        }
    }
    /// Whether much less recomputation may be possible at the limit, for all that is proved.
    bool may_be_far(std::uint64_t limit) { return !rungs_.is_proved(limit, tuning::far_part); }
    /// Swaps and crossings at the limit, and a way below it and back; again while it helps where much may be gained.
    /// A plan must be known there.
    void swap_while_it_helps(std::uint64_t limit) {
        for (std::size_t i = 0; i < tuning::most_times_swapped; ++i) {
            const ticks before = known_.within(limit)->recompute;
            plans_.ruin(limit);
            if (known_.within(limit)->recompute == before || !may_be_far(limit)) return;
        }
    }
    /// A walk to the rung, as to a limit there: it begins at the same rung and leads on what is known by then.
    void walk_to(std::size_t rung) {
        std::vector<std::uint64_t> led;
        if (rungs_.polishing_replays() > 0) walk(walk_begins(rung), rung, led, true);
    }

private:
    /// The way down, and what else there is to try.
    void search_towards(std::uint64_t limit, std::size_t near) {
        if (limit >= rungs_.least_bytes()) {
            search_near(limit, near);
            if (rungs_.is_proved(limit, tuning::proved_part)) return;
            plans_.lead_from_above(limit, tuning::led_to_limit);
        }
        if (rungs_.is_proved(limit, tuning::proved_part)) return;
        if (!known_.within(limit)) {
            rungs_.down_to(limit);
            if (!known_.within(limit) && !rungs_.is_reduced())
                rungs_.search_rung(rungs_.last_rung_within(led_plans<>::no_limit / 4, rungs_.least_bytes()));
        }
        if (rungs_.is_reduced()) return;
        lower_by_light_ops(limit);
        if (takes(limit, tuning::costly_part) && may_be_far(limit)) search_from_higher(limit, near);
        if (takes(limit, tuning::dear_part)) search_where_dear(limit, near);
    }
    /// Local search at the rung below the limit, which other limits share, and at the limit; and swaps there.
    void polish(std::uint64_t limit, std::size_t near) {
        const std::size_t replays = rungs_.polishing_replays();
        rungs_.search_around(ladder_.limit(near + 1), replays);
        rungs_.search_around(limit, replays);
        swap_while_it_helps(limit);
    }
    /// Swaps, and ways below and back, at some rungs below the one that `polish` searches: what is cheap there is cheap
    /// at the limit, too.
    void swap_below(std::size_t near) {
        if (!plans_.passes().from_higher) return;
        for (std::size_t i = 0; i < tuning::rungs_swapped; ++i) {
            const std::uint64_t lower = ladder_.limit(near + 2 + i * tuning::rungs_apart);
            if (lower < rungs_.least_bytes()) return;
            plans_.lead_from_above(lower, tuning::led_below);
            plans_.ruin(lower);
        }
    }
    /// The starts are led to a rung above the limit, which is the same for limits close to each other, and those that
    /// arrived there most cheaply straight to the limit, or all of them where that rung had been searched before. Then
    /// what is known walks there; and where nothing has met the limit, all starts are led to it with patience.
    void search_near(std::uint64_t limit, std::size_t near) {
        const bool walks = rungs_.polishing_replays() > 0;
        const std::size_t top = walks ? walk_begins(near) : near;
        std::vector<std::uint64_t> led;
        const auto arrived = rungs_.search_rung(top);
        if (walks && !arrived.empty()) {
            plans_.search_from_best(tuning::starts_led_straight, arrived, limit);
            if (rungs_.is_proved(limit, tuning::proved_part)) return;
        }
        if (walks) walk(top, near, led, may_be_far(limit));
        if (!walks || arrived.empty()) plans_.search(limit);
        if (known_.within(limit) || rungs_.is_reduced()) return;
        plans_.search(limit, true);
        if (walks) walk(top, near, led, true);
    }
    /// The rung from which limits near `near` are walked to.
    static std::size_t walk_begins(std::size_t near) {
        const std::size_t rung = near - near % tuning::rungs_walked;
        return near - rung < tuning::rungs_walked / 2 && rung > 0 ? rung - tuning::rungs_walked : rung;
    }
    /// From rung `top` to one below `near`, stride by stride: plans known just above each are led to it, and what is
    /// cheapest there goes a way below its rung and back, where much may be gained. What many small steps lead to, one
    /// long one misses. Plans of peaks in `led` have been led further down already.
    void walk(std::size_t top, std::size_t near, std::vector<std::uint64_t>& led, bool much_to_gain) {
        if (!plans_.passes().walk) return;
        for (std::size_t rung = top; rung < near + 1 + tuning::rungs_in_stride;
             rung += tuning::rungs_in_stride) {
            const std::uint64_t limit = ladder_.limit(rung);
            if (rung > near && limit < rungs_.least_bytes()) return;
            const std::vector<rated_decision> nearest = known_.next_above(limit, tuning::led_on_walk);
            for (auto plan = nearest.rbegin(); plan != nearest.rend(); ++plan) {
                const std::uint64_t peak = plan->footprint.peak_bytes;
                if (std::find(led.begin(), led.end(), peak) != led.end()) continue;
                led.push_back(peak);
                plans_.lead_patiently(*plan, limit);
            }
            if (rung <= near && much_to_gain) plans_.ruin(limit);
        }
    }
    /// A walk that begins at the next place above: who pays much may wait, and so may who might pay much less.
    void search_from_higher(std::uint64_t limit, std::size_t near) {
        const std::size_t top = walk_begins(near);
        if (!plans_.passes().from_higher || top == 0 || rungs_.polishing_replays() == 0) return;
        std::vector<std::uint64_t> led;
        rungs_.search_rung(top - tuning::rungs_walked);
        walk(top - tuning::rungs_walked, near, led, true);
        plans_.lead_from_above(limit, tuning::led_to_limit);
    }
    /// There searches end far from each other, and who pays so much may wait: limits below, what lies above by then,
    /// and the way down, from which much can be kept again.
    void search_where_dear(std::uint64_t limit, std::size_t near) {
        if (!plans_.passes().where_dear) return;
        rungs_.search_below(near, tuning::rungs_below_dear);
        plans_.lead_from_above(limit, tuning::led_to_limit);
        const rated_decision& deepest = rungs_.down_to(limit);
        if (deepest.footprint.peak_bytes <= limit)
            plans_.add(
                plans_.retain()(rungs_.evaluate()(deepest.decided), limit, tuning::retained_from_deepest));
    }

    /// Whether what is found at the limit recomputes for that part of the graph's time or more.
    bool takes(std::uint64_t limit, ticks part) const {
        const rated_decision* found = known_.within(limit);
        return found && found->recompute >= rungs_.evaluate().facts().times.total / part;
    }

    /// Where a limit is so tight that meeting it takes far more than the plan known first: that plan led down with
    /// light ops alone, a little at a time, as the strategy `min_cut` does it.
    void lower_by_light_ops(std::uint64_t limit) {
        if (!known_first_ || !plans_.passes().light_ops) return;
        const rated_decision* found = known_.within(limit);
        if (found && found->recompute / 2 <= known_first_->recompute) return;
        auto plan = plans_.evict().in_steps(rungs_.evaluate()(known_first_->decided), limit);
        known_first_ = plan.rated();
        const std::uint64_t allowed = std::max(limit, plan.peak_bytes());
        plans_.add(plans_.retain()(std::move(plan), allowed, tuning::retained_after_lead));
    }

    rung_search<>& rungs_;
    led_plans<>& plans_ = rungs_.plans();
    const known_plans<>& known_ = rungs_.known();
    limit_ladder& ladder_ = rungs_.ladder();
    std::optional<rated_decision> known_first_; // led on by light ops
};

} // namespace echo
