// SPDX-License-Identifier: BSL-1.0
/// @file
/// `led_plans`: the plans that a search for budgets starts from, what it knows, and its one move: a plan is led to a
/// limit on the peak.
#pragma once

#include <echo/analysis/plan/budget/known_plans.hpp>
#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/search_effort.hpp>
#include <echo/analysis/plan/budget/search_options.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/retain.hpp>
#include <echo/analysis/plan/moves/ruin_and_recreate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace echo {

/// The evaluator must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class led_plans {
public:
    /// As `most`: recomputation may take any time.
    static constexpr ticks no_limit = std::numeric_limits<ticks>::max();

    led_plans(const led_plans&) = delete; // its parts point to each other
    led_plans& operator=(const led_plans&) = delete;
    led_plans(evaluator<>& evaluate, progress_callback progress, const search_options& passes)
        : passes_(passes), evaluate_(evaluate),
          effort_(search_effort::of(evaluate.graph(), passes.whole_front)), evict_(evaluate, passes.growth),
          retain_(evaluate), progress_(progress) {}

    /// Which passes are made.
    const search_options& passes() const noexcept { return passes_; }
    /// The evaluator that was given.
    evaluator<>& evaluate() noexcept { return evaluate_; }
    /// What gives copies up.
    evictor<>& evict() noexcept { return evict_; }
    /// What keeps copies again.
    retainer<>& retain() noexcept { return retain_; }
    /// How much is tried.
    const search_effort& effort() const noexcept { return effort_; }
    /// The best plans so far.
    const known_plans<>& known() const noexcept { return known_; }
    /// What is led down from.
    const std::vector<rated_decision>& starts() const noexcept { return starts_; }
    /// Makes the plan known.
    void add(const evaluated_plan& plan) { add(plan.rated()); }
    /// The same.
    void add(const rated_decision& plan) { known_.add(plan); }

    /// A plan to start from, with heavy ops that may run again.
    void start_from(decision decided) {
        decided.heavy = true;
        start_from(evaluate_(decided));
    }
    /// A plan to start from, unless one as good is there.
    void start_from(const evaluated_plan& plan) { start_from(plan.rated()); }
    /// The same.
    void start_from(const rated_decision& plan) {
        for (const rated_decision& other : starts_)
            if (other.footprint.peak_bytes == plan.footprint.peak_bytes && other.recompute == plan.recompute)
                return;
        known_.add(plan);
        starts_.push_back(plan);
    }
    /// Starts that others beat seldom lead to what those do not: evenly many of those that none beats, at most so many
    /// as the effort allows.
    void keep_best_starts() {
        const auto& all = known_.all();
        const std::size_t count = std::min(all.size(), effort_.starts);
        starts_.clear();
        for (std::size_t i = 0; i < count; ++i) starts_.push_back(all[i * all.size() / count]);
    }

    /// Leads a plan to the limit, unless that takes more than `most`; what it finds is known then. The figures are
    /// those of the lowest plan on the way, where none meets the limit. `patient`: also where it gets on slowly.
    [[nodiscard]] evaluated_plan lead(const rated_decision& start, std::uint64_t limit, ticks most,
                                      bool patient = false) {
        const bool small = effort_.whole_front();
        auto [plan, met] = evict_(evaluate_(start.decided), limit,
                                  {.rounds = small ? tuning::rounds_of_lead_in_small : tuning::rounds_of_lead,
                                   .most = most,
                                   .patient = patient,
                                   .everywhere = small});
        if (met) plan = retain_(std::move(plan), limit, tuning::retained_after_lead);
        known_.add(plan.rated());
        return std::move(plan);
    }
    /// What each start recomputes where it was led to, in their order; `no_limit` where it did not arrive.
    using arrivals = std::vector<ticks>;

    /// Leads every start to the limit.
    arrivals search(std::uint64_t limit, bool patient = false) {
        return search_from([](std::size_t) { return true; }, limit, patient);
    }
    /// Leads those `count` starts to the limit that arrived most cheaply elsewhere. O(starts²) beside the leads.
    void search_from_best(std::size_t count, const arrivals& elsewhere, std::uint64_t limit) {
        const auto is_one = [&](std::size_t k) {
            std::size_t better = 0;
            for (std::size_t i = 0; i < elsewhere.size(); ++i)
                better += elsewhere[i] < elsewhere[k] || (elsewhere[i] == elsewhere[k] && i < k);
            return better < count;
        };
        search_from(is_one, limit, false);
    }
    /// Leads a plan to the limit, also where it gets on slowly, unless that takes much more than what is known there.
    void lead_patiently(const rated_decision& start, std::uint64_t limit) {
        const rated_decision* found = known_.within(limit);
        const ticks most =
            found ? found->recompute + found->recompute / tuning::dearer_led_part : no_limit / 2;
        static_cast<void>(lead(start, limit, most, true));
    }
    /// Leads the known plans whose peaks lie next above the limit to it, `count` of them, the nearest first, each
    /// unless that takes more than `most`.
    void lead_from_above(std::uint64_t limit, std::ptrdiff_t count, ticks most = no_limit / 2) {
        const auto nearest = known_.next_above(limit, count); // what is found moves the others
        for (auto start = nearest.rbegin(); start != nearest.rend(); ++start)
            static_cast<void>(lead(*start, limit, most, true));
    }
    /// From the known plans that lie next at the limit or below it: what there is room for is kept again. They may take
    /// longer than what is led from above, and less once all of that is kept.
    void retain_from_below(std::uint64_t limit) {
        const auto nearest = known_.next_within(limit, tuning::retained_below);
        for (const rated_decision& plan : nearest)
            known_.add(retain_(evaluate_(plan.decided), limit, tuning::retained_from_below).rated());
    }
    /// From the cheapest plan known at the limit, by a way below it and back.
    void ruin(std::uint64_t limit) {
        const rated_decision* found = improvable(limit);
        if (!found || !passes_.ruin) return;
        known_.add(ruin_and_recreate(evaluate_, evict_, retain_, evaluate_(found->decided), limit).rated());
    }
    /// Whether a plan within `most` is known or found at the limit. From the start that led to the last such plan
    /// first, and no further than to the first of them, nor once `stops` says so.
    template <class Stops>
    bool search_within(std::uint64_t limit, ticks most, const Stops& stops) {
        for (std::size_t k = 0; k < starts_.size() && !knows_within(limit, most) && !stops(); ++k) {
            const std::size_t which = k == 0 ? favourite_ : k <= favourite_ ? k - 1 : k;
            static_cast<void>(lead(starts_[which], limit, 2 * most));
            if (knows_within(limit, most)) favourite_ = which;
        }
        return knows_within(limit, most);
    }
    /// Whether a plan within both is known. O(log known).
    bool knows_within(std::uint64_t limit, ticks most) const {
        const rated_decision* t = known_.within(limit);
        return t && t->recompute <= most;
    }

    /// Tells the progress. How many searches there will be is not known, so each takes an equal part of what is left.
    void tell() {
        done_ += (1 - done_) * tuning::progress_part;
        if (progress_) progress_(done_);
    }

private:
    template <class Chosen>
    arrivals search_from(const Chosen& is_chosen, std::uint64_t limit, bool patient) {
        tell();
        arrivals there(starts_.size(), no_limit);
        ticks cheapest = no_limit / 2;
        for (std::size_t k = 0; k < starts_.size(); ++k) {
            if (!is_chosen(k)) continue;
            const auto plan = lead(starts_[k], limit, cheapest + cheapest / 2, patient);
            if (plan.peak_bytes() > limit) continue;
            there[k] = plan.recompute();
            cheapest = std::min(cheapest, there[k]);
        }
        return there;
    }
    /// The cheapest plan known at the limit, where plans are improved at all and that could be cheaper.
    const rated_decision* improvable(std::uint64_t limit) const {
        const rated_decision* found = known_.within(limit);
        return found && effort_.polishing_replays() > 0 && found->recompute > 0 ? found : nullptr;
    }
    search_options passes_;
    evaluator<>& evaluate_;
    search_effort effort_;
    evictor<> evict_;
    retainer<> retain_;
    known_plans<> known_;
    std::vector<rated_decision> starts_;
    std::size_t favourite_ = 0; // of the starts: led to the last plan within a time
    progress_callback progress_;
    double done_ = 0;
};

} // namespace echo
