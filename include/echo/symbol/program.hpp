// SPDX-License-Identifier: BSL-1.0
/// @file
/// An expression as a list of steps in which each distinct subexpression stands once. Types collapse here
/// into plain data: shapes, FLOPs and one-bit reads are ordinary code over it.
#pragma once

#include <echo/symbol/dependencies.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

namespace echo::symbol {

/// One step: an operation on the results of earlier steps. A leaf keeps its index in `operands[0]`.
struct step {
    operation op = operation::literal;       ///< What is done.
    std::array<std::uint16_t, 3> operands{}; ///< Numbers of earlier steps.
    std::uint8_t arity = 0;                  ///< How many operands count.
    parameters parameter{};                  ///< How it is done.
    /// Equal where all members are.
    friend constexpr bool operator==(const step& a, const step& b) noexcept {
        return a.op == b.op && a.operands == b.operands && a.arity == b.arity && a.parameter == b.parameter;
    }
};

/// A program of any length. `results` are step numbers, `none` where a gradient does not exist.
struct program_view {
    static constexpr std::uint16_t none = 0xffff; ///< The number of no step.
    std::span<const step> steps;                  ///< In an order in which each step reads earlier ones only.
    std::span<const std::uint16_t> results;       ///< Numbers of the steps that are asked for.
};

/// At most `Capacity` steps with `Results` results.
template <std::size_t Capacity, std::size_t Results>
struct program {
    std::array<step, Capacity> steps{};           ///< The first `size` of them count.
    std::size_t size = 0;                         ///< How many steps there are.
    std::array<std::uint16_t, Results> results{}; ///< Numbers of the steps that are asked for.

    /// Refers to this program, which must outlive the view.
    constexpr program_view view() const noexcept { return {{steps.data(), size}, results}; }

    /// The number of an equal step, or of this one, appended.
    constexpr std::uint16_t number(const step& s) noexcept {
        for (std::size_t i = 0; i < size; ++i)
            if (steps[i] == s) return static_cast<std::uint16_t>(i);
        steps[size] = s;
        return static_cast<std::uint16_t>(size++);
    }
    /// The step of a leaf.
    template <operation R, std::size_t I>
    constexpr std::uint16_t append(leaf<R, I>) noexcept {
        return number({R, {static_cast<std::uint16_t>(I)}, 0, {}});
    }
    /// The step of a constant.
    constexpr std::uint16_t append(literal l) noexcept {
        return number({operation::literal, {}, 0, {.number = l.value}});
    }
    /// No step.
    constexpr std::uint16_t append(no_gradient) noexcept { return program_view::none; }
    /// The step of an operation, with all that it needs before. O(steps²).
    template <operation O, class P, class... E>
    constexpr std::uint16_t append(const expression<O, P, E...>& e) noexcept {
        step s{O, {}, sizeof...(E), e.parameter};
        e.operands.visit([&](const E&... operand) {
            std::size_t position = 0;
            ((s.operands[position++] = append(operand)), ...);
            return 0;
        });
        return number(s);
    }
};

namespace detail {

template <class E>
inline constexpr std::size_t tree_size = 1;
template <operation O, class P, class... E>
inline constexpr std::size_t tree_size<expression<O, P, E...>> = (1 + ... + tree_size<E>);
template <class... E>
inline constexpr std::size_t tree_size<std::tuple<E...>> = (0 + ... + tree_size<E>);

} // namespace detail

/// Flattens expressions, several sharing what they have in common. O(size²), at compile time.
template <class... E>
constexpr auto flatten(const std::tuple<E...>& expressions) noexcept {
    program<detail::tree_size<std::tuple<E...>>, sizeof...(E)> p;
    std::apply(
        [&p](const E&... e) {
            std::size_t k = 0;
            ((p.results[k++] = p.append(e)), ...);
        },
        expressions);
    return p;
}
/// The program of an expression: equal parts become one step. At compile time.
template <symbolic E>
constexpr auto flatten(const E& expression) noexcept {
    return flatten(std::tuple<E>(expression));
}

/// Whether the only use of that leaf's data is one comparison `leaf > 0`, so that one bit per element, the
/// one that an encoded value keeps, is enough. Conservative: other constants, other comparisons and
/// complementary pairs of them are not recognised.
constexpr bool needs_one_bit(const program_view& p, operation role, std::size_t index) noexcept {
    bool compared = false;
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
        const step& s = p.steps[i];
        if (is_leaf(s.op)) {
            if (s.op == role && s.operands[0] == index)
                for (const auto result : p.results)
                    if (result == i) return false;
            continue;
        }
        if (s.op == operation::shape_of) continue;
        for (std::size_t k = 0; k < s.arity; ++k) {
            const step& read = p.steps[s.operands[k]];
            if (read.op != role || read.operands[0] != index) continue;
            const bool sign = s.op == operation::greater && k == 0 &&
                              p.steps[s.operands[1]].op == operation::literal &&
                              p.steps[s.operands[1]].parameter.number == 0;
            if (!sign) return false;
            compared = true;
        }
    }
    return compared;
}

} // namespace echo::symbol
