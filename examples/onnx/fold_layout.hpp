// SPDX-License-Identifier: BSL-1.0
/// @file
/// Held tensors through ops that move elements and change none. Compiled into model.cpp alone.
#pragma once

#include "onnx/fold_node.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace echo::format {

/// The same elements in another shape: Reshape, Squeeze, Unsqueeze, Flatten, Identity.
inline folded fold_reshaped(const fold_node& n) {
    if (n.input(0) == nullptr || n.extents.empty() || !n.has_extents[0]) return {};
    const auto count = held_count(n.extents[0]);
    if (!count || *count != n.input(0)->numbers.size()) return {};
    held_tensor made = *n.input(0);
    made.extents = n.extents[0];
    return fold_one(std::move(made));
}

inline folded fold_transpose(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr) return {};
    const std::size_t rank = a->extents.size();
    std::vector<std::int64_t> order;
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
    if (const auto stated = n.list("perm")) order = *stated;
    if (order.size() != rank) return {};
    std::vector<bool> seen(rank, false);
    held_extents made;
    for (const auto axis : order) {
        if (axis < 0 || axis >= static_cast<std::int64_t>(rank) || seen[static_cast<std::size_t>(axis)])
            return {};
        seen[static_cast<std::size_t>(axis)] = true;
        made.push_back(a->extents[static_cast<std::size_t>(axis)]);
    }
    return fold_one(rearranged(*a, made, [&](const held_extents& at) {
        held_extents from(rank);
        for (std::size_t i = 0; i < rank; ++i) from[static_cast<std::size_t>(order[i])] = at[i];
        return from;
    }));
}

/// To a shape of its own, which the op's rule knows: Expand repeats extents of 1, Tile everything.
inline folded fold_repeated(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr || n.extents.empty() || !n.has_extents[0] || n.extents[0].size() < a->extents.size())
        return {};
    const std::size_t skipped = n.extents[0].size() - a->extents.size();
    for (std::size_t i = 0; i < a->extents.size(); ++i)
        if (a->extents[i] == 0 && n.extents[0][skipped + i] != 0) return {};
    return fold_one(rearranged(*a, n.extents[0], [&](const held_extents& at) {
        held_extents from(a->extents.size());
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = at[skipped + i] % a->extents[i];
        return from;
    }));
}

inline folded fold_concat(const fold_node& n) {
    const auto* first = n.input(0);
    if (first == nullptr) return {};
    const auto axis =
        axis_of(n.number("axis", n.opset < 4 ? 1 : std::numeric_limits<int>::max()), first->extents.size());
    if (!axis) return {};
    held_tensor made{.element = first->element, .extents = first->extents};
    made.extents[*axis] = 0;
    for (const auto* part : n.inputs) {
        if (part == nullptr || part->element != made.element || part->extents.size() != made.extents.size())
            return {};
        for (std::size_t i = 0; i < made.extents.size(); ++i)
            if (i != *axis && part->extents[i] != made.extents[i]) return {};
        made.extents[*axis] += part->extents[*axis];
    }
    if (!held_count(made.extents)) return {};
    each_index(made.extents, [&](const held_extents& at) {
        held_extents from = at;
        std::size_t k = 0;
        while (from[*axis] >= n.inputs[k]->extents[*axis]) from[*axis] -= n.inputs[k++]->extents[*axis];
        made.numbers.push_back(element_at(*n.inputs[k], from));
    });
    return fold_one(std::move(made));
}

/// By the extents of the outputs, which the op's rule knows.
inline folded fold_split(const fold_node& n) {
    const auto* a = n.input(0);
    const auto axis = a == nullptr ? std::nullopt : axis_of(n.number("axis", 0), a->extents.size());
    if (!axis) return {};
    folded all;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < n.extents.size(); ++k) {
        if (!n.has_extents[k] || n.extents[k].size() != a->extents.size()) return {};
        for (std::size_t i = 0; i < a->extents.size(); ++i)
            if (i != *axis && n.extents[k][i] != a->extents[i]) return {};
        const std::int64_t end = begin + n.extents[k][*axis];
        if (end < begin || end > a->extents[*axis]) return {};
        all.push_back(rearranged(*a, n.extents[k], [&](const held_extents& at) {
            held_extents from = at;
            from[*axis] += begin;
            return from;
        }));
        begin = end;
    }
    return all;
}

/// Where a slice begins along one axis, by which step it goes on, and how many elements it takes.
struct slice_range {
    std::int64_t first = 0, step = 1, count = 0;
};

/// As ONNX clamps them. Nothing where it is not clear what is meant: a step of 0, or one back from before the first
/// element.
inline std::optional<slice_range> range_of(std::int64_t extent, std::int64_t start, std::int64_t end,
                                           std::int64_t step) {
    if (step == 0 || (step < 0 && start < -extent)) return std::nullopt;
    step =
        std::clamp<std::int64_t>(step, -most_held - 1, most_held + 1); // a longer one takes one element, too
    const auto clamped = [&](std::int64_t at) {
        if (at < 0) at = at < -extent ? -1 : at + extent;
        return step > 0 ? std::clamp<std::int64_t>(at, 0, extent)
                        : std::clamp<std::int64_t>(at, -1, extent - 1);
    };
    const std::int64_t first = clamped(start), length = (clamped(end) - first) * (step > 0 ? 1 : -1);
    const std::int64_t stride = step > 0 ? step : -step;
    return slice_range{first, step, length <= 0 ? 0 : (length + stride - 1) / stride};
}

inline folded fold_slice(const fold_node& n) {
    const auto* a = n.input(0);
    const auto starts = n.input_or_list(1, "starts"), ends = n.input_or_list(2, "ends");
    if (a == nullptr || !starts || !*starts || !ends || !*ends || (*starts)->size() != (*ends)->size())
        return {};
    const std::size_t size = (*starts)->size(), rank = a->extents.size();
    std::vector<std::int64_t> axes(size), steps(size, 1);
    for (std::size_t i = 0; i < size; ++i) axes[i] = static_cast<std::int64_t>(i);
    for (auto [found, to] :
         {std::pair(n.input_or_list(3, "axes"), &axes), std::pair(n.input_or_list(4, "steps"), &steps)}) {
        if (!found) continue;
        if (!*found || (*found)->size() != size) return {};
        *to = **found;
    }
    std::vector<slice_range> ranges(rank);
    held_extents made = a->extents;
    for (std::size_t i = 0; i < rank; ++i) ranges[i].count = made[i];
    for (std::size_t i = 0; i < size; ++i) {
        const auto axis = axis_of(axes[i], rank);
        const auto range =
            axis ? range_of(a->extents[*axis], (**starts)[i], (**ends)[i], steps[i]) : std::nullopt;
        if (!range) return {};
        ranges[*axis] = *range;
        made[*axis] = ranges[*axis].count;
    }
    return fold_one(rearranged(*a, made, [&](const held_extents& at) {
        held_extents from(rank);
        for (std::size_t i = 0; i < rank; ++i) from[i] = ranges[i].first + at[i] * ranges[i].step;
        return from;
    }));
}

/// Whole slices along one axis, by a tensor of indices of any rank.
inline folded fold_gather(const fold_node& n) {
    const auto *a = n.input(0), *indices = n.input(1);
    if (a == nullptr || indices == nullptr || !indices->integers()) return {};
    const auto axis = axis_of(n.number("axis", 0), a->extents.size());
    if (!axis) return {};
    const std::size_t inner = indices->extents.size();
    for (const auto& number : indices->numbers)
        if (number.i < -a->extents[*axis] || number.i >= a->extents[*axis]) return {};
    held_extents made(a->extents.begin(), a->extents.begin() + static_cast<std::ptrdiff_t>(*axis));
    made.insert(made.end(), indices->extents.begin(), indices->extents.end());
    made.insert(made.end(), a->extents.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, a->extents.end());
    return fold_one(rearranged(*a, made, [&](const held_extents& at) {
        const auto begin = at.begin() + static_cast<std::ptrdiff_t>(*axis);
        const auto end = begin + static_cast<std::ptrdiff_t>(inner);
        const auto index = element_at(*indices, held_extents(begin, end)).i;
        held_extents from(at.begin(), begin);
        from.push_back(index < 0 ? index + a->extents[*axis] : index);
        from.insert(from.end(), end, at.end());
        return from;
    }));
}

/// Single elements along one axis, by as many indices as there are results.
inline folded fold_gather_elements(const fold_node& n) {
    const auto *a = n.input(0), *indices = n.input(1);
    if (a == nullptr || indices == nullptr || !indices->integers() ||
        indices->extents.size() != a->extents.size())
        return {};
    const auto axis = axis_of(n.number("axis", 0), a->extents.size());
    if (!axis) return {};
    for (std::size_t i = 0; i < a->extents.size(); ++i)
        if (i != *axis && indices->extents[i] > a->extents[i]) return {};
    for (const auto& number : indices->numbers)
        if (number.i < -a->extents[*axis] || number.i >= a->extents[*axis]) return {};
    return fold_one(rearranged(*a, indices->extents, [&](const held_extents& at) {
        held_extents from = at;
        const auto index = element_at(*indices, at).i;
        from[*axis] = index < 0 ? index + a->extents[*axis] : index;
        return from;
    }));
}

/// Writes updates over slices of a copy, at indices of several axes; without a reduction.
inline folded fold_scatter_nd(const fold_node& n) {
    const auto *a = n.input(0), *indices = n.input(1), *updates = n.input(2);
    if (a == nullptr || indices == nullptr || updates == nullptr || !indices->integers() ||
        indices->extents.empty() || a->element != updates->element)
        return {};
    const auto* reduction = attribute(n.proto, "reduction");
    if (reduction != nullptr && reduction->s() != "none") return {};
    const auto depth = static_cast<std::size_t>(indices->extents.back());
    const std::size_t outer = indices->extents.size() - 1;
    if (depth > a->extents.size()) return {};
    held_extents expected(indices->extents.begin(), indices->extents.end() - 1);
    expected.insert(expected.end(), a->extents.begin() + static_cast<std::ptrdiff_t>(depth),
                    a->extents.end());
    if (updates->extents != expected) return {};
    held_tensor made = *a;
    bool fits = true;
    each_index(expected, [&](const held_extents& at) {
        std::size_t offset = 0;
        for (std::size_t i = 0; i < a->extents.size() && fits; ++i) {
            held_extents which(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(outer));
            which.push_back(static_cast<std::int64_t>(i));
            std::int64_t index = i < depth ? element_at(*indices, which).i : at[outer + i - depth];
            if (index < 0) index += a->extents[i];
            fits = index >= 0 && index < a->extents[i];
            offset = offset * static_cast<std::size_t>(a->extents[i]) + static_cast<std::size_t>(index);
        }
        if (fits) made.numbers[offset] = element_at(*updates, at);
    });
    return fits ? fold_one(std::move(made)) : folded{};
}

} // namespace echo::format
