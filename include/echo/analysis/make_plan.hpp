// SPDX-License-Identifier: BSL-1.0
/// @file
/// `make_plan`: the one entry point of planning.
#pragma once

#include <echo/analysis/cost.hpp>
#include <echo/analysis/footprint.hpp>
#include <echo/analysis/plan.hpp>

#include <functional>

namespace echo {

/// Options of `make_plan`; every default is the recommended choice.
struct plan_options {
    strategy how = strategy::min_cut;
    bool encode = true;                     ///< one-bit encodings are candidates
    host_abilities host{};                  ///< what the executor can do
    device_model device{};                  ///< for nodes without a measured time
    std::function<void(double)> progress{}; ///< called now and then with the part done, 0 to 1
};

inline plan make_plan(const snapshot& s, const plan_options& options = {}) {
    replay judge;
    schedule steps = baseline_schedule(s);
    const auto before = judge(s, steps);
    plan_report report{.baseline_peak_bytes = before.peak_bytes,
                       .peak_bytes = before.peak_bytes,
                       .resident_bytes = resident_bytes(s),
                       .baseline_stash_bytes = before.stash_bytes,
                       .stash_bytes = before.stash_bytes};
    return {options.how, std::move(steps), options.host, std::move(report)};
}

} // namespace echo
