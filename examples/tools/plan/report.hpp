// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan --report`: from a verified plan to the page.
#pragma once

#include "plan/pass.hpp"
#include "report/report.hpp"

#include <echo/analysis/make_plan.hpp>

#include <optional>
#include <string>

namespace echo::format {

/// The page of one plan. The front is searched for it, by the strategy `budget`. Errors: as `run_pass` and `report_of`.
inline std::string report_page(const loaded_graph& g, const options& asked, const verified_plan& made,
                               progress& line) {
    line.stage("searching the front");
    const auto show = [&](double part) { line.part_done(part); };
    plan_options wanted = plan_options_of(asked, g, strategy::budget);
    wanted.budget = any_peak;
    wanted.progress = show;
    constexpr std::size_t large = 10'000; // nodes, from which a search takes a second and more
    std::optional<plan_front> found;      // without gradients there is none
    if (report::has_gradients(g.snapshot))
        found = front(g.snapshot, wanted, g.snapshot.node_count() < large ? 24 : 10);
    line.stage("writing the report");
    return report::report_of({.name = g.name,
                              .graph = &g.snapshot,
                              .made = &made.plan,
                              .arena = &made.arena,
                              .front = found ? &*found : nullptr,
                              .max_overhead = max_overhead_of(asked),
                              .made_here = asked.given_plan.empty(),
                              .notes = made.extras.notes});
}

} // namespace echo::format
