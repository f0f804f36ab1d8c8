// SPDX-License-Identifier: BSL-1.0
/// @file
/// `result_copies`: which copies are the graph's outputs.
#pragma once

#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/error.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::detail {

/// The copies that are graph outputs, each once, in the order in which the graph names them. A graph output is the copy
/// of the latest step that produces it. O(nodes + steps + copies). Errors: a graph output that no step makes.
inline std::vector<std::uint32_t> result_copies(const snapshot& s, const resolved_steps& r) {
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    id_vector<node_id, std::uint32_t> latest(s.node_count(), none);
    for (std::size_t t = 0; t < r.size(); ++t)
        if (runs_node(r.steps[t].kind)) latest[r.steps[t].node] = static_cast<std::uint32_t>(t);
    std::vector<std::uint32_t> results;
    id_set<value_id> met(s.value_count());
    for (const auto v : s.results()) {
        const std::uint32_t t = latest[s[v].producer];
        if (t == none) throw error(s.name(s[v].producer), "outputs", "a graph output is never made");
        if (met.add(v)) results.push_back(r.steps[t].first_copy + s.output_index(v));
    }
    return results;
}

} // namespace echo::detail
