// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_options`: all that may be asked of `make_plan`.
#pragma once

#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/budget/search_options.hpp>
#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/host_allocator.hpp>
#include <echo/analysis/plan/offload/link.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/function_ref.hpp>
#include <echo/graph/host_abilities.hpp>

#include <cstddef>
#include <cstdint>

namespace echo {

/// Options of `make_plan`; every default is the recommended choice.
struct plan_options {
    /// What chooses the plan; `budget` asks all others as well.
    strategy how = strategy::budget;
    /// Bytes that the peak should not exceed: the strategy `budget` takes the plan of least recomputation; the others
    /// are only measured by it.
    std::uint64_t budget = any_peak;
    /// With the strategy `budget` and no bytes: recomputation at most, as a part of the graph's time; the plan of
    /// least peak is taken.
    double max_overhead = 0.05;
    bool encode = true;    ///< one-bit encodings are candidates
    host_abilities host{}; ///< what the executor can do
    device_model device{}; ///< for nodes without a measured time
    /// With the strategy `budget` and a host that can offload: how fast values leave for the host's memory and come
    /// back. The time that a step waits for them counts as recomputation does, by `max_overhead` and in the choice.
    link_model link{};
    /// Of a host that does not take Echo's arena: of the plans found, the one for which it takes least is chosen, and
    /// none for which it takes more than for the graph's own order. A budget is one of its bytes then.
    host_allocator allocator{};
    /// How many recomputations are left out again at most, one by one, to see whether the allocator takes more without.
    std::size_t spare_run_questions = 32;
    std::size_t anchor_distances = 10; ///< how many anchor distances `echo` and `min_cut` try at most
    std::size_t weight_rounds = 8;     ///< how often `min_cut` moves the weight of bytes to the peak
    search_options search{};           ///< which passes the search for budgets makes
    progress_callback progress{};      ///< called now and then with the part done, 0 to 1
    /// Asked before each plan that a search tries: `true` ends the planning with an `echo::error` whose `key()` is
    /// `stop`; what was found until then is lost. A `std::stop_token` is asked by a lambda of one line.
    function_ref<bool()> stop{};
};

} // namespace echo
