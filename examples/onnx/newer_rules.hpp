// SPDX-License-Identifier: BSL-1.0
/// @file
/// Shapes of ops that ONNX added or changed in opset 18 and later, of which the installed library may not know.
/// Compiled into model.cpp alone.
#pragma once

#include "onnx/rule_helpers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// The newest version of ONNX's ops whose changes are known; tests/onnx/node_tests.py checks them.
inline constexpr std::int64_t newest_rules = 28;

// Types

inline void rule_cast(onnx::InferenceContext& c) {
    give_like(c, 0, 0);
    c.getOutputType(0)->mutable_tensor_type()->set_elem_type(static_cast<std::int32_t>(number(c, "to", 0)));
}
inline void rule_cast_like(onnx::InferenceContext& c) {
    give_like(c, 0, 0);
    if (const auto* like = tensor_type(c, 1))
        c.getOutputType(0)->mutable_tensor_type()->set_elem_type(like->tensor_type().elem_type());
}
/// Of the type that an attribute names, else that of the zero point, else unsigned bytes.
inline void rule_quantize(onnx::InferenceContext& c) {
    give_like(c, 0, 0);
    const auto* zero = tensor_type(c, 2);
    const auto otherwise = zero == nullptr ? onnx::TensorProto::UINT8 : zero->tensor_type().elem_type();
    const auto stated = static_cast<std::int32_t>(number(c, "output_dtype", 0));
    c.getOutputType(0)->mutable_tensor_type()->set_elem_type(stated != 0 ? stated : otherwise);
}
/// Of the type that an attribute names, else that of the scale.
inline void rule_dequantize(onnx::InferenceContext& c) {
    give_like(c, 0, 0);
    const auto* scale = tensor_type(c, 1);
    const auto stated = static_cast<std::int32_t>(number(c, "output_dtype", 0));
    c.getOutputType(0)->mutable_tensor_type()->set_elem_type(stated != 0 ? stated
                                                             : scale == nullptr
                                                                 ? 0
                                                                 : scale->tensor_type().elem_type());
}
inline void rule_bool_scalar(onnx::InferenceContext& c) {
    c.getOutputType(0)->mutable_tensor_type()->set_elem_type(onnx::TensorProto::BOOL);
    give(c, 0, {});
}

// Windows

/// How windows slide along each spatial axis.
struct windows {
    std::vector<std::int64_t> kernel{}, strides{}, dilations{}, pads{};
    std::string automatic{}; ///< `SAME_UPPER`, `SAME_LOWER` or `VALID`; else the pads are stated
    bool up = false;         ///< a last window may lie beyond the end in part
};

inline std::optional<windows> windows_of(onnx::InferenceContext& c, std::size_t axes,
                                         std::vector<std::int64_t> kernel) {
    windows w{.kernel = std::move(kernel)};
    w.strides = list(c, "strides").value_or(std::vector<std::int64_t>(axes, 1));
    w.dilations = list(c, "dilations").value_or(std::vector<std::int64_t>(axes, 1));
    w.pads = list(c, "pads").value_or(std::vector<std::int64_t>(2 * axes, 0));
    w.automatic = onnx::getAttribute(c, "auto_pad", std::string("NOTSET"));
    w.up = flag(c, "ceil_mode", false);
    if (w.kernel.size() != axes || w.strides.size() != axes || w.dilations.size() != axes ||
        w.pads.size() != 2 * axes)
        return std::nullopt;
    return w;
}

/// How many windows there are along an axis; nothing where none fits.
inline std::optional<std::int64_t> window_count(const windows& w, std::size_t axis, std::int64_t extent) {
    const std::int64_t stride = w.strides[axis], reach = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
    if (stride < 1 || w.kernel[axis] < 1 || w.dilations[axis] < 1 || extent < 0) return std::nullopt;
    if (w.automatic.starts_with("SAME")) return (extent + stride - 1) / stride;
    const bool stated = w.automatic != "VALID";
    const std::int64_t before = stated ? w.pads[axis] : 0;
    const std::int64_t room = extent + before + (stated ? w.pads[axis + w.pads.size() / 2] : 0) - reach;
    if (room < 0) return std::nullopt;
    std::int64_t count = room / stride + 1;
    // The last one does not begin in the padding behind the end.
    if (w.up && room % stride != 0 && count * stride < extent + before) ++count;
    return count;
}

inline void give_windows(onnx::InferenceContext& c, std::size_t k, const windows& w, held_extents made) {
    for (std::size_t axis = 0; axis < w.kernel.size(); ++axis) {
        const auto count = window_count(w, axis, made[axis + 2]);
        if (!count) return;
        made[axis + 2] = *count;
    }
    give(c, k, made);
}

inline void rule_pool(onnx::InferenceContext& c) {
    auto& made = typed_like_first(c);
    if (c.getNumOutputs() > 1)
        c.getOutputType(1)->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
    const auto shape = extents(c, 0);
    const auto kernel = list(c, "kernel_shape");
    if (!shape || shape->size() < 2 || !kernel) return;
    const auto w = windows_of(c, shape->size() - 2, *kernel);
    for (std::size_t k = 0; w && k < c.getNumOutputs(); ++k) give_windows(c, k, *w, *shape);
    static_cast<void>(made);
}

inline void rule_deform_conv(onnx::InferenceContext& c) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    const auto weights = extents(c, 1);
    if (!shape || !weights || shape->size() < 3 || weights->size() != shape->size()) return;
    const auto w = windows_of(c, shape->size() - 2, {weights->begin() + 2, weights->end()});
    (*shape)[1] = weights->front();
    if (w) give_windows(c, 0, *w, *shape);
}

inline void rule_col2im(onnx::InferenceContext& c) {
    typed_like_first(c);
    const auto shape = extents(c, 0);
    const auto image = held_integers(c, 1), block = held_integers(c, 2);
    if (!shape || shape->size() != 3 || !image || !block) return;
    std::int64_t size = 1;
    for (const auto extent : *block) size *= std::clamp<std::int64_t>(extent, 1, 1 << 15);
    held_extents made{(*shape)[0], (*shape)[1] / std::max<std::int64_t>(size, 1)};
    made.insert(made.end(), image->begin(), image->end());
    give(c, 0, made);
}

// Images and grids

inline void rule_grid_sample(onnx::InferenceContext& c) {
    typed_like_first(c);
    const auto shape = extents(c, 0), grid = extents(c, 1);
    if (!shape || !grid || shape->size() < 3 || grid->size() != shape->size()) return;
    held_extents made{(*shape)[0], (*shape)[1]};
    made.insert(made.end(), grid->begin() + 1, grid->end() - 1);
    give(c, 0, made);
}

inline void rule_affine_grid(onnx::InferenceContext& c) {
    typed_like_first(c);
    const auto size = held_integers(c, 1);
    if (!size || size->size() < 4) return;
    held_extents made{size->front()};
    made.insert(made.end(), size->begin() + 2, size->end());
    made.push_back(static_cast<std::int64_t>(size->size()) - 2);
    give(c, 0, made);
}

/// Which axes a list names that may be left out; nothing: it is not known, or names one that is not there.
inline std::optional<std::vector<std::size_t>>
named_axes(const std::optional<std::vector<std::int64_t>>& stated, std::size_t rank) {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < rank && !stated; ++i) made.push_back(i);
    const auto size = static_cast<std::int64_t>(rank);
    for (const auto axis : stated.value_or(std::vector<std::int64_t>{})) {
        if (axis < -size || axis >= size) return std::nullopt;
        made.push_back(static_cast<std::size_t>(axis < 0 ? axis + size : axis));
    }
    return made;
}

inline void rule_center_crop_pad(onnx::InferenceContext& c) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    const auto to = held_integers(c, 1);
    const auto axes = named_axes(list(c, "axes"), shape ? shape->size() : 0);
    if (!shape || !to || !axes || axes->size() != to->size()) return;
    for (std::size_t i = 0; i < axes->size(); ++i) (*shape)[(*axes)[i]] = (*to)[i];
    give(c, 0, *shape);
}

inline void rule_pad(onnx::InferenceContext& c) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    const auto pads = held_integers(c, 1);
    if (!shape || !pads) return;
    std::optional<std::vector<std::int64_t>> stated;
    if (is_given(c, 3)) {
        stated = held_integers(c, 3);
        if (!stated) return;
    }
    const auto axes = named_axes(stated, shape->size());
    if (!axes || pads->size() != 2 * axes->size()) return;
    for (std::size_t i = 0; i < axes->size(); ++i)
        (*shape)[(*axes)[i]] += (*pads)[i] + (*pads)[i + axes->size()];
    give(c, 0, *shape);
}

/// By sizes, or by scales, of all axes or of those that an attribute names.
inline void rule_resize(onnx::InferenceContext& c) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    if (!shape) return;
    const auto axes = named_axes(list(c, "axes"), shape->size());
    const std::string policy = onnx::getAttribute(c, "keep_aspect_ratio_policy", std::string("stretch"));
    if (!axes) return;
    const auto numbers = [&](std::size_t k) -> std::optional<std::vector<double>> {
        const auto* data = is_given(c, k) ? c.getInputData(k) : nullptr;
        const auto found = data == nullptr ? std::nullopt : held(*data);
        if (!found || !found->is_known() || found->numbers.size() != axes->size()) return std::nullopt;
        std::vector<double> made;
        for (const auto& n : found->numbers)
            made.push_back(holds_reals(found->element) ? n.f : static_cast<double>(n.i));
        return made;
    };
    auto factors = numbers(2);
    const auto sizes = numbers(3);
    if (!factors && !sizes) return;
    if (sizes && policy != "stretch") { // one factor for all axes
        double factor = -1;
        for (std::size_t i = 0; i < axes->size(); ++i) {
            if ((*shape)[(*axes)[i]] < 1) return;
            const double one = (*sizes)[i] / static_cast<double>((*shape)[(*axes)[i]]);
            factor = factor < 0               ? one
                     : policy == "not_larger" ? std::min(factor, one)
                                              : std::max(factor, one);
        }
        for (const auto axis : *axes)
            (*shape)[axis] =
                static_cast<std::int64_t>(std::floor(factor * static_cast<double>((*shape)[axis]) + 0.5));
        return give(c, 0, *shape);
    }
    for (std::size_t i = 0; i < axes->size(); ++i) {
        auto& extent = (*shape)[(*axes)[i]];
        // In single precision, as runtimes compute it.
        const double made =
            sizes ? (*sizes)[i] : std::floor(static_cast<float>(extent) * static_cast<float>((*factors)[i]));
        if (!(made >= 0 && made < 9e18)) return;
        extent = static_cast<std::int64_t>(made);
    }
    give(c, 0, *shape);
}

/// Complex numbers are pairs along the last axis. `axis` is not known if it is none.
inline void dft(onnx::InferenceContext& c, std::optional<std::int64_t> axis) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    if (!shape || shape->size() < 2) return;
    const bool inverse = flag(c, "inverse", false), half = flag(c, "onesided", false);
    shape->back() = half && inverse ? 1 : 2;
    if (!is_given(c, 1) && !half) return give(c, 0, *shape);
    const auto named = axis ? named_axes(std::vector{*axis}, shape->size()) : std::nullopt;
    if (!named) return;
    auto& extent = (*shape)[named->front()];
    if (is_given(c, 1)) {
        const auto length = held_integers(c, 1);
        if (!length || length->size() != 1) return;
        extent = length->front();
    } else if (inverse && half) {
        extent = 2 * (extent - 1);
    }
    if (half && !inverse) extent = extent / 2 + 1;
    give(c, 0, *shape);
}
inline void rule_dft_17(onnx::InferenceContext& c) { dft(c, number(c, "axis", 1)); }
inline void rule_dft(onnx::InferenceContext& c) {
    const auto stated = is_given(c, 2) ? held_integers(c, 2) : std::optional(std::vector<std::int64_t>{-2});
    dft(c, stated && stated->size() == 1 ? std::optional(stated->front()) : std::nullopt);
}

// Attention

/// Batch, heads, length and size of a head, of a tensor with an axis for each, or with heads and their sizes in one.
inline std::optional<held_extents> heads_of(const std::optional<held_extents>& shape, std::int64_t heads) {
    if (!shape) return std::nullopt;
    if (shape->size() == 4) return shape;
    if (shape->size() != 3 || heads < 1) return std::nullopt;
    return held_extents{(*shape)[0], heads, (*shape)[1], (*shape)[2] / heads};
}

inline void rule_attention(onnx::InferenceContext& c) {
    for (std::size_t k = 0; k < c.getNumOutputs(); ++k)
        if (const auto* like = tensor_type(c, k == 1 ? 1 : k == 2 ? 2 : 0))
            c.getOutputType(k)->mutable_tensor_type()->set_elem_type(like->tensor_type().elem_type());
    const auto queries = extents(c, 0);
    const std::int64_t stated = number(c, "kv_num_heads", 0);
    const auto q = heads_of(queries, number(c, "q_num_heads", 0)), k = heads_of(extents(c, 1), stated),
               v = heads_of(extents(c, 2), stated);
    if (!q || !k || !v) return;
    std::int64_t length = (*k)[2];
    if (is_given(c, 4)) {
        const auto past = extents(c, 4);
        if (!past || past->size() != 4) return;
        length += (*past)[2];
    }
    give(c, 0,
         queries->size() == 4 ? held_extents{(*q)[0], (*q)[1], (*q)[2], (*v)[3]}
                              : held_extents{(*q)[0], (*q)[2], (*q)[1] * (*v)[3]});
    give(c, 1, {(*k)[0], (*k)[1], length, (*k)[3]}, 1);
    give(c, 2, {(*v)[0], (*v)[1], length, (*v)[3]}, 2);
    give(c, 3, {(*q)[0], (*q)[1], (*q)[2], length});
}

inline void rule_linear_attention(onnx::InferenceContext& c) {
    const std::int64_t heads = number(c, "q_num_heads", 0), stored = number(c, "kv_num_heads", 0);
    const auto q = extents(c, 0);
    const auto k = heads_of(extents(c, 1), stored), v = heads_of(extents(c, 2), stored);
    for (std::size_t i = 0; i < c.getNumOutputs(); ++i)
        onnx::propagateElemTypeFromInputToOutput(c, i == 1 && is_given(c, 3) ? 3 : 0, i);
    if (!q || q->size() != 3 || !k || !v) return;
    give(c, 0, {(*q)[0], (*q)[1], heads * (*v)[3]});
    give(c, 1, {(*k)[0], stored, (*k)[3], (*v)[3]});
}

inline void rule_causal_conv(onnx::InferenceContext& c) {
    give_like(c, 0, 0);
    const auto shape = extents(c, 0), weights = extents(c, 1);
    if (c.getNumOutputs() > 1) onnx::propagateElemTypeFromInputToOutput(c, 0, 1);
    if (shape && weights && shape->size() == 3 && weights->size() == 3)
        give(c, 1, {(*shape)[0], (*shape)[1], (*weights)[2] - 1});
}

inline void rule_tree_ensemble(onnx::InferenceContext& c) {
    typed_like_first(c);
    if (const auto shape = extents(c, 0); shape && !shape->empty())
        give(c, 0, {shape->front(), number(c, "n_targets", 1)});
}

inline void rule_array_feature_extractor(onnx::InferenceContext& c) {
    typed_like_first(c);
    auto shape = extents(c, 0);
    const auto indices = extents(c, 1);
    if (!shape || shape->empty() || !indices) return;
    shape->back() = 1;
    for (const auto extent : *indices) shape->back() *= extent;
    if (shape->size() == 1) shape->insert(shape->begin(), 1);
    give(c, 0, *shape);
}

/// By the letters of the equation, with `...` for further axes in front.
inline void rule_einsum(onnx::InferenceContext& c) {
    typed_like_first(c);
    std::string equation = onnx::getAttribute(c, "equation", std::string());
    std::erase(equation, ' ');
    const auto arrow = equation.find("->");
    std::map<char, std::int64_t> extent_of;
    held_extents rest; // what `...` stands for
    std::map<char, int> times;
    std::size_t at = 0;
    for (std::size_t operand = 0; operand < c.getNumInputs(); ++operand, ++at) {
        const auto shape = extents(c, operand);
        const auto end = std::min(equation.find(',', at), std::min(arrow, equation.size()));
        if (!shape || at > end) return;
        const std::string term = equation.substr(at, end - at);
        const auto dots = term.find("...");
        const std::size_t letters = term.size() - (dots == term.npos ? 0 : 3);
        if (letters > shape->size() || (dots == term.npos && letters != shape->size())) return;
        const std::size_t further = shape->size() - letters;
        std::size_t axis = 0;
        for (std::size_t k = 0; k < term.size(); ++k) {
            if (k == dots) {
                held_extents mine(shape->begin() + static_cast<std::ptrdiff_t>(axis),
                                  shape->begin() + static_cast<std::ptrdiff_t>(axis + further));
                if (mine.size() > rest.size()) rest.insert(rest.begin(), mine.size() - rest.size(), 1);
                for (std::size_t i = 0; i < mine.size(); ++i)
                    if (mine[i] != 1) rest[rest.size() - mine.size() + i] = mine[i];
                axis += further, k += 2;
                continue;
            }
            auto& extent = extent_of.try_emplace(term[k], 1).first->second;
            if ((*shape)[axis] != 1) extent = (*shape)[axis];
            ++times[term[k]], ++axis;
        }
        at = end;
    }
    held_extents made;
    const auto add = [&](char letter) { made.push_back(extent_of.contains(letter) ? extent_of[letter] : 1); };
    if (arrow == equation.npos) { // all letters that stand once, in alphabetical order
        made = rest;
        for (const auto& [letter, count] : times)
            if (count == 1) add(letter);
    } else {
        for (std::size_t k = arrow + 2; k < equation.size(); ++k)
            if (equation[k] == '.')
                made.insert(made.end(), rest.begin(), rest.end()), k += 2;
            else
                add(equation[k]);
    }
    give(c, 0, made);
}

/// Of a tensor, which is what an optional value holds from opset 18 on.
inline void rule_optional_get(onnx::InferenceContext& c) {
    const auto* type = c.getNumInputs() == 1 ? c.getInputType(0) : nullptr;
    if (type != nullptr)
        *c.getOutputType(0) = type->has_optional_type() ? type->optional_type().elem_type() : *type;
}

} // namespace echo::format
