// SPDX-License-Identifier: BSL-1.0
/// @file
/// What was asked of a plan and what its bound holds for, in words.
#pragma once

#include "plan/units.hpp"

#include <echo/analysis/plan/plan.hpp>

#include <string>
#include <string_view>

namespace echo::format {

/// Whether the least peak within a part of a step's time was asked for.
inline bool within_overhead(const plan& p) {
    return p.chosen_by() == strategy::budget && p.report().budget_bytes == any_peak;
}

/// `5 %`.
inline std::string percent(double part) { return shortest(100 * part) + " %"; }

/// `min_cut`, `budget`, `budget 5 %`: short enough for a table.
inline std::string short_claim(const plan& p, double max_overhead) {
    const std::string name(name_of(p.chosen_by()));
    return within_overhead(p) ? name + " " + percent(max_overhead) : name;
}

/// What was gone for: a goal in words, or the strategy where that has none.
inline std::string goal(const plan& p, double max_overhead) {
    if (within_overhead(p)) return "the least peak within " + percent(max_overhead) + " of recomputation";
    if (p.chosen_by() == strategy::budget)
        return "the least recomputation within " + show_bytes(p.report().budget_bytes);
    return "the strategy " + std::string(name_of(p.chosen_by()));
}

/// The strategy and what it goes for.
inline std::string claim(const plan& p, double max_overhead) {
    const std::string name(name_of(p.chosen_by()));
    return p.chosen_by() == strategy::budget ? name + ": " + goal(p, max_overhead) : name;
}

/// What no plan undercuts the bound that keeps to this. `made_here`: not so for a plan from a file, whose goal is not
/// known.
inline std::string bound_claim(const plan& p, double max_overhead, bool made_here = true) {
    const std::string once = "runs each gradient once, in its order, is smaller";
    if (!made_here) return "no plan that " + once;
    if (p.chosen_by() == strategy::baseline) return "nothing is changed";
    if (within_overhead(p))
        return "no plan within " + percent(max_overhead) + " of recomputation that " + once;
    if (p.chosen_by() == strategy::budget) return "no plan that " + once;
    return "no plan that recomputes light ops only and " + once;
}

} // namespace echo::format
