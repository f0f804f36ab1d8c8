// SPDX-License-Identifier: BSL-1.0
/// @file
/// Calls an op's lambdas: on symbolic leaves, which gives its expressions, and on `real<T>`, which gives its
/// values. Parameters stand in this order: forward (inputs x…, then for a random op one uniform draw u);
/// gradient (output gradients dy…, inputs x…, outputs y…).
#pragma once

#include <echo/symbol/program.hpp>
#include <echo/symbol/real.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace echo {

/// The op states its mathematics as a generic lambda, `Op::forward`.
template <class Op>
concept has_forward = requires { Op::forward; };
/// `Op::gradient` exists. It may be `no_gradient{}`: nothing flows back.
template <class Op>
concept has_gradient = requires { Op::gradient; };
/// The op draws random numbers: its forward takes a uniform draw in [0, 1) as last parameter.
template <class Op>
concept is_random = requires { requires Op::is_random; };

namespace symbol::detail {

inline constexpr std::size_t most_inputs = 12;

template <class... T>
constexpr std::tuple<T...> as_tuple(std::tuple<T...> t) {
    return t;
}
template <class T>
constexpr std::tuple<T> as_tuple(T t) {
    return std::tuple<T>(t);
}

template <class T>
inline constexpr std::size_t tuple_length = 1;
template <class... T>
inline constexpr std::size_t tuple_length<std::tuple<T...>> = sizeof...(T);

/// Whether a lambda on `real<float>` is a constant expression. A device compiler turns a lambda that calls a
/// host function into an empty kernel, without a warning; such a lambda is no constant expression either.
template <class F, std::size_t... I>
consteval bool constant_on_reals(std::index_sequence<I...>) {
    // Distinct values between 0.5 and 1, inside every function's domain.
    return requires {
        typename std::bool_constant<(
            static_cast<void>(F{}(real<float>(0.5 + 0.02 * static_cast<double>(I))...)), true)>;
    };
}

template <class Op>
struct forward_call {
    using function = std::remove_cvref_t<decltype(Op::forward)>;

    template <std::size_t... I>
    static constexpr bool takes(std::index_sequence<I...>) {
        if constexpr (is_random<Op>)
            return std::is_invocable_v<function, input<I>..., seed>;
        else
            return std::is_invocable_v<function, input<I>...>;
    }
    // Only the arity that fits instantiates the lambda's body.
    template <std::size_t Count = 0>
    static constexpr std::size_t count_inputs() {
        if constexpr (Count > most_inputs)
            return Count;
        else if constexpr (takes(std::make_index_sequence<Count>{}))
            return Count;
        else
            return count_inputs<Count + 1>();
    }
    static constexpr std::size_t inputs = count_inputs();
    static_assert(inputs <= most_inputs,
                  "echo: Op::forward must take the op's inputs (and for a random op one uniform draw, last) "
                  "as generic parameters, `[](auto x) { … }`");

    template <std::size_t... I>
    static constexpr auto call(std::index_sequence<I...>) {
        if constexpr (is_random<Op>)
            return function{}(input<I>{}..., seed{});
        else
            return function{}(input<I>{}...);
    }
    static constexpr auto expression() { return as_tuple(call(std::make_index_sequence<inputs>{})); }
    static constexpr std::size_t outputs = std::tuple_size_v<decltype(expression())>;

    static constexpr bool is_constant() {
        return constant_on_reals<function>(std::make_index_sequence<inputs + (is_random<Op> ? 1 : 0)>{});
    }
};

template <class Op>
struct gradient_call {
    using function = std::remove_cvref_t<decltype(Op::gradient)>;
    static constexpr std::size_t inputs = forward_call<Op>::inputs, outputs = forward_call<Op>::outputs;

    template <std::size_t... D, std::size_t... I, std::size_t... K>
    static constexpr bool takes(std::index_sequence<D...>, std::index_sequence<I...>,
                                std::index_sequence<K...>) {
        return std::is_invocable_v<function, output_gradient<D>..., input<I>..., output<K>...>;
    }
    // Outputs that no gradient flows into (a mask, saved statistics) stand last and may be left out of dy….
    template <std::size_t Count = 1>
    static constexpr std::size_t count_gradients() {
        if constexpr (Count > outputs)
            return 0;
        else if constexpr (takes(std::make_index_sequence<Count>{}, std::make_index_sequence<inputs>{},
                                 std::make_index_sequence<outputs>{}))
            return Count;
        else
            return count_gradients<Count + 1>();
    }
    static constexpr std::size_t gradients = count_gradients();
    static_assert(gradients > 0,
                  "echo: Op::gradient must take the output gradients, then the inputs, then the "
                  "outputs of Op::forward, `[](auto dy, auto x, auto y) { … }`");

    template <std::size_t... D, std::size_t... I, std::size_t... K>
    static constexpr auto call(std::index_sequence<D...>, std::index_sequence<I...>,
                               std::index_sequence<K...>) {
        return function{}(output_gradient<D>{}..., input<I>{}..., output<K>{}...);
    }
    static constexpr auto expression() {
        if constexpr (gradients == 0)
            return std::tuple_cat(std::array<no_gradient, inputs>{}); // the assertion above has spoken
        else
            return as_tuple(call(std::make_index_sequence<gradients>{}, std::make_index_sequence<inputs>{},
                                 std::make_index_sequence<outputs>{}));
    }
    static_assert(
        std::tuple_size_v<decltype(expression())> == inputs,
        "echo: Op::gradient must return one gradient per input of Op::forward, as a std::tuple when "
        "there are several, with echo::no_gradient{} where there is none");

    static constexpr bool is_constant() {
        return constant_on_reals<function>(std::make_index_sequence<gradients + inputs + outputs>{});
    }
};

template <class Op>
concept real_gradient =
    has_gradient<Op> && !std::is_same_v<std::remove_cvref_t<decltype(Op::gradient)>, no_gradient>;

} // namespace symbol::detail

/// How many inputs `Op::forward` takes, and how many outputs it gives.
template <has_forward Op>
inline constexpr std::size_t input_count = symbol::detail::forward_call<Op>::inputs;
/// How many outputs the forward lambda gives.
template <has_forward Op>
inline constexpr std::size_t output_count = symbol::detail::forward_call<Op>::outputs;

/// The op's outputs as expressions of its inputs: a `std::tuple`, one element per output.
template <has_forward Op>
constexpr auto forward_expression() {
    return symbol::detail::forward_call<Op>::expression();
}
/// The gradients of the op's inputs: a `std::tuple`, one element per input, `no_gradient` where there is
/// none.
template <has_gradient Op>
constexpr auto gradient_expression() {
    return symbol::detail::gradient_call<Op>::expression();
}

/// How many output gradients `Op::gradient` takes, first of all its parameters.
template <has_gradient Op>
inline constexpr std::size_t gradient_count = symbol::detail::gradient_call<Op>::gradients;

/// The same, flattened. Static: views of them stay valid.
template <has_forward Op>
inline constexpr auto forward_program = symbol::flatten(forward_expression<Op>());
/// The gradient lambda as steps, at compile time.
template <has_gradient Op>
inline constexpr auto gradient_program = symbol::flatten(gradient_expression<Op>());

} // namespace echo
