// SPDX-License-Identifier: BSL-1.0
/// @file
/// One call of a fused kernel: its body, with checked operands, ready for a launcher. `fused.cuh` launches it on a
/// device, `host_launch` on the host.
#pragma once

#include <echo/cuda/kernel/fused.hpp>
#include <echo/cuda/kernel/fused_layout.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace echo::cuda::fused {
namespace detail {

template <class F, class... Elements>
using body_for = std::conditional_t<F::by_row, std::type_identity<row_body<F, Elements...>>,
                                    std::type_identity<elementwise_body<F, Elements...>>>::type;

/// `T` as bodies have it: CUDA's own types by their layout.
template <class T>
struct bare {
    using type = element_of_t<T>;
};
template <>
struct bare<mask_word> {
    using type = mask_word;
};
template <>
struct bare<std::int32_t> {
    using type = std::int32_t;
};
template <class T>
using bare_t = typename bare<std::remove_const_t<T>>::type;

template <class T>
layout_operand described(const operand<T>& o, bool used, bool written, bool per_row) {
    return {
        const_cast<void*>(static_cast<const void*>(o.data)), storage_of<T>, o.step, used, written, per_row};
}

} // namespace detail

/// A result, in a call: `results(whole(dx, e), per_row(statistics, e))`.
template <class... T>
std::tuple<operand<T>...> results(const operand<T>&... of) {
    return {of...};
}
/// The operands of a call, arg<0> first; one that the kernel does not read may be `operand<float>{}`.
template <class... T>
std::tuple<operand<T>...> operands(const operand<T>&... of) {
    return {of...};
}

/// The body of `F` on these results and operands over extents `e`, checked as `lay_out` says; it has no tiles if there
/// is nothing to do. Results are float, fp16 or bf16, operands also packed masks and 32-bit labels.
template <class F, class... R, class... A>
auto body_of(const std::tuple<operand<R>...>& to, const std::tuple<operand<A>...>& from, const extents& e) {
    static_assert(sizeof...(R) == F::outputs,
                  "echo: a fused kernel is given one result for each of its expressions");
    static_assert(sizeof...(A) == F::inputs,
                  "echo: a fused kernel is given one operand for each of its arguments");
    static_assert((element<detail::bare_t<R>> && ...), "echo: a fused kernel writes float, fp16 or bf16");
    static_assert((!std::is_const_v<R> && ...), "echo: a result of a fused kernel is const");
    detail::body_for<F, detail::bare_t<R>..., detail::bare_t<A>...> body;
    const auto described = [&]<std::size_t... K, std::size_t... I>(std::index_sequence<K...>,
                                                                   std::index_sequence<I...>) {
        return std::array<layout_operand, F::operands>{
            detail::described(std::get<K>(to), true, true, F::result_by_row.contains(K))...,
            detail::described(std::get<I>(from), F::reads.contains(I), false, false)...};
    }(std::make_index_sequence<F::outputs>{}, std::make_index_sequence<F::inputs>{});
    if (!lay_out(e, described, F::outputs, F::by_row, body.width, body.shape, body.operands)) {
        body.shape.groups = 0;
        body.shape.rows = 0;
    }
    if constexpr (F::reads_row_index) check_row_index(body.shape);
    return body;
}

} // namespace echo::cuda::fused
