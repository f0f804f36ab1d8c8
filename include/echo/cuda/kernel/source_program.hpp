// SPDX-License-Identifier: BSL-1.0
/// @file
/// A fused program that is made at run time: what source is generated from, and what its launches are checked against.
#pragma once

#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/fused_program.hpp>
#include <echo/cuda/kernel/fused_schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::cuda::fused {

/// A program made at run time. `kinds`: how results, then operands are stored.
struct run_time_program {
    std::vector<step> steps{};            ///< What is computed, in this order.
    std::vector<std::uint16_t> results{}; ///< The step of each result.
    std::vector<timing_of_step> timing{}; ///< When each step is known.
    row_schedule rows{};                  ///< How often a row is read.
    std::vector<storage> kinds{};         ///< How results and then operands are stored.

    /// How many operands there are.
    std::size_t operands() const noexcept { return kinds.size() - results.size(); }
    /// Whether that result has one element per row.
    bool result_by_row(std::size_t k) const noexcept { return rows.by_row && timing[results[k]].uniform; }
    /// Threads that a multiprocessor should hold; 0: any number. Numbers that are drawn take more registers than many
    /// threads leave.
    int threads() const noexcept {
        const bool draws = std::find(kinds.begin(), kinds.end(), storage::draws) != kinds.end();
        return rows.by_row || draws ? 0 : wanted_threads(steps, kinds.size());
    }
    /// Whether the kernel reads that operand. O(steps).
    bool reads(std::size_t operand) const noexcept {
        for (const step& s : steps)
            if (s.kind == step_kind::operand && s.operands[0] == operand) return true;
        return false;
    }
};

} // namespace echo::cuda::fused
