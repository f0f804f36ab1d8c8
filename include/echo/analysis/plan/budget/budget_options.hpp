// SPDX-License-Identifier: BSL-1.0
/// @file
/// `budget_options`: what a search under a budget may do, and whom it tells how far it is.
#pragma once

#include <echo/analysis/plan/budget/progress.hpp>

#include <cstddef>

namespace echo {

/// As in `plan_options`.
struct budget_options {
    bool encode = true;
    /// Replays spent on local search at most.
    std::size_t local_search_replays = 4000;
    progress_callback progress{};
};

} // namespace echo
