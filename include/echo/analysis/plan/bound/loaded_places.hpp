// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where a bound is looked for: at the gradients that are most loaded in a plan that comes close to it.
#pragma once

#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/ranking.hpp>
#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// So many cuts as a graph of that size can afford: `nodes` is what nodes times cuts may come to. At least `fewest`.
inline std::size_t cuts_for(const snapshot& s, std::size_t nodes, std::size_t fewest) {
    return std::clamp(nodes / (s.node_count() + 1), fewest, tuning::most_cuts);
}

/// The step of the highest load in each part of the backward pass, the highest first. `load`: of these steps. O(steps).
inline std::vector<node_id> most_loaded(const snapshot& s, const schedule& steps,
                                        std::span<const std::uint64_t> load) {
    constexpr std::size_t parts = tuning::most_cuts;
    const std::size_t first = first_backward_step(s, steps).index(), count = steps.size() - first;
    ranking by_load;
    for (std::size_t part = 0; part < parts; ++part) {
        std::uint32_t highest = 0;
        std::uint64_t most = 0;
        for (std::size_t t = first + count * part / parts; t < first + count * (part + 1) / parts; ++t) {
            const step_record& step = steps[step_id(t)];
            if (load[t] <= most || !runs_after_forward(s[step.node].phase)) continue;
            most = load[t];
            highest = step.node.index();
        }
        if (most > 0) by_load.add(highest, most);
    }
    std::vector<node_id> at;
    for (const auto n : by_load.descending()) at.emplace_back(n);
    return at;
}

} // namespace echo::detail
