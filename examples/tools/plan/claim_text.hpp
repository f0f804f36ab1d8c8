// SPDX-License-Identifier: BSL-1.0
/// @file
/// What was asked of a plan and what its bound holds for, in words.
#pragma once

#include "plan/units.hpp"

#include <echo/analysis/plan/plan.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace echo::format {

/// Whether the least peak within a part of a step's time was asked for.
inline bool within_overhead(const plan& p) {
    return p.chosen_by() == strategy::budget && p.report().budget_bytes == any_peak;
}

/// `min_cut`, `budget`, `budget 5 %`: short enough for a table.
inline std::string short_claim(const plan& p, double max_overhead) {
    const std::string_view name = name_of(p.chosen_by());
    return within_overhead(p) ? fmt::format("{} {:g} %", name, 100 * max_overhead) : std::string(name);
}

/// What was gone for: a goal in words, or the strategy where that has none.
inline std::string goal(const plan& p, double max_overhead) {
    if (within_overhead(p))
        return fmt::format("the least peak within {:g} % of recomputation", 100 * max_overhead);
    if (p.chosen_by() == strategy::budget)
        return fmt::format("the least recomputation within {}", show_bytes(p.report().budget_bytes));
    return fmt::format("the strategy {}", name_of(p.chosen_by()));
}

/// The strategy and what it goes for.
inline std::string claim(const plan& p, double max_overhead) {
    const std::string_view name = name_of(p.chosen_by());
    return p.chosen_by() == strategy::budget ? fmt::format("{}: {}", name, goal(p, max_overhead))
                                             : std::string(name);
}

/// What no plan undercuts the bound that keeps to this. `made_here`: not so for a plan from a file, whose goal is not
/// known.
inline std::string bound_claim(const plan& p, double max_overhead, bool made_here = true) {
    constexpr std::string_view once = "runs each gradient once, in its order, is smaller";
    if (!made_here) return fmt::format("no plan that {}", once);
    if (p.chosen_by() == strategy::baseline) return "nothing is changed";
    if (within_overhead(p))
        return fmt::format("no plan within {:g} % of recomputation that {}", 100 * max_overhead, once);
    if (p.chosen_by() == strategy::budget) return fmt::format("no plan that {}", once);
    return fmt::format("no plan that recomputes light ops only and {}", once);
}

} // namespace echo::format
