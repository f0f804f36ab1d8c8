// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise operators and functions on symbols. `real<T>` (real.hpp) offers the same names on numbers, so
/// one generic lambda serves both. Shapes broadcast from the last axis; FLOPs: one per element and operation,
/// none for `select`.
#pragma once

#include <echo/symbol/expression.hpp>

namespace echo::symbol {

template <class A, class B>
concept operands = operand<A> && operand<B> && (symbolic<A> || symbolic<B>);

// The rows of elementwise.hpp.
/// @cond
#define ECHO_SYMBOL_OF_OPERATOR(name, sign, text)                                                            \
    template <class A, class B>                                                                              \
        requires operands<A, B>                                                                              \
    constexpr auto operator sign(A a, B b) noexcept {                                                        \
        return make<operation::name>(as_symbol(a), as_symbol(b));                                            \
    }
#define ECHO_SYMBOL_OF_LOGICAL_OPERATOR(name, sign, text)                                                    \
    template <mask A, mask B>                                                                                \
    constexpr auto operator sign(A a, B b) noexcept {                                                        \
        return make<operation::name>(a, b);                                                                  \
    }
#define ECHO_SYMBOL_OF_UNARY_FUNCTION(name, text)                                                            \
    template <numeric A>                                                                                     \
    constexpr auto name(A a) noexcept {                                                                      \
        return make<operation::name>(a);                                                                     \
    }
#define ECHO_SYMBOL_OF_BINARY_FUNCTION(name, text)                                                           \
    template <class A, class B>                                                                              \
        requires operands<A, B>                                                                              \
    constexpr auto name(A a, B b) noexcept {                                                                 \
        return make<operation::name>(as_symbol(a), as_symbol(b));                                            \
    }
/// @endcond
ECHO_BINARY_OPERATORS(ECHO_SYMBOL_OF_OPERATOR)
ECHO_COMPARISONS(ECHO_SYMBOL_OF_OPERATOR)
ECHO_LOGICAL_OPERATORS(ECHO_SYMBOL_OF_LOGICAL_OPERATOR)
ECHO_UNARY_FUNCTIONS(ECHO_SYMBOL_OF_UNARY_FUNCTION)
ECHO_BINARY_FUNCTIONS(ECHO_SYMBOL_OF_BINARY_FUNCTION)
#undef ECHO_SYMBOL_OF_OPERATOR
#undef ECHO_SYMBOL_OF_LOGICAL_OPERATOR
#undef ECHO_SYMBOL_OF_UNARY_FUNCTION
#undef ECHO_SYMBOL_OF_BINARY_FUNCTION

template <numeric A>
constexpr auto operator-(A a) noexcept {
    return make<operation::negate>(a);
}
template <numeric A>
constexpr auto operator+(A a) noexcept {
    return a;
}

// A comparison is written in one direction only, so that `a > b` and `b < a` are one subexpression.
template <class A, class B>
    requires operands<A, B>
constexpr auto operator<(A a, B b) noexcept {
    return b > a;
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator<=(A a, B b) noexcept {
    return b >= a;
}
template <mask A>
constexpr auto operator!(A a) noexcept {
    return make<operation::logical_not>(a);
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator!=(A a, B b) noexcept {
    return !(a == b);
}
/// `a` where the mask holds, else `b`.
template <mask M, operand A, operand B>
constexpr auto select(M m, A a, B b) noexcept {
    return make<operation::select>(m, as_symbol(a), as_symbol(b));
}

} // namespace echo::symbol
