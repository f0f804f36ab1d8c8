// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which axes of a fused call remain when extents of 1 are dropped and neighbours that every operand steps through
/// alike are merged into one. Host code.
#pragma once

#include <echo/cuda/kernel/fused_checks.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace echo::cuda::fused::detail {

/// An axis, and the elements between neighbours along it for each operand.
struct merged_axis {
    std::int64_t extent = 1;
    std::array<std::int64_t, most_operands> step{};
};

/// Axes that remain, outermost first.
struct merged_list {
    std::array<merged_axis, most_axes> of{};
    std::size_t count = 0;

    /// Appends the axes [begin, end) of the call.
    void append(const extents& e, std::size_t begin, std::size_t end,
                std::span<const layout_operand> operands) {
        for (std::size_t a = begin; a < end; ++a) {
            if (e.of[a] == 1) continue;
            of[count].extent = e.of[a];
            for (std::size_t i = 0; i < operands.size(); ++i)
                of[count].step[i] = operands[i].used ? operands[i].step[a] : 0;
            ++count;
        }
        join(operands.size());
    }
    /// Elements may be taken in any order: by the memory of the first result.
    void sort_by_first(std::size_t operands) {
        std::stable_sort(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(count),
                         [](const merged_axis& a, const merged_axis& b) { return a.step[0] > b.step[0]; });
        join(operands);
    }
    /// The innermost one; where there is none, one of a single element.
    const merged_axis& last() const noexcept { return of[count == 0 ? 0 : count - 1]; }
    std::span<const merged_axis> all() const noexcept { return std::span(of).first(count); }

private:
    void join(std::size_t operands) {
        std::size_t kept = 0;
        for (std::size_t k = 1; k < count; ++k) {
            bool alike = true;
            for (std::size_t i = 0; i < operands; ++i)
                alike = alike && of[kept].step[i] == of[k].step[i] * of[k].extent;
            if (alike) {
                const auto extent = of[kept].extent * of[k].extent;
                of[kept] = of[k];
                of[kept].extent = extent;
            } else {
                of[++kept] = of[k];
            }
        }
        if (count != 0) count = kept + 1;
    }
};

/// The axes that number rows, and those within a row; without rows all are within.
struct merged_extents {
    merged_list outer{}, inner{};

    /// Errors: `argument_error` where more remain than a kernel can be given.
    merged_extents(const extents& e, std::span<const layout_operand> operands, bool by_row) {
        const std::size_t row = by_row ? row_begin(e) : 0;
        outer.append(e, 0, row, operands);
        inner.append(e, row, e.rank, operands);
        if (!by_row) inner.sort_by_first(operands.size());
        const std::size_t remain = outer.count + std::max<std::size_t>(inner.count, 1); // a row is an axis
        if (remain > merged_axes)
            throw argument_error("fused, extents",
                                 std::to_string(remain) +
                                     " axes remain when neighbours are merged, more than 4",
                                 "copy an operand, or call once for each part");
    }
};

} // namespace echo::cuda::fused::detail
