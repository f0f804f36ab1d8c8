// SPDX-License-Identifier: BSL-1.0
/// @file
/// `live_program`: the steps of a graph (graph.hpp) that its results depend on, as the program of one kernel.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/source_program.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::cuda::jit::detail {

/// A result of a kernel: the number of its step, and how it is stored.
using stored_result = std::pair<std::uint16_t, fused::storage>;

/// Drops the other steps and schedules the rest. `operands` says how each operand is stored. Errors: `argument_error`
/// for more dependent reductions than 8. O(steps).
inline fused::run_time_program live_program(std::span<const fused::step> steps,
                                            std::span<const stored_result> results,
                                            std::span<const fused::storage> operands) {
    std::vector<std::uint16_t> wanted;
    for (const auto& [at, kind] : results) wanted.push_back(at);
    std::vector<fused::timing_of_step> timing(steps.size());
    fused::schedule(steps, wanted, timing);

    fused::run_time_program p;
    std::vector<std::uint16_t> moved(steps.size());
    for (std::size_t i = 0; i < timing.size(); ++i) {
        if (!timing[i].live) continue;
        fused::step s = steps[i];
        for (std::size_t k = 0; k < fused::step_operands(s); ++k) s.operands[k] = moved[s.operands[k]];
        moved[i] = static_cast<std::uint16_t>(p.steps.size());
        p.steps.push_back(s);
    }
    for (const auto& [at, kind] : results) {
        p.results.push_back(moved[at]);
        p.kinds.push_back(kind);
    }
    p.kinds.insert(p.kinds.end(), operands.begin(), operands.end());
    p.timing.resize(p.steps.size());
    p.rows = fused::schedule(p.steps, p.results, p.timing);
    if (p.rows.passes > fused::most_passes)
        throw argument_error("graph", "has more than 8 dependent reductions", "make two kernels of it");
    return p;
}

} // namespace echo::cuda::jit::detail
