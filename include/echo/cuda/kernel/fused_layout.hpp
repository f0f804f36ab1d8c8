// SPDX-License-Identifier: BSL-1.0
/// @file
/// From extents and strides to what a fused kernel is launched with: axes merged (fused_axes.hpp), vector accesses
/// chosen, everything that cannot be run refused (fused_checks.hpp). Host code; the compiled kernels and the generated
/// ones share it.
#pragma once

#include <echo/cuda/kernel/divisor.hpp>
#include <echo/cuda/kernel/fused_axes.hpp>
#include <echo/cuda/kernel/fused_checks.hpp>
#include <echo/cuda/kernel/fused_shape.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace echo::cuda::fused {
namespace detail {

/// Chooses how each operand is accessed and how groups of `width` elements are found.
class layout {
public:
    layout(const extents& e, std::span<const layout_operand> operands, bool by_row, std::uint32_t width)
        : axes_(e, operands, by_row), operands_(operands), by_row_(by_row), width_(width) {}

    /// Fills `shape` and `out`. Returns whether there is anything to run.
    bool fill(launch_shape& shape, std::span<launch_operand> out) const {
        shape = {};
        shape.shift = best_shift();
        count_groups(shape);
        for (std::size_t i = 0; i < operands_.size(); ++i) out[i] = placed(i, shape.shift);
        if (by_row_)
            choose_row_walk(shape, out);
        else
            choose_walk(shape, out);
        return by_row_ ? shape.rows != 0 : shape.groups != 0;
    }

private:
    /// Whether groups of `width` elements that begin `shift` early are whole vectors of the operand.
    bool is_vector(std::size_t i, std::uint32_t shift) const noexcept {
        const layout_operand& o = operands_[i];
        const merged_axis& last = axes_.inner.last();
        if (!o.used || last.step[i] != 1) return false;
        // Groups of a row do not begin anew with each of its lines.
        if (by_row_ && lines() != 0 && last.extent % width_ != 0) return false;
        const auto unit = o.kind == storage::bit ? std::int64_t{width_}
                          : o.kind == storage::draws
                              ? std::int64_t{4} // numbers of one counter
                              : std::int64_t{16} / static_cast<std::int64_t>(unit_bytes(o.kind));
        for (const merged_axis& a : axes_.inner.all().first(lines()))
            if (a.step[i] % unit != 0) return false;
        for (const merged_axis& a : axes_.outer.all())
            if (a.step[i] % unit != 0) return false;
        if (o.kind == storage::bit) return shift == 0;
        if (o.kind == storage::draws) return shift % 4 == 0;
        const auto element = reinterpret_cast<std::uintptr_t>(o.data) / unit_bytes(o.kind);
        return (element - shift) % static_cast<std::uint64_t>(unit) == 0;
    }

    /// By how many elements groups begin early, so that the most bits are moved by vectors.
    std::uint32_t best_shift() const noexcept {
        std::uint64_t best = 0;
        std::uint32_t found = 0;
        for (std::uint32_t shift = 0; shift < (by_row_ ? 1 : width_); ++shift) {
            std::uint64_t bits = 0;
            for (std::size_t i = 0; i < operands_.size(); ++i)
                if (is_vector(i, shift)) bits += element_bits(operands_[i].kind);
            if (bits > best) {
                best = bits;
                found = shift;
            }
        }
        return found;
    }

    /// Axes within a row, or in all, but for the line itself.
    std::size_t lines() const noexcept { return axes_.inner.count == 0 ? 0 : axes_.inner.count - 1; }

    /// Axes stand right-aligned in `within` and in `outer`.
    void count_groups(launch_shape& shape) const {
        const merged_axis& last = axes_.inner.last();
        shape.line = last.extent;
        shape.line_groups = groups_of(last.extent, shape.shift);
        shape.groups = shape.line_groups;
        shape.row_length = last.extent;
        shape.rows = 1;
        for (std::size_t k = 0; k < lines(); ++k) {
            const std::int64_t extent = axes_.inner.of[k].extent;
            shape.within[3 - lines() + k] = static_cast<std::uint64_t>(extent);
            shape.groups *= static_cast<std::uint64_t>(extent);
            shape.row_length *= extent;
        }
        for (std::size_t k = 0; k < axes_.outer.count; ++k) {
            const auto extent = static_cast<std::uint64_t>(axes_.outer.of[k].extent);
            shape.outer[3 - lines() - axes_.outer.count + k] = extent;
            shape.rows *= extent;
        }
        if (by_row_) shape.groups = groups_of(shape.row_length, 0);
    }
    std::uint64_t groups_of(std::int64_t length, std::uint32_t shift) const noexcept {
        return length == 0 ? 0 : (static_cast<std::uint64_t>(length) + shift + width_ - 1) / width_;
    }

    launch_operand placed(std::size_t i, std::uint32_t shift) const {
        launch_operand o;
        const std::int64_t along = axes_.inner.last().step[i];
        o.data = operands_[i].data;
        o.step[3] = along;
        for (std::size_t k = 0; k < lines(); ++k) o.step[3 - lines() + k] = axes_.inner.of[k].step[i];
        for (std::size_t k = 0; k < axes_.outer.count; ++k)
            o.step[3 - lines() - axes_.outer.count + k] = axes_.outer.of[k].step[i];
        o.how = is_vector(i, shift) ? access::vector : along == 0 ? access::repeated : access::scalar;
        return o;
    }

    void choose_walk(launch_shape& shape, std::span<const launch_operand> out) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 31; // what a divisor divides
        if (shape.groups == 0 || shape.groups >= most - warp_lanes) return;
        const auto w = static_cast<std::int64_t>(width_);
        const bool flat = shape.groups == shape.line_groups;
        bool repeats = false;
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            const access how = out[i].how;
            if (!operands_[i].used) continue;
            if (how == access::scalar || (flat && how != access::vector)) return;
            if (!flat && last_place(i) >= most) return;
            repeats = repeats || how == access::repeated;
        }
        if (flat) {
            shape.walk = walking::flat;
            const auto ends = (shape.line + shape.shift) / w; // groups that end within the line
            shape.first_whole = shape.shift == 0 ? 0 : 1;
            shape.whole = ends > shape.first_whole ? static_cast<std::uint32_t>(ends) - shape.first_whole : 0;
        } else if (shape.shift == 0 && shape.line % w == 0) {
            shape.walk = repeats ? walking::repeating : walking::lines;
            shape.by_line_groups = divisor(shape.line_groups);
            shape.by_within[0] = divisor(shape.within[1]);
            shape.by_within[1] = divisor(shape.within[2]);
        }
    }
    /// A row that is one line of whole groups, each operand of which is a vector or repeated.
    void choose_row_walk(launch_shape& shape, std::span<const launch_operand> out) const {
        if (axes_.inner.count > 1 || shape.row_length % static_cast<std::int64_t>(width_) != 0) return;
        for (std::size_t i = 0; i < operands_.size(); ++i)
            if (operands_[i].used && !operands_[i].per_row && out[i].how == access::scalar) return;
        shape.walk = walking::repeating;
    }
    /// The furthest element of an operand, in elements from its first.
    std::uint64_t last_place(std::size_t i) const noexcept {
        std::uint64_t last = 0;
        for (const merged_axis& a : axes_.inner.all())
            last += static_cast<std::uint64_t>((a.extent - 1) * a.step[i]);
        return last;
    }

    merged_extents axes_;
    std::span<const layout_operand> operands_;
    bool by_row_;
    std::uint32_t width_;
};

} // namespace detail

/// Elements that a thread takes at a time: as many of the smallest element as 16 bytes hold.
constexpr std::uint32_t group_width(std::span<const storage> kinds) noexcept {
    for (const storage k : kinds)
        if (k == storage::f16 || k == storage::bf16) return 8;
    return 4;
}

/// Fills what a kernel with these results and operands, in this order, is launched with; false if there is nothing to
/// do. Throws `argument_error`: a negative extent or stride, more than 2^40 elements, more than 4 axes after merging, a
/// null or misaligned pointer, a result whose elements share places, a result that overlaps an operand other than in
/// place (the same elements at the same addresses) or another result. Ranges are compared, not elements: interleaved
/// operands and results count as overlapping. O(operands² · axes).
inline bool lay_out(const extents& e, std::span<const layout_operand> operands, std::size_t results,
                    bool by_row, std::uint32_t width, launch_shape& shape, std::span<launch_operand> out) {
    detail::layout_checks(e, operands, results, by_row).run();
    return detail::layout(e, operands, by_row, width).fill(shape, out);
}

} // namespace echo::cuda::fused
