// SPDX-License-Identifier: BSL-1.0
/// @file
/// Held tensors through element-wise ops: arithmetic, comparisons, casts. Where a result depends on who computes it
/// (overflow, the rounding of a negative quotient), it is not known. Compiled into model.cpp alone.
#pragma once

#include "onnx/fold_node.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace echo::format {

namespace detail {

/// An integer in a type; not known if it does not fit.
inline held_number fitted(std::int64_t value, std::int32_t element) {
    if (element == onnx::TensorProto::BOOL) return held_number::of(value != 0);
    if (element == onnx::TensorProto::INT32 && value != static_cast<std::int32_t>(value)) return {};
    return held_number::of(value);
}

/// Rounded to the type; not known if it is not finite.
inline held_number rounded(double value, std::int32_t element) {
    const double fits =
        element == onnx::TensorProto::FLOAT ? static_cast<double>(static_cast<float>(value)) : value;
    return std::isfinite(fits) ? held_number::of_real(fits) : held_number{};
}

inline held_number cast(const held_number& n, std::int32_t from, std::int32_t to) {
    if (!n.known) return {};
    if (!holds_reals(from)) return holds_reals(to) ? rounded(static_cast<double>(n.i), to) : fitted(n.i, to);
    if (holds_reals(to)) return rounded(n.f, to);
    if (to == onnx::TensorProto::BOOL) return held_number::of(n.f != 0);
    constexpr double limit = 9e18; // below 2⁶³
    if (!(std::abs(n.f) < limit)) return {};
    return fitted(static_cast<std::int64_t>(n.f), to);
}

inline held_number add(std::int64_t a, std::int64_t b) {
    std::int64_t made = 0;
    return __builtin_add_overflow(a, b, &made) ? held_number{} : held_number::of(made);
}
inline held_number subtract(std::int64_t a, std::int64_t b) {
    std::int64_t made = 0;
    return __builtin_sub_overflow(a, b, &made) ? held_number{} : held_number::of(made);
}
inline held_number multiply(std::int64_t a, std::int64_t b) {
    std::int64_t made = 0;
    return __builtin_mul_overflow(a, b, &made) ? held_number{} : held_number::of(made);
}
/// Whether a negative quotient is rounded to zero or down is not the same everywhere.
inline held_number divide(std::int64_t a, std::int64_t b) {
    if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return {};
    if (a % b != 0 && (a < 0) != (b < 0)) return {};
    return held_number::of(a / b);
}
inline held_number modulo(std::int64_t a, std::int64_t b, bool like_c) {
    if (b == 0 || b == -1) return b == 0 ? held_number{} : held_number::of(0);
    const std::int64_t rest = a % b;
    return held_number::of(!like_c && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}
inline held_number power(std::int64_t a, std::int64_t b) {
    if (b < 0 || b > 64) return {};
    held_number made = held_number::of(1);
    for (std::int64_t i = 0; i < b && made.known; ++i) made = multiply(made.i, a);
    return made;
}

/// What an op of two integers gives; nothing: it is none of those that are evaluated.
inline std::optional<held_number> of_integers(std::string_view op, std::int64_t a, std::int64_t b,
                                              bool like_c) {
    if (op == "Add") return add(a, b);
    if (op == "Sub") return subtract(a, b);
    if (op == "Mul") return multiply(a, b);
    if (op == "Div") return divide(a, b);
    if (op == "Mod") return modulo(a, b, like_c);
    if (op == "Pow") return power(a, b);
    if (op == "Min") return held_number::of(std::min(a, b));
    if (op == "Max") return held_number::of(std::max(a, b));
    if (op == "And") return held_number::of(a != 0 && b != 0);
    if (op == "Or") return held_number::of(a != 0 || b != 0);
    if (op == "Xor") return held_number::of((a != 0) != (b != 0));
    return std::nullopt;
}
inline std::optional<held_number> of_reals(std::string_view op, double a, double b, std::int32_t element) {
    if (op == "Add") return rounded(a + b, element);
    if (op == "Sub") return rounded(a - b, element);
    if (op == "Mul") return rounded(a * b, element);
    if (op == "Div") return rounded(a / b, element);
    if (op == "Min") return rounded(std::min(a, b), element);
    if (op == "Max") return rounded(std::max(a, b), element);
    return std::nullopt;
}
template <class T>
std::optional<held_number> of_comparison(std::string_view op, T a, T b) {
    if (op == "Equal") return held_number::of(a == b);
    if (op == "Less") return held_number::of(a < b);
    if (op == "LessOrEqual") return held_number::of(a <= b);
    if (op == "Greater") return held_number::of(a > b);
    if (op == "GreaterOrEqual") return held_number::of(a >= b);
    return std::nullopt;
}

inline held_number of_two(std::string_view op, std::int32_t element, const held_number& a,
                          const held_number& b, bool like_c) {
    if (!a.known || !b.known) return {};
    if (const auto said = holds_reals(element) ? of_comparison(op, a.f, b.f) : of_comparison(op, a.i, b.i))
        return *said;
    if (holds_reals(element)) return of_reals(op, a.f, b.f, element).value_or(held_number{});
    const auto made = of_integers(op, a.i, b.i, like_c).value_or(held_number{});
    return made.known ? fitted(made.i, element) : made;
}

inline held_number of_one(std::string_view op, std::int32_t element, const held_number& a) {
    if (!a.known) return {};
    const bool real = holds_reals(element);
    if (op == "Not") return held_number::of(a.i == 0);
    if (op == "Neg" && !real) {
        const held_number made = subtract(0, a.i);
        return made.known ? fitted(made.i, element) : made;
    }
    if (op == "Abs" && !real) return a.i < 0 ? of_one("Neg", element, a) : a;
    if (op == "Sign" && !real) return held_number::of((a.i > 0) - (a.i < 0));
    if (!real) return {};
    if (op == "Neg") return held_number::of_real(-a.f);
    if (op == "Abs") return held_number::of_real(std::abs(a.f));
    if (op == "Sign") return held_number::of_real((a.f > 0) - (a.f < 0));
    if (op == "Ceil") return held_number::of_real(std::ceil(a.f));
    if (op == "Floor") return held_number::of_real(std::floor(a.f));
    if (op == "Round") return held_number::of_real(std::nearbyint(a.f)); // ties to even
    if (op == "Sqrt") return rounded(std::sqrt(a.f), element);
    if (op == "Reciprocal") return rounded(1 / a.f, element);
    return {};
}

/// The extents of what several tensors give together; nothing: they do not fit.
inline std::optional<held_extents> broadcast(std::span<const held_tensor* const> all) {
    std::size_t rank = 0;
    for (const auto* h : all) rank = std::max(rank, h->extents.size());
    held_extents made(rank, 1);
    for (const auto* h : all)
        for (std::size_t i = 0; i < h->extents.size(); ++i) {
            auto& extent = made[rank - h->extents.size() + i];
            if (h->extents[i] == 1) continue;
            if (extent != 1 && extent != h->extents[i]) return std::nullopt;
            extent = h->extents[i];
        }
    return made;
}

/// `of(elements)` for each index of all of them together.
template <class F>
std::optional<held_tensor> combined(std::span<const held_tensor* const> all, std::int32_t element,
                                    const F& of) {
    for (const auto* h : all)
        if (h == nullptr) return std::nullopt;
    auto extents = broadcast(all);
    if (!extents || !held_count(*extents)) return std::nullopt;
    held_tensor made{.element = element, .extents = std::move(*extents)};
    std::vector<held_number> at(all.size());
    each_index(made.extents, [&](const held_extents& index) {
        for (std::size_t k = 0; k < all.size(); ++k) at[k] = element_at(*all[k], index);
        made.numbers.push_back(of(at));
    });
    return made;
}

} // namespace detail

inline folded fold_unary(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr) return {};
    held_tensor made = *a;
    for (auto& number : made.numbers) number = detail::of_one(n.proto.op_type(), a->element, number);
    return fold_one(std::move(made));
}

/// Of two inputs, or, as Min and Max, of several. Before opset 7 they were aligned by an attribute.
inline folded fold_binary(const fold_node& n) {
    const std::string_view op = n.proto.op_type();
    if (n.inputs.empty() || n.input(0) == nullptr || (n.opset < 7 && attribute(n.proto, "axis") != nullptr))
        return {};
    const std::int32_t element = n.input(0)->element;
    const bool like_c = n.number("fmod", 0) != 0;
    for (const auto* input : n.inputs)
        if (input == nullptr || input->element != element) return {};
    const bool compares = op == "Equal" || op.starts_with("Less") || op.starts_with("Greater");
    return fold_one(detail::combined(n.inputs, compares ? std::int32_t{onnx::TensorProto::BOOL} : element,
                                     [&](const std::vector<held_number>& at) {
                                         held_number made = at[0];
                                         for (std::size_t k = 1; k < at.size(); ++k)
                                             made = detail::of_two(op, element, made, at[k], like_c);
                                         return made;
                                     }));
}

inline folded fold_where(const fold_node& n) {
    const auto *yes = n.input(1), *no = n.input(2);
    if (n.inputs.size() != 3 || yes == nullptr || no == nullptr || yes->element != no->element) return {};
    return fold_one(detail::combined(n.inputs, yes->element, [](const std::vector<held_number>& at) {
        return at[0].known ? at[at[0].i != 0 ? 1 : 2] : held_number{};
    }));
}

/// To the type that an attribute names, or to that of another input.
inline folded fold_cast(const fold_node& n) {
    const auto* a = n.input(0);
    std::int64_t to = n.number("to", 0);
    if (n.proto.op_type() == "CastLike")
        to = n.read.size() > 1 && n.read[1] != nullptr ? n.read[1]->tensor_type().elem_type() : 0;
    if (a == nullptr || !can_hold(static_cast<std::int32_t>(to))) return {};
    held_tensor made = *a;
    made.element = static_cast<std::int32_t>(to);
    for (auto& number : made.numbers) number = detail::cast(number, a->element, made.element);
    return fold_one(std::move(made));
}

/// By two inputs that may be left out.
inline folded fold_clip(const fold_node& n) {
    const auto* a = n.input(0);
    if (a == nullptr || n.opset < 11) return {};
    std::optional<held_tensor> made = *a;
    for (const std::size_t k : {std::size_t{1}, std::size_t{2}}) {
        const std::string_view op = k == 1 ? "Max" : "Min";
        if (!n.given(k) || !made) continue;
        if (n.input(k) == nullptr || n.input(k)->element != a->element) return {};
        const held_tensor* const both[] = {&*made, n.input(k)};
        made = detail::combined(both, a->element, [&](const std::vector<held_number>& at) {
            return detail::of_two(op, a->element, at[0], at[1], false);
        });
    }
    return fold_one(std::move(made));
}

} // namespace echo::format
