// SPDX-License-Identifier: BSL-1.0
/// @file
/// First reading of an expression: which leaves its value depends on, as a Boost.Hana set of types.
#pragma once

#include <echo/op_facts.hpp>
#include <echo/symbol/expression.hpp>

#include <boost/hana/contains.hpp>
#include <boost/hana/set.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/union.hpp>

#include <cstddef>
#include <tuple>
#include <utility>

namespace echo {

/// What a gradient returns for an input that has none (indices, labels, a mask).
struct no_gradient {};

namespace symbol {
namespace detail {

constexpr auto unite() { return boost::hana::make_set(); }
template <class Set>
constexpr auto unite(Set set) {
    return set;
}
template <class Set, class Other, class... More>
constexpr auto unite(Set set, Other other, More... more) {
    return unite(boost::hana::union_(set, other), more...);
}

// One static member per distinct subexpression: the compiler remembers it, however often it appears.
template <class E>
struct leaves;
template <operation R, std::size_t I>
struct leaves<leaf<R, I>> {
    static constexpr auto set = boost::hana::make_set(boost::hana::type<leaf<R, I>>{});
};
template <>
struct leaves<literal> {
    static constexpr auto set = boost::hana::make_set();
};
template <>
struct leaves<no_gradient> {
    static constexpr auto set = boost::hana::make_set();
};
template <class P, class E>
struct leaves<expression<operation::shape_of, P, E>> {
    static constexpr auto set = boost::hana::make_set();
};
template <operation O, class P, class... E>
struct leaves<expression<O, P, E...>> {
    static constexpr auto set = unite(leaves<E>::set...);
};
template <class... E>
struct leaves<std::tuple<E...>> {
    static constexpr auto set = unite(leaves<E>::set...);
};

template <operation Role, class Set, std::size_t... Index>
constexpr positions positions_in(Set set, std::index_sequence<Index...>) {
    positions found;
    ((boost::hana::value(boost::hana::contains(set, boost::hana::type<leaf<Role, Index>>{}))
          ? found.insert(Index)
          : void()),
     ...);
    return found;
}

} // namespace detail

/// The leaves that the value of `E` (an expression, or a tuple of them) depends on: a `boost::hana::set` of
/// `boost::hana::type<leaf>`. What is read for its shape alone is not in it.
template <class E>
constexpr auto dependencies() {
    return detail::leaves<E>::set;
}
/// The same of an expression at hand.
template <class E>
constexpr auto dependencies(const E&) {
    return detail::leaves<E>::set;
}

/// Those of the first `Count` leaves of that role which `E` depends on.
template <class E, operation Role, std::size_t Count>
constexpr positions reads_of() {
    return detail::positions_in<Role>(detail::leaves<E>::set, std::make_index_sequence<Count>{});
}

} // namespace symbol
} // namespace echo
