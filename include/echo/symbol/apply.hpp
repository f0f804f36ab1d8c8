// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CPU loops of an element-wise op, made from its lambdas.
#pragma once

#include <echo/error.hpp>
#include <echo/symbol/lambdas.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace echo {
namespace symbol::detail {

template <class T>
constexpr void store(std::span<T> to, std::size_t i, real<T> value) {
    to[i] = static_cast<T>(value);
}
template <class T>
constexpr void store(std::span<T>, std::size_t, no_gradient) {}

template <class Function, class T, std::size_t Results, std::size_t... I, std::size_t... K>
void loop(const std::array<std::span<T>, Results>& results,
          const std::array<std::span<const T>, sizeof...(I)>& arguments, std::index_sequence<I...>,
          std::index_sequence<K...>) {
    const std::size_t size = arguments[0].size();
    for (const auto& argument : arguments)
        if (argument.size() != size)
            throw error({}, "inputs", "spans of different sizes", "give every tensor the same elements");
    using made = decltype(as_tuple(Function{}(real<T>(arguments[I][0])...)));
    ((std::is_same_v<std::tuple_element_t<K, made>, no_gradient> || results[K].size() == size
          ? void()
          : throw error({}, "outputs", "a span of another size than the inputs",
                        "give every tensor the same elements")),
     ...);
    for (std::size_t i = 0; i < size; ++i) {
        const made values = as_tuple(Function{}(real<T>(arguments[I][i])...));
        (store(results[K], i, std::get<K>(values)), ...);
    }
}

} // namespace symbol::detail

/// Runs `Op::forward` on each element: `apply_elementwise<tanh_op, float>({y}, {x})`. A random op takes its
/// uniform draws as last input. Results may be the very spans of inputs, but not overlap them otherwise.
/// Errors: spans of different sizes. O(elements).
template <has_forward Op, class T>
void apply_elementwise(
    const std::array<std::span<T>, output_count<Op>>& outputs,
    const std::array<std::span<const T>, input_count<Op> + (is_random<Op> ? 1 : 0)>& inputs) {
    using call = symbol::detail::forward_call<Op>;
    symbol::detail::loop<typename call::function>(
        outputs, inputs, std::make_index_sequence<call::inputs + (is_random<Op> ? 1 : 0)>{},
        std::make_index_sequence<call::outputs>{});
}

/// Runs `Op::gradient` on each element: `apply_gradient<tanh_op, float>({dx}, {dy, x, y})`, arguments in the
/// lambda's order. The span of an input that has no gradient may be empty. Errors and cost as above.
template <has_gradient Op, class T>
void apply_gradient(const std::array<std::span<T>, input_count<Op>>& gradients,
                    const std::array<std::span<const T>, symbol::detail::gradient_call<Op>::gradients +
                                                             input_count<Op> + output_count<Op>>& arguments) {
    using call = symbol::detail::gradient_call<Op>;
    symbol::detail::loop<typename call::function>(
        gradients, arguments, std::make_index_sequence<call::gradients + call::inputs + call::outputs>{},
        std::make_index_sequence<call::inputs>{});
}

} // namespace echo
