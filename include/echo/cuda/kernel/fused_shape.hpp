// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a fused kernel is launched with, once it is laid out: plain data, which compiled and generated kernels share.
#pragma once

#include <echo/cuda/kernel/divisor.hpp>
#include <echo/cuda/kernel/fused_operand.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace echo::cuda::fused {

/// How a group of neighbouring elements is accessed.
enum class access : std::uint32_t { vector = 0, scalar = 1, repeated = 2 };

/// How groups are found. `any`: whatever the layout is. `lines`: every group is whole, every operand is a
/// vector, and 32 bits count all elements: no group asks whether it is. `repeating`: the same, but some operands are
/// repeated along the line. `flat`: one line of vectors, whose groups at its ends may be parts.
/// By row, `repeating` is a row of one such line.
enum class walking : std::uint32_t { any = 0, lines = 1, repeating = 2, flat = 3 };

/// An operand as the kernel sees it. Plain data; the generated source declares the same.
struct launch_operand {
    void* data = nullptr;                ///< Where it lies.
    std::int64_t step[merged_axes] = {}; ///< Elements between neighbours along each merged axis; 0 repeats.
    access how = access::scalar;         ///< How a group of it is moved.
    std::uint32_t unused = 0;            ///< Nothing: it fills the space.
};

/// What a launch is told: the last axis in groups of `width` elements, the others as counts to divide by. Elements of a
/// group at the ends may lie outside: groups begin `shift` elements early so that those in between are aligned.
struct launch_shape {
    std::uint64_t rows = 0;        ///< by row: how many; else 1
    std::uint64_t groups = 0;      ///< by row: of one row; else of all
    std::uint64_t line_groups = 0; ///< unless by row: groups along the last axis
    std::int64_t line = 0;         ///< elements along the last axis
    std::int64_t row_length = 0;   ///< by row: elements of a row
    /// Extents that a row's number is divided by.
    std::uint64_t outer[3] = {1, 1, 1};
    /// Extents that a line's number is divided by: within the row, or in all.
    std::uint64_t within[3] = {1, 1, 1};
    std::uint32_t shift = 0;       ///< elements by which the first group begins early
    walking walk = walking::any;   ///< how groups are found
    divisor by_line_groups{};      ///< of `lines`
    divisor by_within[2]{};        ///< by within[1] and within[2], of `lines`
    std::uint32_t first_whole = 0; ///< of `flat`: the first group that is whole
    std::uint32_t whole = 0;       ///< of `flat`: how many are, in a row
    std::uint32_t unused = 0;      ///< nothing: it fills the space
    friend bool operator==(const launch_shape&, const launch_shape&) = default;
};

/// Whether two launches of a kernel differ in addresses alone.
inline bool same_layout(const launch_shape& a, std::span<const launch_operand> of_a, const launch_shape& b,
                        std::span<const launch_operand> of_b) noexcept {
    return a == b && std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                                [](const launch_operand& x, const launch_operand& y) {
                                    return x.how == y.how && std::equal(x.step, x.step + merged_axes, y.step);
                                });
}

} // namespace echo::cuda::fused
