// SPDX-License-Identifier: BSL-1.0
/// @file
/// `resolved_steps`: a schedule whose references are indices of copies, for the replay of `verify`. Either
/// the graph's own order, as here, or the steps of a plan (step_resolver.hpp).
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace echo::detail {

/// Copies are numbered through all steps: step t makes those from `steps[t].first_copy` up to that of the
/// next step.
struct resolved_steps {
    struct step {
        node_id node{};
        step_kind kind = step_kind::run;
        std::uint32_t first_copy = 0, first_read = 0;
        std::uint64_t bytes = 0; ///< of an encoding, or of what is moved
        bool fused = false;      ///< makes copies that no storage holds
        bool packed = false;     ///< makes a copy of one bit per element, in whatever memory
    };
    std::vector<step> steps;          ///< and one more, where the last one's copies and reads end
    std::vector<std::uint32_t> reads; ///< copies named, those of a step in the order of its inputs
    std::vector<value_id> copies;     ///< the value that each copy holds
    bool own_order = false;           ///< the graph's order, not that of a plan
    bool any_fused = false;

    std::size_t size() const noexcept { return steps.size() - 1; }
    std::size_t read_count(std::size_t t) const { return steps[t + 1].first_read - steps[t].first_read; }
    std::size_t copy_count(std::size_t t) const { return steps[t + 1].first_copy - steps[t].first_copy; }
    /// The number of a copy, which must be one of them.
    std::uint32_t copy_index(copy_id c) const {
        const std::size_t t = c.step.index();
        return steps[t].first_copy + c.output;
    }

    void close_step() {
        steps.push_back({.first_copy = static_cast<std::uint32_t>(copies.size()),
                         .first_read = static_cast<std::uint32_t>(reads.size())});
    }
};

/// `schedule[t]`, as the file calls it.
inline std::string step_key(std::size_t t) { return "schedule[" + std::to_string(t) + "]"; }

/// Every node once, as the file lists them, dead ones included. O(nodes + edges).
inline resolved_steps resolve_own_order(const snapshot& s) {
    resolved_steps out{.steps = {}, .reads = {}, .copies = {}, .own_order = true};
    out.steps.reserve(s.node_count() + 1);
    out.reads.reserve(s.edge_count());
    out.copies.reserve(s.value_count());
    out.close_step();
    for (const auto n : s.nodes()) {
        out.steps.back().node = n;
        for (const auto v : s.inputs(n)) out.reads.push_back(v.index());
        for (const auto v : s.outputs(n)) out.copies.push_back(v);
        out.close_step();
    }
    return out;
}

} // namespace echo::detail
