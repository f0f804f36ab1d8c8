// SPDX-License-Identifier: BSL-1.0
/// @file
/// `whole_front`: the search for budgets in graphs so small that the whole front is searched, point by point, whatever
/// is asked.
#pragma once

#include <echo/analysis/plan/budget/descent.hpp>
#include <echo/analysis/plan/budget/led_plans.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/local_search.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace echo {

/// The plans must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class whole_front {
public:
    /// `replays`: of local search, at most.
    whole_front(led_plans<>& plans, std::size_t replays)
        : plans_(plans), local_search_(plans.evaluate(), plans.evict(), plans.retain()), replays_(replays) {}

    /// Once: limits evenly from what costs nothing down to the lowest plan, and then what each plan of the front makes
    /// of the peaks next to its own. No plan has a peak below `least`.
    void search(descent<>& down, std::uint64_t least) {
        if (std::exchange(is_searched_, true)) return;
        down.down_to(0, least);
        const known_plans<>& known = plans_.known();
        lower(least);
        if (known.all().size() == 1) return; // nothing that recomputes is lower
        const std::uint64_t high = known.all().front().footprint.peak_bytes;
        const std::uint64_t low = known.lowest().footprint.peak_bytes;
        const search_effort& effort = plans_.effort();
        const std::uint64_t step = (high - low) / effort.front_points + 1;
        const std::size_t replays = std::min(replays_ / effort.front_points, effort.most_local_replays());
        std::vector<rated_decision> paths = plans_.starts();
        for (std::uint64_t limit = high; limit > low;) {
            limit = std::max(low, limit - std::min(limit, step));
            plans_.tell();
            go_on(paths, limit);
            search_around(limit, replays);
        }
        for (std::size_t i = 0; i < tuning::passes_of_learning; ++i) learn_from_neighbours(replays);
    }

    /// Local search from the cheapest plan known at the limit.
    void search_around(std::uint64_t limit, std::size_t replays) {
        const rated_decision* found = plans_.known().within(limit);
        if (!plans_.passes().local_search || !found || replays == 0 || found->recompute == 0) return;
        plans_.add(local_search_(plans_.evaluate()(found->decided), limit, replays));
    }

private:
    /// Lowers the lowest plan by local search towards `least`: some plans no eviction leads to.
    void lower(std::uint64_t least) {
        const std::size_t replays = std::min(replays_, plans_.effort().most_local_replays());
        if (replays == 0 || !plans_.passes().local_search) return;
        plans_.add(local_search_.lower(plans_.evaluate()(plans_.known().lowest().decided), least, replays));
    }

    /// Just below the peak of each plan of the front: that plan led down, and the next ones led up. Each pair once.
    void learn_from_neighbours(std::size_t replays) {
        const std::vector<rated_decision> points = plans_.known().all();
        for (std::size_t i = 0; i + 1 < points.size(); ++i) {
            const std::uint64_t limit = points[i].footprint.peak_bytes - 1;
            bool is_new = false;
            const std::size_t end = std::min(i + tuning::neighbours_learned, points.size());
            for (std::size_t k = i; k < end && learned_.size() < plans_.effort().most_leads(); ++k)
                if (learned_.insert({limit, points[k].recompute}).second) {
                    static_cast<void>(plans_.lead(points[k], limit, led_plans<>::no_limit));
                    is_new = true;
                }
            if (is_new) search_around(limit, replays);
        }
    }

    /// Leads each path on to the limit, and of the smallest graphs all starts anew.
    void go_on(std::vector<rated_decision>& paths, std::uint64_t limit) {
        if (plans_.effort().size < tuning::searched_anew_below) plans_.search(limit);
        for (rated_decision& path : paths) {
            auto found = plans_.evict()(plans_.evaluate()(path.decided), limit, {.everywhere = true});
            path = found.plan.rated();
            if (found.met)
                plans_.add(plans_.retain()(std::move(found.plan), limit, tuning::retained_after_lead));
        }
    }

    led_plans<>& plans_;
    local_search<> local_search_;
    std::size_t replays_;
    std::set<std::pair<std::uint64_t, ticks>> learned_; // limits, and what the plan led there costs
    bool is_searched_ = false;
};

} // namespace echo
