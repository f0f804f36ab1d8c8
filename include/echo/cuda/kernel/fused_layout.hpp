// SPDX-License-Identifier: BSL-1.0
/// @file
/// From extents and strides to what a fused kernel is launched with: axes merged, vector accesses chosen, everything
/// that cannot be run refused. Host code; the compiled kernels and the generated ones share it.
#pragma once

#include <echo/cuda/kernel/divisor.hpp>
#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/fused_program.hpp>
#include <echo/cuda/kernel/warp.hpp>
#include <echo/tensor.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

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

class layout {
public:
    layout(const extents& e, std::span<const layout_operand> operands, std::size_t results, bool by_row)
        : extents_(e), operands_(operands), results_(results), by_row_(by_row) {}

    /// Checks everything and fills `shape` and `out`. Returns whether there is anything to run.
    bool fill(std::uint32_t width, launch_shape& shape, std::span<launch_operand> out) {
        check_extents();
        for (std::size_t i = 0; i < operands_.size(); ++i) check_operand(i);
        for (std::size_t i = 0; i < results_; ++i)
            for (std::size_t j = 0; j < operands_.size(); ++j)
                if (j > i || j >= results_) check_overlap(i, j);
        merge();
        place(width, shape, out);
        return by_row_ ? shape.rows != 0 : shape.groups != 0;
    }

private:
    struct axis {
        std::int64_t extent = 1;
        std::array<std::int64_t, most_operands> step{};
    };

    std::string name(std::size_t i) const {
        return i < results_ ? "fused, result " + std::to_string(i)
                            : "fused, operand " + std::to_string(i - results_);
    }
    std::size_t row_begin() const noexcept {
        return extents_.rank - std::min(extents_.row_axes, extents_.rank);
    }
    std::int64_t extent(std::size_t a) const noexcept { return extents_.of[a]; }
    bool in_row(std::size_t a) const noexcept { return by_row_ && a >= row_begin(); }

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

    /// Drops extents of 1 and merges neighbours that every operand steps through alike.
    void merge() {
        if (by_row_) {
            append(0, row_begin(), outer_);
            append(row_begin(), extents_.rank, inner_);
        } else {
            append(0, extents_.rank, inner_);
            // Elements may be taken in any order: by the first result's memory.
            std::stable_sort(inner_.begin(), inner_.begin() + static_cast<std::ptrdiff_t>(inner_count_),
                             [](const axis& a, const axis& b) { return a.step[0] > b.step[0]; });
            join(inner_, inner_count_);
        }
        const std::size_t remain = outer_count_ + std::max<std::size_t>(inner_count_, 1); // a row is an axis
        if (remain > merged_axes)
            throw argument_error("fused, extents",
                                 std::to_string(remain) +
                                     " axes remain when neighbours are merged, more than 4",
                                 "copy an operand, or call once for each part");
    }
    using axes = std::array<axis, most_axes>;
    void append(std::size_t begin, std::size_t end, axes& to) {
        std::size_t& n = &to == &outer_ ? outer_count_ : inner_count_;
        for (std::size_t a = begin; a < end; ++a) {
            if (extent(a) == 1) continue;
            to[n].extent = extent(a);
            for (std::size_t i = 0; i < operands_.size(); ++i)
                to[n].step[i] = operands_[i].used ? operands_[i].step[a] : 0;
            ++n;
        }
        join(to, n);
    }
    void join(axes& of, std::size_t& n) const {
        std::size_t kept = 0;
        for (std::size_t k = 1; k < n; ++k) {
            bool alike = true;
            for (std::size_t i = 0; i < operands_.size(); ++i)
                alike = alike && of[kept].step[i] == of[k].step[i] * of[k].extent;
            if (alike) {
                const auto extent = of[kept].extent * of[k].extent;
                of[kept] = of[k];
                of[kept].extent = extent;
            } else {
                of[++kept] = of[k];
            }
        }
        if (n != 0) n = kept + 1;
    }

    /// Whether groups of `width` elements that begin `shift` early are whole vectors of the operand.
    bool is_vector(std::size_t i, std::uint32_t width, std::uint32_t shift) const noexcept {
        const layout_operand& o = operands_[i];
        if (!o.used || inner_count_ == 0 || inner_[inner_count_ - 1].step[i] != 1) return false;
        // Groups of a row do not begin anew with each of its lines.
        if (by_row_ && inner_count_ > 1 && inner_[inner_count_ - 1].extent % width != 0) return false;
        const auto unit = o.kind == storage::bit ? std::int64_t{width}
                          : o.kind == storage::draws
                              ? std::int64_t{4} // numbers of one counter
                              : std::int64_t{16} / static_cast<std::int64_t>(unit_bytes(o.kind));
        for (std::size_t k = 0; k + 1 < inner_count_; ++k)
            if (inner_[k].step[i] % unit != 0) return false;
        for (std::size_t k = 0; k < outer_count_; ++k)
            if (outer_[k].step[i] % unit != 0) return false;
        if (o.kind == storage::bit) return shift == 0;
        if (o.kind == storage::draws) return shift % 4 == 0;
        const auto element = reinterpret_cast<std::uintptr_t>(o.data) / unit_bytes(o.kind);
        return (element - shift) % static_cast<std::uint64_t>(unit) == 0;
    }

    void place(std::uint32_t width, launch_shape& shape, std::span<launch_operand> out) {
        shape = {};
        for (launch_operand& o : out.first(operands_.size())) o = {};
        const axis last = inner_count_ == 0 ? axis{} : inner_[inner_count_ - 1];
        std::uint64_t best = 0;
        for (std::uint32_t shift = 0; shift < (by_row_ ? 1 : width); ++shift) {
            std::uint64_t bits = 0;
            for (std::size_t i = 0; i < operands_.size(); ++i)
                if (is_vector(i, width, shift)) bits += element_bits(operands_[i].kind);
            if (bits > best) {
                best = bits;
                shape.shift = shift;
            }
        }
        shape.line = last.extent;
        shape.line_groups = (static_cast<std::uint64_t>(last.extent) + shape.shift + width - 1) / width;
        if (last.extent == 0) shape.line_groups = 0;
        shape.groups = shape.line_groups;
        shape.row_length = last.extent;
        shape.rows = 1;
        // Axes stand right-aligned in both lists; the last axis itself is the line.
        const std::size_t lines = inner_count_ == 0 ? 0 : inner_count_ - 1;
        for (std::size_t k = 0; k < lines; ++k) {
            shape.within[3 - lines + k] = static_cast<std::uint64_t>(inner_[k].extent);
            shape.groups *= static_cast<std::uint64_t>(inner_[k].extent);
            shape.row_length *= inner_[k].extent;
        }
        for (std::size_t k = 0; k < outer_count_; ++k) {
            shape.outer[3 - lines - outer_count_ + k] = static_cast<std::uint64_t>(outer_[k].extent);
            shape.rows *= static_cast<std::uint64_t>(outer_[k].extent);
        }
        if (by_row_) shape.groups = (static_cast<std::uint64_t>(shape.row_length) + width - 1) / width;
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            launch_operand& o = out[i];
            o.data = operands_[i].data;
            o.step[3] = last.step[i];
            for (std::size_t k = 0; k < lines; ++k) o.step[3 - lines + k] = inner_[k].step[i];
            for (std::size_t k = 0; k < outer_count_; ++k)
                o.step[3 - lines - outer_count_ + k] = outer_[k].step[i];
            o.how = is_vector(i, width, shape.shift) ? access::vector
                    : last.step[i] == 0              ? access::repeated
                                                     : access::scalar;
        }
        if (by_row_)
            choose_row_walk(width, shape, out);
        else
            choose_walk(width, shape, out);
    }

    void choose_walk(std::uint32_t width, launch_shape& shape, std::span<const launch_operand> out) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 31; // what a divisor divides
        if (shape.groups == 0 || shape.groups >= most - warp_lanes) return;
        const auto w = static_cast<std::int64_t>(width);
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
    void choose_row_walk(std::uint32_t width, launch_shape& shape,
                         std::span<const launch_operand> out) const {
        if (inner_count_ > 1 || shape.row_length % static_cast<std::int64_t>(width) != 0) return;
        for (std::size_t i = 0; i < operands_.size(); ++i)
            if (operands_[i].used && !operands_[i].per_row && out[i].how == access::scalar) return;
        shape.walk = walking::repeating;
    }
    /// The furthest element of an operand, in elements from its first.
    std::uint64_t last_place(std::size_t i) const noexcept {
        std::uint64_t last = 0;
        for (std::size_t k = 0; k < inner_count_; ++k)
            last += static_cast<std::uint64_t>((inner_[k].extent - 1) * inner_[k].step[i]);
        return last;
    }

    extents extents_;
    std::span<const layout_operand> operands_;
    std::size_t results_;
    bool by_row_;
    axes outer_{}, inner_{};
    std::size_t outer_count_ = 0, inner_count_ = 0;
};

} // namespace detail

/// Elements that a thread takes at a time: as many of the smallest element as 16 bytes hold.
constexpr std::uint32_t group_width(std::span<const storage> kinds) noexcept {
    for (const storage k : kinds)
        if (k == storage::f16 || k == storage::bf16) return 8;
    return 4;
}

/// Refuses rows so long that a position in them, or a label that names one, is no exact float: more than 2^24 elements.
inline void check_row_index(const launch_shape& shape) {
    if (shape.row_length > std::int64_t{1} << 24)
        throw argument_error("fused, extents",
                             "a row has " + std::to_string(shape.row_length) +
                                 " elements; labels are exact up to 2^24",
                             "give shorter rows to an op that compares labels");
}

/// Refuses long rows of which there are few, before a device is given them: a warp takes a row, and a card that runs
/// thousands of warps would have work for some of them only, at a hundredth of its bandwidth. On the host all rows run.
inline void check_row_count(const launch_shape& shape) {
    constexpr std::int64_t long_row = std::int64_t{1} << 18;
    constexpr std::uint64_t few = 1024;
    if (shape.row_length <= long_row || shape.rows >= few) return;
    throw argument_error(
        "fused, extents",
        std::to_string(shape.rows) + " rows of " + std::to_string(shape.row_length) +
            " elements would keep only " + std::to_string(shape.rows) + " warps of the card busy",
        "reduce parts of each row, as rows of their own, and their results in a second call");
}

/// Fills what a kernel with these results and operands, in this order, is launched with; false if there is nothing to do.
/// Throws `argument_error`: a negative extent or stride, more than 2^40 elements, more than 4 axes after merging, a null or
/// misaligned pointer, a result whose elements share places, a result that overlaps an operand other than in place (the
/// same elements at the same addresses) or another result. Ranges are compared, not elements: interleaved operands and
/// results count as overlapping. O(operands² · axes).
inline bool lay_out(const extents& e, std::span<const layout_operand> operands, std::size_t results,
                    bool by_row, std::uint32_t width, launch_shape& shape, std::span<launch_operand> out) {
    return detail::layout(e, operands, results, by_row).fill(width, shape, out);
}

} // namespace echo::cuda::fused
