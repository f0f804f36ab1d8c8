// SPDX-License-Identifier: BSL-1.0
/// @file
/// Symbolic values: the leaves that stand for an op's tensors, and the expression types that its lambdas
/// build from them. An expression's type says which operations were applied to which leaves; literals and
/// parameters are its data.
#pragma once

#include <echo/symbol/operation.hpp>

#include <cstddef>
#include <type_traits>

namespace echo::symbol {

/// What a leaf stands for: input i, output k, the gradient of output k, or a random op's uniform draw in
/// [0, 1), one per element.
template <operation Role, std::size_t Index>
    requires(is_leaf(Role) && Role != operation::literal)
struct leaf {
    static constexpr operation kind = Role;     ///< Which role the leaf plays.
    static constexpr std::size_t index = Index; ///< Which of the op's inputs, outputs or gradients, from 0.
};
template <std::size_t Index>
using input = leaf<operation::input, Index>; ///< Input number `Index` of the op.
template <std::size_t Index>
using output = leaf<operation::output, Index>; ///< Output number `Index` of the op.
/// The gradient that flows into output number `Index`.
template <std::size_t Index>
using output_gradient = leaf<operation::output_gradient, Index>;
using seed = leaf<operation::seed, 0>; ///< What a random op draws: uniform in [0, 1).

/// A number written in a lambda. Its value is data, not type: equal literals are found equal when the
/// expression is flattened (program.hpp).
struct literal {
    static constexpr operation kind = operation::literal; ///< A constant of the op's text.
    double value;                                         ///< The constant.
};

template <class... Operands>
struct operand_list;
/// One operand.
template <class A>
struct operand_list<A> {
    A a; ///< The operand.
    /// Calls `f` with all operands.
    template <class F>
    constexpr auto visit(F f) const {
        return f(a);
    }
};
/// Two operands.
template <class A, class B>
struct operand_list<A, B> {
    A a; ///< The first.
    B b; ///< The second.
    /// Calls `f` with all operands.
    template <class F>
    constexpr auto visit(F f) const {
        return f(a, b);
    }
};
/// Three operands.
template <class A, class B, class C>
struct operand_list<A, B, C> {
    A a; ///< The first.
    B b; ///< The second.
    C c; ///< The third.
    /// Calls `f` with all operands.
    template <class F>
    constexpr auto visit(F f) const {
        return f(a, b, c);
    }
};

/// An operation that is told nothing beside its operands.
struct no_parameters {
    /// The parameters that say nothing.
    constexpr operator parameters() const noexcept { return {}; }
};

/// `Operation` applied to `Operands`. `Parameters` is `parameters` for the operations that carry some.
template <operation Operation, class Parameters, class... Operands>
struct expression {
    static constexpr operation kind = Operation;  ///< What is done.
    operand_list<Operands...> operands;           ///< To what.
    [[no_unique_address]] Parameters parameter{}; ///< How.

    /// A comparison of tensors is no `bool`: write `select(mask, a, b)` instead of `if`.
    explicit operator bool() const = delete;
};

template <class E>
inline constexpr bool is_symbolic = false; ///< Whether `E` is an expression of this header.
template <operation R, std::size_t I>
inline constexpr bool is_symbolic<leaf<R, I>> = true; ///< A leaf is one.
template <>
inline constexpr bool is_symbolic<literal> = true; ///< A constant is one.
template <operation O, class P, class... E>
inline constexpr bool is_symbolic<expression<O, P, E...>> = true; ///< An operation on expressions is one.

/// A leaf, a literal or an expression.
template <class E>
concept symbolic = is_symbolic<E>;
/// A symbolic tensor of numbers, which takes part in arithmetic.
template <class E>
concept numeric = symbolic<E> && !is_mask(E::kind) && E::kind != operation::shape_of;
/// A symbolic comparison, of use to `select` and to logical operators only.
template <class E>
concept mask = symbolic<E> && is_mask(E::kind);
/// A tensor's shape without its data.
template <class E>
concept shape_only = symbolic<E> && E::kind == operation::shape_of;
/// A numeric symbol or a plain number.
template <class E>
concept operand = numeric<E> || std::is_arithmetic_v<E>;

/// An expression as it is.
template <numeric E>
constexpr E as_symbol(E e) noexcept {
    return e;
}
/// A number as a constant of the expression.
template <class N>
    requires std::is_arithmetic_v<N>
constexpr literal as_symbol(N number) noexcept {
    return {static_cast<double>(number)};
}

/// The operation on these operands.
template <operation O, class... E>
constexpr auto make(E... operands) noexcept {
    return expression<O, no_parameters, E...>{{operands...}, {}};
}
/// The operation on these operands, with parameters.
template <operation O, class... E>
constexpr auto make_with(const parameters& p, E... operands) noexcept {
    return expression<O, parameters, E...>{{operands...}, p};
}

} // namespace echo::symbol
