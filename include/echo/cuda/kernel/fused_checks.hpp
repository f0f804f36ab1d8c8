// SPDX-License-Identifier: BSL-1.0
/// @file
/// What no fused kernel can be launched with, each in a sentence that says what to do instead. Host code.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/fused_program.hpp>
#include <echo/cuda/kernel/fused_shape.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace echo::cuda::fused {

/// What is to be laid out.
struct layout_operand {
    void* data = nullptr;        ///< Where it lies.
    storage kind = storage::f32; ///< How its elements are stored.
    strides step{};              ///< Elements between neighbours along each axis; 0 repeats.
    bool used = true;            ///< its data is read or written
    bool written = false;        ///< A result.
    bool per_row = false;        ///< a result with one element per row
};

namespace detail {

/// The first axis of a row.
constexpr std::size_t row_begin(const extents& e) noexcept { return e.rank - std::min(e.row_axes, e.rank); }

/// Extents and strides as they are given, before anything is merged.
class layout_checks {
public:
    layout_checks(const extents& e, std::span<const layout_operand> operands, std::size_t results,
                  bool by_row)
        : extents_(e), operands_(operands), results_(results), by_row_(by_row) {}

    /// Throws `argument_error` at the first fault.
    void run() const {
        check_extents();
        for (std::size_t i = 0; i < operands_.size(); ++i) check_operand(i);
        for (std::size_t i = 0; i < results_; ++i)
            for (std::size_t j = 0; j < operands_.size(); ++j)
                if (j > i || j >= results_) check_overlap(i, j);
    }

private:
    std::string name(std::size_t i) const {
        return i < results_ ? "fused, result " + std::to_string(i)
                            : "fused, operand " + std::to_string(i - results_);
    }
    std::int64_t extent(std::size_t a) const noexcept { return extents_.of[a]; }
    bool in_row(std::size_t a) const noexcept { return by_row_ && a >= row_begin(extents_); }

    void check_extents() const {
        check_rank(extents_);
        std::uint64_t n = 1;
        for (std::size_t a = 0; a < extents_.rank; ++a) {
            if (extent(a) < 0)
                throw argument_error("fused, extents", "an extent is negative: " + std::to_string(extent(a)),
                                     "give extents of 0 or more");
            const auto product =
                checked_multiply(n, static_cast<std::uint64_t>(extent(a) == 0 ? 1 : extent(a)));
            n = product.value_or(~std::uint64_t{0});
            if (n > static_cast<std::uint64_t>(most_elements))
                throw argument_error("fused, extents", "are more than 2^40 elements",
                                     "call once for each part");
        }
        if (by_row_ && extents_.row_axes == 0)
            throw argument_error("fused, extents", "a row has no axes", "give row_axes of 1 or more");
    }
    bool empty(std::size_t i) const noexcept {
        for (std::size_t a = 0; a < extents_.rank; ++a)
            if (extent(a) == 0 && !(operands_[i].per_row && in_row(a))) return true;
        return false;
    }
    /// Bytes from the first to behind the last element.
    std::uint64_t span_bytes(std::size_t i) const noexcept {
        if (empty(i)) return 0;
        std::uint64_t last = 0;
        for (std::size_t a = 0; a < extents_.rank; ++a)
            if (extent(a) > 1) last += static_cast<std::uint64_t>((extent(a) - 1) * operands_[i].step[a]);
        return bytes_of(operands_[i].kind, last + 1);
    }

    void check_operand(std::size_t i) const {
        const layout_operand& o = operands_[i];
        if (!o.used) return;
        std::uint64_t furthest = 0;
        for (std::size_t a = 0; a < extents_.rank; ++a) {
            if (extent(a) <= 1) continue;
            if (o.step[a] < 0)
                throw argument_error(name(i), "a stride is negative", "give strides of 0 or more");
            const auto along = checked_multiply(static_cast<std::uint64_t>(o.step[a]),
                                                static_cast<std::uint64_t>(extent(a) - 1));
            const auto sum = along ? checked_add(furthest, *along) : std::nullopt;
            if (!sum || *sum > std::uint64_t{1} << 56)
                throw argument_error(name(i), "its strides reach beyond 2^56 elements", "check the strides");
            furthest = *sum;
            if (!o.written || empty(i)) continue;
            if (o.per_row && in_row(a)) {
                if (o.step[a] != 0)
                    throw argument_error(name(i), "has one element per row, but a stride along the row",
                                         "give 0 there: per_row(data, extents)");
            } else if (o.step[a] == 0) {
                throw argument_error(name(i), "repeats along an axis that the kernel writes",
                                     "give every element of a result its own place");
            }
        }
        if (o.written && !empty(i)) check_places(i);
        if (o.data == nullptr && !empty(i))
            throw argument_error(name(i), "is null", "give " + std::to_string(span_bytes(i)) + " bytes");
        if (reinterpret_cast<std::uintptr_t>(o.data) % unit_bytes(o.kind) != 0)
            throw argument_error(
                name(i), "is not aligned to its " + std::to_string(unit_bytes(o.kind)) + "-byte elements",
                "give a pointer to whole elements");
    }
    /// No two elements of a result share a place: each stride steps over all that the smaller ones reach.
    void check_places(std::size_t i) const {
        std::array<std::pair<std::int64_t, std::int64_t>, most_axes> by_step{};
        std::size_t n = 0;
        for (std::size_t a = 0; a < extents_.rank; ++a) {
            const std::pair next{operands_[i].step[a], extent(a)};
            if (next.second <= 1 || next.first == 0) continue;
            std::size_t at = n++;
            for (; at > 0 && next < by_step[at - 1]; --at) by_step[at] = by_step[at - 1];
            by_step[at] = next;
        }
        std::int64_t reach = 0;
        for (std::size_t k = 0; k < n; ++k) {
            if (by_step[k].first <= reach)
                throw argument_error(name(i), "two of its elements share a place", "check the strides");
            reach += by_step[k].first * (by_step[k].second - 1);
        }
    }
    void check_overlap(std::size_t i, std::size_t j) const {
        const layout_operand &a = operands_[i], &b = operands_[j];
        if (!a.used || !b.used) return;
        const auto first_a = reinterpret_cast<std::uintptr_t>(a.data),
                   first_b = reinterpret_cast<std::uintptr_t>(b.data);
        const auto bytes_a = span_bytes(i), bytes_b = span_bytes(j);
        if (bytes_a == 0 || bytes_b == 0 || first_a >= first_b + bytes_b || first_b >= first_a + bytes_a)
            return;
        bool in_place = j >= results_ && !a.per_row && a.data == b.data && a.kind == b.kind;
        for (std::size_t x = 0; x < extents_.rank; ++x)
            in_place = in_place && (extent(x) <= 1 || a.step[x] == b.step[x]);
        if (!in_place)
            throw argument_error(name(i), "overlaps " + name(j).substr(7),
                                 "give separate memory, or for an operand the very same elements");
    }

    const extents& extents_;
    std::span<const layout_operand> operands_;
    std::size_t results_;
    bool by_row_;
};

} // namespace detail

/// Refuses rows so long that a position in them, or a label that names one, is no exact float: more than 2^24 elements.
inline void check_row_index(const launch_shape& shape) {
    if (shape.row_length > std::int64_t{1} << 24)
        throw argument_error("fused, extents",
                             "a row has " + std::to_string(shape.row_length) +
                                 " elements; labels are exact up to 2^24",
                             "give shorter rows to an op that compares labels");
}

/// Refuses few rows that are very long, before a device is given them: a warp takes a row, and a card that runs
/// thousands of warps would have work for some of them only. Fewer than 1,024 rows are few; a row is long above 2^14
/// elements, which take a warp 128 turns of 16 bytes a lane, and above 256 for each of the rows: 512 rows of a
/// vocabulary of 128,000 words run, at some of a card's bandwidth, and 64 of 100,000 do not. On the host all rows run.
inline void check_row_count(const launch_shape& shape) {
    constexpr std::uint64_t few = 1024, long_row = std::uint64_t{1} << 14, elements_per_row = 256;
    const auto length = static_cast<std::uint64_t>(shape.row_length);
    if (shape.rows >= few || length <= std::max(long_row, elements_per_row * shape.rows)) return;
    throw argument_error(
        "fused, extents",
        std::to_string(shape.rows) + " rows of " + std::to_string(shape.row_length) +
            " elements would keep only " + std::to_string(shape.rows) + " warps of the card busy",
        "reduce parts of each row, as rows of their own, and their results in a second call");
}

} // namespace echo::cuda::fused
