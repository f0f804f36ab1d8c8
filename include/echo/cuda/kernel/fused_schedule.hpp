// SPDX-License-Identifier: BSL-1.0
/// @file
/// What of a fused program runs when: which steps are needed at all, which are the same for a whole row, and in how
/// many passes over a row its reductions are made.
#pragma once

#include <echo/cuda/kernel/fused_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace echo::cuda::fused {

/// What is known of one step.
struct timing_of_step {
    std::uint8_t level = 0; ///< passes that must be over before it is known
    bool live = false;      ///< a result depends on it
    bool uniform = false;   ///< the same for all elements of a row
    /// Bit k: pass k evaluates it for each element; bit `passes`: so do the results.
    std::uint32_t needed_by = 0;
};

/// A row is read in `passes` passes for its reductions and once more where a result differs from element to element.
struct row_schedule {
    std::uint8_t passes = 0;      ///< Reductions that wait for each other.
    bool writes_elements = false; ///< Whether a result differs from element to element.
    bool by_row = false;          ///< the program knows rows at all
};

/// At most so many dependent reductions: softmax and the normalisations need two.
inline constexpr std::size_t most_passes = 8;

/// Operands of a step that are steps themselves.
constexpr std::size_t step_operands(const step& s) noexcept {
    return s.kind == step_kind::operand ? 0 : s.arity;
}

/// Whether a step asks where in its row an element stands.
constexpr bool has_row_index(std::span<const step> steps) noexcept {
    return std::any_of(steps.begin(), steps.end(),
                       [](const step& s) { return s.kind == step_kind::row_index; });
}

/// Clears `of` (one per step), and marks the steps that some result needs. O(steps).
constexpr void mark_live(std::span<const step> steps, std::span<const std::uint16_t> results,
                         std::span<timing_of_step> of) {
    for (std::size_t i = 0; i < steps.size(); ++i) of[i] = {};
    for (const auto r : results) of[r].live = true;
    for (std::size_t i = steps.size(); i-- > 0;)
        if (of[i].live)
            for (std::size_t k = 0; k < step_operands(steps[i]); ++k) of[steps[i].operands[k]].live = true;
}

/// Fills `of` (one per step) and returns the passes. More than `most_passes` are reported as that many plus one: the
/// caller refuses them. O(steps × passes).
constexpr row_schedule schedule(std::span<const step> steps, std::span<const std::uint16_t> results,
                                std::span<timing_of_step> of) {
    row_schedule out;
    mark_live(steps, results, of);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const step& s = steps[i];
        of[i].uniform = s.kind != step_kind::operand && s.kind != step_kind::row_index;
        for (std::size_t k = 0; k < step_operands(s); ++k) {
            of[i].level = std::max(of[i].level, of[s.operands[k]].level);
            of[i].uniform = of[i].uniform && of[s.operands[k]].uniform;
        }
        if (is_row_reduction(s.kind)) {
            of[i].uniform = true;
            if (of[i].level <= most_passes) ++of[i].level;
            if (of[i].live) out.passes = std::max(out.passes, of[i].level);
        }
        if (of[i].live)
            out.by_row = out.by_row || is_row_reduction(s.kind) || s.kind == step_kind::row_length ||
                         s.kind == step_kind::row_index;
    }
    if (out.passes > most_passes) return out;

    for (const auto r : results)
        if (!of[r].uniform || !out.by_row) {
            out.writes_elements = true;
            of[r].needed_by |= std::uint32_t{1} << out.passes;
        }
    for (std::size_t i = steps.size(); i-- > 0;) {
        if (!of[i].live) continue;
        const bool reduces = is_row_reduction(steps[i].kind);
        const std::uint32_t by = reduces ? std::uint32_t{1} << (of[i].level - 1) : of[i].needed_by;
        if (of[i].uniform && out.by_row && !reduces) continue; // known before the pass begins
        for (std::size_t k = 0; k < step_operands(steps[i]); ++k) of[steps[i].operands[k]].needed_by |= by;
    }
    return out;
}

} // namespace echo::cuda::fused
