// SPDX-License-Identifier: BSL-1.0
/// @file
/// A report of a plan, or of two side by side, as one HTML page.
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/graph/snapshot.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace echo::report {

/// A plan and what it was made of; all of it must outlive the call.
struct subject {
    std::string name{};                 ///< of the graph
    const snapshot* graph = nullptr;    //
    const plan* made = nullptr;         //
    const memory_plan* arena = nullptr; ///< nullptr: the arena is not drawn
    const plan_front* front = nullptr;  ///< nullptr: the front is not drawn
    double max_overhead = 0.05;         ///< what the plan was asked for, if it was for the least peak
    bool made_here = true;              ///< not so: nothing is known of what was asked for
    bool is_program = false;            ///< what an engine runs, each node once: nothing is planned in it
    std::vector<std::string> notes{};   ///< beside those of the plan's report
};

/// Whether the graph has gradients, for which something could be made again.
bool has_gradients(const snapshot& s);

/// The graph's own order beside the plan; of a graph without gradients, which is left as it is, the arena alone. The
/// same page for the same subject, byte for byte. Errors: as `make_page`. O(nodes + steps + copies), and a search of a
/// bounded length for each storage that waits.
std::string report_of(const subject& shown);

/// The plan of `before` beside that of `after`, of one graph or of two. Errors: as `make_page`. O(nodes + steps +
/// copies), and the searches of `report_of`.
std::string comparison_of(const subject& before, const subject& after);

} // namespace echo::report
