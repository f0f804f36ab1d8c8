// SPDX-License-Identifier: BSL-1.0
/// @file
/// The lambdas of ops on one element: what every kernel of an op with lambdas computes.
#pragma once

#include "engine/ops/elementwise.hpp"

#include <echo/config.hpp>

#include <cstddef>
#include <tuple>
#include <utility>

namespace engine::cuda {

using number = echo::real<float>;

template <class... T>
ECHO_HOST_DEVICE constexpr std::tuple<T...> as_tuple(std::tuple<T...> t) {
    return t;
}
template <class T>
ECHO_HOST_DEVICE constexpr std::tuple<T> as_tuple(T t) {
    return {t};
}

/// The numbers that a node carries, as kernels take them.
template <class Op>
struct told {
    float at[ops::scalar_count<Op> + 1]{};

    told() = default;
    explicit told(const ops::numbers<Op>& scalars) {
        for (std::size_t i = 0; i < scalars.size(); ++i) at[i] = static_cast<float>(scalars[i]);
    }
};

/// `Op::forward`: x holds its tensors' elements and, behind them, a random op's draw; y gets its results.
template <class Op, std::size_t Read, std::size_t Results>
ECHO_HOST_DEVICE constexpr void forward(const float (&x)[Read], const told<Op>& scalars,
                                        float (&y)[Results]) {
    constexpr std::size_t tensors = ops::tensor_inputs<Op>;
    [&]<std::size_t... I, std::size_t... S, std::size_t... K>(
        std::index_sequence<I...>, std::index_sequence<S...>, std::index_sequence<K...>) {
        const auto made = [&] {
            if constexpr (echo::is_random<Op>)
                return as_tuple(
                    decltype(Op::forward){}(number(x[I])..., number(scalars.at[S])..., number(x[tensors])));
            else
                return as_tuple(decltype(Op::forward){}(number(x[I])..., number(scalars.at[S])...));
        }();
        ((y[K] = std::get<K>(made).value()), ...);
    }(std::make_index_sequence<tensors>{}, std::make_index_sequence<ops::scalar_count<Op>>{},
      std::make_index_sequence<Results>{});
}

/// What component `I` of a gradient reads: how many elements, and which of them may come packed.
template <class Op, std::size_t I>
inline constexpr std::size_t gradient_reads = ops::component<Op, I>::arguments().count;
template <class Op, std::size_t I>
inline constexpr bool reads_bits = ops::component<Op, I>::arguments().one_bit != echo::positions{};

/// Where argument `A` of the gradient lambda stands among what component `I` reads; their number if it is not read.
template <class Op, std::size_t I, std::size_t A>
consteval std::size_t place_of() {
    constexpr auto list = ops::component<Op, I>::arguments();
    for (std::size_t k = 0; k < list.count; ++k)
        if (list.of[k] == A) return k;
    return list.count;
}

/// Argument `A` of the gradient lambda; one that component `I` does not read is 1.
template <class Op, std::size_t I, std::size_t A, std::size_t Read>
ECHO_HOST_DEVICE constexpr number argument(const float (&x)[Read], const told<Op>& scalars) {
    constexpr std::size_t first_scalar = echo::gradient_count<Op> + ops::tensor_inputs<Op>;
    constexpr std::size_t at = place_of<Op, I, A>();
    if constexpr (A >= first_scalar && A < echo::gradient_count<Op> + echo::input_count<Op>)
        return number(scalars.at[A - first_scalar]);
    else if constexpr (at < Read)
        return number(x[at]);
    else
        return number(1);
}

/// Component `I` of `Op::gradient`: x holds what it reads, in the order of `ops::component::arguments`.
template <class Op, std::size_t I, std::size_t Read>
ECHO_HOST_DEVICE constexpr float gradient(const float (&x)[Read], const told<Op>& scalars) {
    static_assert(Read == gradient_reads<Op, I>);
    return [&]<std::size_t... A>(std::index_sequence<A...>) {
        const auto made = as_tuple(decltype(Op::gradient){}(argument<Op, I, A>(x, scalars)...));
        return std::get<I>(made).value();
    }(std::make_index_sequence<echo::gradient_count<Op> + echo::input_count<Op> + echo::output_count<Op>>{});
}

} // namespace engine::cuda
