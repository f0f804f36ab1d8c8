// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_bounds`: what no plan can reach, asked while plans are searched. A search ends where hardly anything is
/// cheaper, does not try what is proved impossible, and goes on where much may still be gained.
#pragma once

#include <echo/analysis/plan/bound/budget_bound.hpp>
#include <echo/analysis/plan/bound/loaded_places.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace echo {

/// The evaluator must outlive it. Takes its memory when it is asked for the first time.
/// A template so that only files that make plans compile it; its parameter says nothing.
template <class Any = void>
class search_bounds {
public:
    /// `encode`: plans may keep values in one bit per element.
    search_bounds(evaluator<>& evaluate, bool encode) : evaluate_(evaluate), encode_(encode) {}

    /// Whether it is proved that no plan whose peak is at most `limit` bytes saves more than one part in `part` of what
    /// `found` recomputes, which is one of them. What is once proved of a limit stays proved. A replay and at most
    /// `tuning::cuts_of_proof` cuts, taken where `found` is most loaded; none if what is proved already says it, or was
    /// looked for at a plan of the same time.
    bool proves_least(const rated_decision& found, std::uint64_t limit, ticks part) {
        proof& known = proofs_[limit];
        const auto is_near = [&] { return found.recompute <= known.least + known.least / part; };
        if (is_near() || found.recompute == known.looked_at) return is_near();
        known.looked_at = found.recompute;
        known.least = std::max(known.least, bound().least_time(limit, places(found), tuning::cuts_of_proof));
        return is_near();
    }

    /// Bytes: no plan that recomputes for at most `most` has a lower peak. `near`: a plan that comes close to it. A
    /// replay and at most `tuning::cuts_of_proof` cuts.
    std::uint64_t least_peak(ticks most, const rated_decision& near) {
        return bound().within(most, places(near), tuning::cuts_of_proof);
    }

private:
    /// Of one limit.
    struct proof {
        ticks least = 0;      ///< no plan there recomputes for less
        ticks looked_at = -1; ///< what the plan recomputes where that was looked for last; -1: none yet
    };

    budget_bound<Any>& bound() {
        if (!bound_) bound_.emplace(evaluate_.graph(), evaluate_.facts(), encode_);
        return *bound_;
    }
    std::vector<node_id> places(const rated_decision& near) {
        const evaluated_plan plan = evaluate_(near.decided);
        return detail::most_loaded(evaluate_.graph(), plan.steps(), plan.load());
    }

    evaluator<>& evaluate_;
    bool encode_;
    std::optional<budget_bound<Any>> bound_;
    std::map<std::uint64_t, proof> proofs_; // by limit
};

} // namespace echo
