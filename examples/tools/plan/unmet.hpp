// SPDX-License-Identifier: BSL-1.0
/// @file
/// `why_unmet`: what stands in the way of a budget.
#pragma once

#include <echo/analysis/plan/plan.hpp>
#include <echo/graph/snapshot.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace echo::format {

/// One line: the budget, the best that was reached, the certified bound, the largest value live at the peak.
inline std::string why_unmet(const snapshot& s, const plan_report& r) {
    std::string why =
        fmt::format("no plan of at most {} bytes was found; the best has {}, the certified bound is {}",
                    r.budget_bytes, r.peak_bytes, r.lower_bound_bytes);
    if (!r.blocker.valid()) return why;
    why += fmt::format("; live at the peak is node '{}' with {} bytes", s.name(r.blocker), r.blocker_bytes);
    const std::string_view layer = s.layer_name(s[r.blocker].layer);
    if (!layer.empty()) why += fmt::format(" (layer '{}')", layer);
    return why + ": allow that much, or make it smaller (batch, length)";
}

} // namespace echo::format
