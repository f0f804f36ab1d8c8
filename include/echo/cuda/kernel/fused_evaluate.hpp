// SPDX-License-Identifier: BSL-1.0
/// @file
/// Runs the steps of a fused program on one element, in registers: each step is `echo::real<float>` doing what it does
/// in the op's lambda.
#pragma once

#include <echo/cuda/kernel/fused_type.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo::cuda::fused {

/// The values of all steps. Indices are constants, so that on the device each is a register or nothing.
template <class F>
struct frame {
    real<float> number[F::steps]; ///< Of the steps that give a number.
    bool holds[F::steps];         ///< Of the steps that give a truth.
};

/// Where an element stands in its row.
struct row_place {
    std::int64_t index = 0;  ///< Position in the row, from 0.
    std::int64_t length = 0; ///< Elements of the row.
};

namespace detail {

template <class F, std::size_t I>
ECHO_HOST_DEVICE constexpr void run_elementwise(frame<F>& f) noexcept {
    using symbol::operation;
    constexpr step s = F::program.of[I];
    [[maybe_unused]] constexpr std::size_t a = s.operands[0], b = s.operands[1], c = s.operands[2];
    // The rows of symbol/elementwise.hpp.
    /// @cond
#define ECHO_RUN_OPERATOR(name, sign, text)                                                                  \
    if constexpr (s.op == operation::name) f.number[I] = f.number[a] sign f.number[b];
#define ECHO_RUN_COMPARISON(name, sign, text)                                                                \
    if constexpr (s.op == operation::name) f.holds[I] = (f.number[a] sign f.number[b]).holds();
#define ECHO_RUN_LOGICAL_OPERATOR(name, sign, text)                                                          \
    if constexpr (s.op == operation::name) f.holds[I] = f.holds[a] sign f.holds[b];
#define ECHO_RUN_UNARY_FUNCTION(name, text)                                                                  \
    if constexpr (s.op == operation::name) f.number[I] = name(f.number[a]);
#define ECHO_RUN_BINARY_FUNCTION(name, text)                                                                 \
    if constexpr (s.op == operation::name) f.number[I] = name(f.number[a], f.number[b]);
    /// @endcond
    ECHO_BINARY_OPERATORS(ECHO_RUN_OPERATOR)
    ECHO_COMPARISONS(ECHO_RUN_COMPARISON)
    ECHO_LOGICAL_OPERATORS(ECHO_RUN_LOGICAL_OPERATOR)
    ECHO_UNARY_FUNCTIONS(ECHO_RUN_UNARY_FUNCTION)
    ECHO_BINARY_FUNCTIONS(ECHO_RUN_BINARY_FUNCTION)
#undef ECHO_RUN_OPERATOR
#undef ECHO_RUN_COMPARISON
#undef ECHO_RUN_LOGICAL_OPERATOR
#undef ECHO_RUN_UNARY_FUNCTION
#undef ECHO_RUN_BINARY_FUNCTION
    if constexpr (s.op == operation::negate) f.number[I] = -f.number[a];
    if constexpr (s.op == operation::logical_not) f.holds[I] = !f.holds[a];
    if constexpr (s.op == operation::select) f.number[I] = f.holds[a] ? f.number[b] : f.number[c];
    static_assert(symbol::is_elementwise(s.op));
}

/// Step I; `x` holds the kernel's operands. A reduction's value is put into the frame by whoever walks the row.
template <class F, std::size_t I>
ECHO_HOST_DEVICE constexpr void run_step(frame<F>& f, const float* x, row_place at) noexcept {
    constexpr step s = F::program.of[I];
    if constexpr (s.kind == step_kind::literal)
        f.number[I] = real<float>(s.number);
    else if constexpr (s.kind == step_kind::operand)
        f.number[I] = x[s.operands[0]];
    else if constexpr (s.kind == step_kind::elementwise)
        run_elementwise<F, I>(f);
    else if constexpr (s.kind == step_kind::row_length)
        f.number[I] = static_cast<float>(at.length);
    else if constexpr (s.kind == step_kind::row_index)
        f.number[I] = static_cast<float>(at.index);
    else if constexpr (s.kind == step_kind::round_f16)
        f.number[I] = static_cast<float>(half(f.number[s.operands[0]].value()));
    else if constexpr (s.kind == step_kind::round_bf16)
        f.number[I] = static_cast<float>(bfloat16(f.number[s.operands[0]].value()));
}

/// Whether pass `Pass` evaluates step I for each element.
template <class F, std::size_t I, std::size_t Pass>
inline constexpr bool in_pass =
    (F::program.timing[I].needed_by >> Pass & 1) != 0 && !(F::by_row && F::program.timing[I].uniform);
/// Whether step I is evaluated once per row, when that many passes are over.
template <class F, std::size_t I, std::size_t Level>
inline constexpr bool in_row =
    F::by_row && F::program.timing[I].uniform && F::program.timing[I].level == Level &&
    !is_row_reduction(F::program.of[I].kind);
/// Whether step I is made by pass `Pass` over the row.
template <class F, std::size_t I, std::size_t Pass>
inline constexpr bool reduced_by =
    is_row_reduction(F::program.of[I].kind) && F::program.timing[I].level == Pass + 1;

} // namespace detail

/// Evaluates for one element what pass `Pass` needs.
template <class F, std::size_t Pass>
ECHO_HOST_DEVICE constexpr void run_pass(frame<F>& f, const float* x, row_place at) noexcept {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (([&] {
             if constexpr (detail::in_pass<F, I, Pass>) detail::run_step<F, I>(f, x, at);
         }()),
         ...);
    }(std::make_index_sequence<F::steps>{});
}

/// Evaluates once per row what is known when `Level` passes are over.
template <class F, std::size_t Level>
ECHO_HOST_DEVICE constexpr void run_row(frame<F>& f, row_place at) noexcept {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (([&] {
             if constexpr (detail::in_row<F, I, Level>) detail::run_step<F, I>(f, nullptr, at);
         }()),
         ...);
    }(std::make_index_sequence<F::steps>{});
}

/// A sum or maximum in the making. The maximum of numbers among which is a NaN is NaN, in whatever order they come.
template <step_kind Kind>
struct accumulator {
    static_assert(is_row_reduction(Kind));
    /// What adding, or taking the larger, begins with.
    ECHO_HOST_DEVICE static constexpr float none() noexcept {
        return Kind == step_kind::row_sum ? 0.0f : std::bit_cast<float>(0xff800000u);
    }
    /// The sum, or the larger one.
    ECHO_HOST_DEVICE static constexpr float both(float a, float b) noexcept {
        if constexpr (Kind == step_kind::row_sum)
            return a + b;
        else
            return a < b || b != b ? b : a;
    }
};

} // namespace echo::cuda::fused
