// SPDX-License-Identifier: BSL-1.0
/// @file
/// `descent`: the way of a search for budgets to the least peak: from the lowest plan that it knows, a little at a
/// time.
#pragma once

#include <echo/analysis/plan/budget/cut_candidates.hpp>
#include <echo/analysis/plan/budget/led_plans.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace echo {

/// The plans and the cuts must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class descent {
public:
    descent(led_plans<>& plans, cut_candidates<>& cuts) : plans_(plans), cuts_(cuts) {}

    /// Lowers the peak from the lowest plan known to `limit`, or as far as it goes, and not below `least`. Always on
    /// one way, which ends sooner or later. Returns the last plan on it, until the next call.
    const rated_decision& down_to(std::uint64_t limit, std::uint64_t least) {
        if (!deepest_) deepest_ = lowest_led_down();
        while (deepest_->footprint.peak_bytes > std::max(limit, least) && parts_ <= tuning::last_step_parts) {
            const std::uint64_t peak = deepest_->footprint.peak_bytes;
            const auto next = plans_.evict()(plans_.evaluate()(deepest_->decided), peak - peak / parts_ - 1,
                                             {.rounds = tuning::rounds_per_step, .patient = true});
            if (next.met || next.plan.peak_bytes() < peak) {
                plans_.add(next.plan);
                deepest_ = next.plan.rated();
            } else {
                parts_ *= tuning::finer;
            }
        }
        return *deepest_;
    }

private:
    /// The lowest of the plans to which the lowest starts lead, and cuts at prices too cheap for other limits.
    rated_decision lowest_led_down() {
        std::optional<rated_decision> lowest;
        const auto lead_down = [&](evaluated_plan from) {
            const auto found = plans_.evict()(std::move(from), 0,
                                              {.patient = true, .everywhere = plans_.effort().whole_front()});
            plans_.add(found.plan);
            if (!lowest || found.plan.rated().better_than(*lowest)) lowest = found.plan.rated();
        };
        const search_effort& effort = plans_.effort();
        const auto& starts = plans_.starts();
        ranking<> by_peak;
        for (std::uint32_t i = 0; i < starts.size(); ++i) by_peak.add(i, starts[i].footprint.peak_bytes);
        const auto order = by_peak.descending();
        for (std::size_t i = order.size(); i-- > 0 && order.size() - i <= effort.starts_led_down();)
            lead_down(plans_.evaluate()(starts[order[i]].decided));
        if (!effort.is_reduced() && plans_.passes().cheap_columns)
            for (std::size_t row = 0; row < cuts_.rows(); ++row)
                for (std::size_t column = effort.first_cheap_column(); column < cuts_.columns(); column += 2)
                    lead_down(cuts_.plan_of(row, column));
        return *std::move(lowest);
    }

    led_plans<>& plans_;
    cut_candidates<>& cuts_;
    std::optional<rated_decision> deepest_; // of the way down
    std::uint64_t parts_ = tuning::first_step_parts;
};

} // namespace echo
