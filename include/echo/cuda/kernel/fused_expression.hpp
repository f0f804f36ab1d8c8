// SPDX-License-Identifier: BSL-1.0
/// @file
/// What one fused kernel computes, as a type: ops applied to operands and to each other. The ops' lambdas are its only
/// source; a gradient whose stashed inputs are given as expressions makes them again in registers.
///
/// ```cpp
/// using namespace echo::cuda::fused;
/// using z  = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;  // tanh(q + k)
/// using dz = fuse<gradient_of<z, 0, arg<2>>>;                            // dy · (1 − z²), z never written
/// static_assert(dz::reads == echo::positions{0, 1, 2});
/// using stashed = fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>>; // the same from a stashed z
/// ```
#pragma once

#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/fused_schedule.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace echo::cuda::fused {

/// Operand `Index` of the kernel.
template <std::size_t Index>
struct arg {
    static_assert(Index < most_operands, "echo: a fused kernel has at most 16 operands and results");
};
/// Stands for an argument that the op's lambda does not read.
struct unused {};
/// `Op::forward` on these arguments (for a random op its uniform draw last): its first output.
template <class Op, class... Arguments>
struct apply {};
/// Output `Index` of an `apply`, where an op has several.
template <std::size_t Index, class Apply>
struct output {};
/// The gradient of input `Input` by `Op::gradient`: its arguments are dy…, x…, y…, as the lambda has them.
template <class Op, std::size_t Input, class... Arguments>
struct gradient {};
/// A value rounded as a tensor of `Element` (fp16 or bf16) would have stored it. With it around each value that the
/// unfused sequence writes, a recompute in registers gives the bits of the stashed map.
template <class Element, class Expression>
struct rounded {};

namespace detail {

template <class... T>
struct type_list {
    static constexpr std::size_t size = sizeof...(T);
};

template <class T, class List>
inline constexpr bool contains = false;
template <class T, class... L>
inline constexpr bool contains<T, type_list<L...>> = (std::is_same_v<T, L> || ...);

template <class T, class List>
inline constexpr std::size_t index_in = 0;
template <class T, class First, class... L>
inline constexpr std::size_t index_in<T, type_list<First, L...>> =
    std::is_same_v<T, First> ? 0 : 1 + index_in<T, type_list<L...>>;

// Every expression as output<…>, gradient<…>, rounded<…>, arg<…> or unused.
template <class E>
struct canonical {
    using type = E;
};
template <class Op, class... E>
struct canonical<apply<Op, E...>> {
    using type = output<0, apply<Op, E...>>;
};
template <class E>
using canonical_t = typename canonical<E>::type;

template <class E>
struct parts;
template <std::size_t I>
struct parts<arg<I>> {
    using type = type_list<>;
};
template <>
struct parts<unused> {
    using type = type_list<>;
};
template <std::size_t K, class Op, class... E>
struct parts<output<K, apply<Op, E...>>> {
    static_assert(sizeof...(E) == input_count<Op> + (is_random<Op> ? 1 : 0),
                  "echo: apply<Op, …> takes one argument per parameter of Op::forward");
    static_assert(K < output_count<Op>, "echo: output<K, apply<Op, …>>: the op has fewer outputs");
    using type = type_list<canonical_t<E>...>;
};
template <class Op, std::size_t I, class... E>
struct parts<gradient<Op, I, E...>> {
    static_assert(sizeof...(E) == gradient_count<Op> + input_count<Op> + output_count<Op>,
                  "echo: gradient<Op, I, …> takes one argument per parameter of Op::gradient: dy…, x…, y…");
    static_assert(I < input_count<Op>, "echo: gradient<Op, I, …>: the op has fewer inputs");
    using type = type_list<canonical_t<E>...>;
};
template <class T, class E>
struct parts<rounded<T, E>> {
    using element = element_of_t<T>;
    using type = type_list<canonical_t<E>>;
};

// The distinct subexpressions, each behind its parts. An instantiation per expression and list: none is walked twice.
template <class List, class E>
struct collected;
template <class List, class... E>
struct collected_all {
    using type = List;
};
template <class List, class First, class... E>
struct collected_all<List, First, E...> : collected_all<typename collected<List, First>::type, E...> {};

template <class List, class E, class Parts>
struct appended;
template <class... L, class E, class... P>
struct appended<type_list<L...>, E, type_list<P...>> {
    template <class Grown>
    struct behind;
    template <class... G>
    struct behind<type_list<G...>> {
        using type = type_list<G..., E>;
    };
    using type = typename behind<typename collected_all<type_list<L...>, P...>::type>::type;
};
template <class List, bool Present, class E>
struct collected_if {
    using type = List;
};
template <class List, class E>
struct collected_if<List, false, E> : appended<List, E, typename parts<E>::type> {};
template <class List, class E>
struct collected : collected_if<List, contains<E, List>, E> {};

/// How an expression enters the program; `at` finds the step of a part.
template <class E>
struct linked;
template <std::size_t I>
struct linked<arg<I>> {
    static constexpr std::size_t steps = 1;
    static constexpr std::size_t operands = I + 1;
    template <class Linker, class At>
    static constexpr std::uint16_t append(Linker& to, At) {
        return to.operand(I);
    }
};
template <>
struct linked<unused> {
    static constexpr std::size_t steps = 0;
    static constexpr std::size_t operands = 0;
    template <class Linker, class At>
    static constexpr std::uint16_t append(Linker&, At) {
        return Linker::none;
    }
};
template <std::size_t K, class Op, class... E>
struct linked<output<K, apply<Op, E...>>> {
    static constexpr std::size_t steps = 4 * forward_program<Op>.size + 4;
    static constexpr std::size_t operands = 0;
    template <class Linker, class At>
    static constexpr std::uint16_t append(Linker& to, At at) {
        const std::array<std::uint16_t, sizeof...(E)> given{at(canonical_t<E>{})...};
        return to.append(forward_program<Op>.view(), forward_program<Op>.view(), K,
                         [&](symbol::operation role, std::size_t index) {
                             return given[role == symbol::operation::seed ? input_count<Op> : index];
                         });
    }
};
template <class Op, std::size_t I, class... E>
struct linked<gradient<Op, I, E...>> {
    static constexpr std::size_t steps = 4 * gradient_program<Op>.size + 4;
    static constexpr std::size_t operands = 0;
    template <class Linker, class At>
    static constexpr std::uint16_t append(Linker& to, At at) {
        const std::array<std::uint16_t, sizeof...(E)> given{at(canonical_t<E>{})...};
        return to.append(gradient_program<Op>.view(), forward_program<Op>.view(), I,
                         [&](symbol::operation role, std::size_t index) {
                             std::size_t position = index;
                             if (role != symbol::operation::output_gradient) position += gradient_count<Op>;
                             if (role == symbol::operation::output) position += input_count<Op>;
                             return given[position];
                         });
    }
};
template <class T, class E>
struct linked<rounded<T, E>> {
    static constexpr std::size_t steps = 1;
    static constexpr std::size_t operands = 0;
    template <class Linker, class At>
    static constexpr std::uint16_t append(Linker& to, At at) {
        using element = element_of_t<T>;
        const auto a = at(canonical_t<E>{});
        if (a == Linker::none || std::is_same_v<element, float>) return a;
        return to.unary(std::is_same_v<element, half> ? step_kind::round_f16 : step_kind::round_bf16, a);
    }
};

/// The leaves that the gradient of input I reads decide which of x… and y… it is given; the rest is `unused`.
template <class Forward, std::size_t Input, class DY, class X, class Y>
struct gradient_with;
template <class Op, class... X, std::size_t Input, class... DY, std::size_t... I, std::size_t... K>
struct gradient_with<apply<Op, X...>, Input, type_list<DY...>, std::index_sequence<I...>,
                     std::index_sequence<K...>> {
    static_assert(sizeof...(DY) == gradient_count<Op>,
                  "echo: gradient_of<apply<Op, …>, I, dy…> takes as many dy as Op::gradient");
    static_assert(Input < input_count<Op>,
                  "echo: gradient_of<apply<Op, …>, I, dy…>: the op has fewer inputs");
    using component = std::tuple_element_t<Input, decltype(gradient_expression<Op>())>;
    static constexpr positions x = symbol::reads_of<component, symbol::operation::input, sizeof...(I)>();
    static constexpr positions y = symbol::reads_of<component, symbol::operation::output, sizeof...(K)>();
    using arguments = std::tuple<X...>;
    using type = gradient<Op, Input, DY...,
                          std::conditional_t<x.contains(I), std::tuple_element_t<I, arguments>, unused>...,
                          std::conditional_t<y.contains(K), output<K, apply<Op, X...>>, unused>...>;
};
template <class Forward>
struct arity_of;
template <class Op, class... X>
struct arity_of<apply<Op, X...>> {
    using inputs = std::make_index_sequence<input_count<Op>>;
    using outputs = std::make_index_sequence<output_count<Op>>;
};

} // namespace detail

/// The gradient of input `Input` of `Forward`, an `apply<Op, X…>`, in which what the gradient reads is not stashed:
/// inputs are the expressions X…, outputs are `Forward` itself, made again. What the lambda does not read is not made.
template <class Forward, std::size_t Input, class... DY>
using gradient_of = typename detail::gradient_with<Forward, Input, detail::type_list<DY...>,
                                                   typename detail::arity_of<Forward>::inputs,
                                                   typename detail::arity_of<Forward>::outputs>::type;

} // namespace echo::cuda::fused
