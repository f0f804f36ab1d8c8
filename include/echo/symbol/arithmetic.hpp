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

template <class A, class B>
    requires operands<A, B>
constexpr auto operator+(A a, B b) noexcept {
    return make<operation::add>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator-(A a, B b) noexcept {
    return make<operation::subtract>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator*(A a, B b) noexcept {
    return make<operation::multiply>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator/(A a, B b) noexcept {
    return make<operation::divide>(as_symbol(a), as_symbol(b));
}
template <numeric A>
constexpr auto operator-(A a) noexcept {
    return make<operation::negate>(a);
}
template <numeric A>
constexpr auto operator+(A a) noexcept {
    return a;
}

template <numeric A>
constexpr auto exp(A a) noexcept {
    return make<operation::exp>(a);
}
template <numeric A>
constexpr auto log(A a) noexcept {
    return make<operation::log>(a);
}
template <numeric A>
constexpr auto tanh(A a) noexcept {
    return make<operation::tanh>(a);
}
template <numeric A>
constexpr auto sigmoid(A a) noexcept {
    return make<operation::sigmoid>(a);
}
template <numeric A>
constexpr auto erf(A a) noexcept {
    return make<operation::erf>(a);
}
template <numeric A>
constexpr auto sqrt(A a) noexcept {
    return make<operation::sqrt>(a);
}
template <numeric A>
constexpr auto rsqrt(A a) noexcept {
    return make<operation::rsqrt>(a);
}
template <numeric A>
constexpr auto sin(A a) noexcept {
    return make<operation::sin>(a);
}
template <numeric A>
constexpr auto cos(A a) noexcept {
    return make<operation::cos>(a);
}
template <numeric A>
constexpr auto abs(A a) noexcept {
    return make<operation::abs>(a);
}
template <class A, class B>
    requires operands<A, B>
constexpr auto pow(A a, B b) noexcept {
    return make<operation::pow>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto max(A a, B b) noexcept {
    return make<operation::max>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto min(A a, B b) noexcept {
    return make<operation::min>(as_symbol(a), as_symbol(b));
}

// A comparison is written in one direction only, so that `a > b` and `b < a` are one subexpression.
template <class A, class B>
    requires operands<A, B>
constexpr auto operator>(A a, B b) noexcept {
    return make<operation::greater>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator<(A a, B b) noexcept {
    return b > a;
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator>=(A a, B b) noexcept {
    return make<operation::greater_equal>(as_symbol(a), as_symbol(b));
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator<=(A a, B b) noexcept {
    return b >= a;
}
template <class A, class B>
    requires operands<A, B>
constexpr auto operator==(A a, B b) noexcept {
    return make<operation::equal>(as_symbol(a), as_symbol(b));
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
template <mask A, mask B>
constexpr auto operator&&(A a, B b) noexcept {
    return make<operation::logical_and>(a, b);
}
template <mask A, mask B>
constexpr auto operator||(A a, B b) noexcept {
    return make<operation::logical_or>(a, b);
}
/// `a` where the mask holds, else `b`.
template <mask M, operand A, operand B>
constexpr auto select(M m, A a, B b) noexcept {
    return make<operation::select>(m, as_symbol(a), as_symbol(b));
}

} // namespace echo::symbol
