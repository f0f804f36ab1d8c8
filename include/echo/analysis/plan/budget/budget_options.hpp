// SPDX-License-Identifier: BSL-1.0
/// @file
/// `budget_options`: what a search under a budget may do, and whom it tells how far it is.
#pragma once

#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/search_options.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <cstddef>

namespace echo {

/// As in `plan_options`.
struct budget_options {
    bool encode = true;
    /// Replays spent on local search at most.
    std::size_t local_search_replays = 4000;
    progress_callback progress{};
    /// Of a large graph: what nodes times replays may come to where the least peak within a time is looked for.
    std::size_t most_work = tuning::most_work;
    /// Which passes are made.
    search_options passes{};
};

} // namespace echo
