// SPDX-License-Identifier: BSL-1.0
/// @file
/// The categories that an op joins by inheriting one: facts shared by many ops, and those that follow from
/// the op's lambdas. `op_traits.hpp` says how to use them.
#pragma once

#include <echo/op_facts.hpp>
#include <echo/symbol.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace echo {
namespace detail {

template <class Op>
double forward_flops(std::span<const tensor> inputs, std::span<const tensor> outputs) {
    return symbol::infer(forward_program<Op>.view(), inputs, outputs).flops;
}

/// The leaves of that role of which one bit per element is enough.
constexpr positions one_bit_positions(const symbol::program_view& p, symbol::operation role,
                                      std::size_t count) noexcept {
    positions found;
    for (std::size_t i = 0; i < count; ++i)
        if (symbol::needs_one_bit(p, role, i)) found.insert(i);
    return found;
}

template <class Op>
constexpr reads gradient_reads_of() noexcept {
    if constexpr (symbol::detail::real_gradient<Op>) {
        using gradient = decltype(gradient_expression<Op>());
        return {symbol::reads_of<gradient, symbol::operation::input, input_count<Op>>(),
                symbol::reads_of<gradient, symbol::operation::output, output_count<Op>>()};
    } else if constexpr (has_gradient<Op>) {
        return {};
    } else {
        return reads::everything();
    }
}

template <class Op>
constexpr reads gradient_one_bit_of() noexcept {
    if constexpr (symbol::detail::real_gradient<Op>) {
        constexpr auto p = gradient_program<Op>.view();
        return {one_bit_positions(p, symbol::operation::input, input_count<Op>),
                one_bit_positions(p, symbol::operation::output, output_count<Op>)};
    } else {
        return {};
    }
}

template <class Op>
constexpr positions one_bit_inputs_of() noexcept {
    if constexpr (has_forward<Op>)
        return one_bit_positions(forward_program<Op>.view(), symbol::operation::input, input_count<Op>);
    else
        return {};
}

template <class Op>
constexpr flops_function flops_of() noexcept {
    if constexpr (has_forward<Op>)
        return &forward_flops<Op>;
    else
        return nullptr;
}

// Where a lambda is missing, another assertion says so.
template <class Op>
constexpr bool forward_is_constant() noexcept {
    if constexpr (has_forward<Op>)
        return symbol::detail::forward_call<Op>::is_constant();
    else
        return true;
}
template <class Op>
constexpr bool gradient_is_constant() noexcept {
    if constexpr (has_forward<Op> && symbol::detail::real_gradient<Op>)
        return symbol::detail::gradient_call<Op>::is_constant();
    else
        return true;
}

/// Output 0 over any of the first four inputs. Whoever reads the facts compares the sizes.
template <class Op>
constexpr storage_pairs elementwise_pairs() noexcept {
    if constexpr (!has_forward<Op>)
        return {};
    else if constexpr (input_count<Op> <= 1)
        return {{0, 0}};
    else if constexpr (input_count<Op> == 2)
        return {{0, 0}, {0, 1}};
    else if constexpr (input_count<Op> == 3)
        return {{0, 0}, {0, 1}, {0, 2}};
    else
        return {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
}

} // namespace detail

/// What follows from an op's lambdas; nothing is claimed where they are absent.
template <class Op>
struct by_lambdas {
    static constexpr rerun_kind rerun = rerun_kind::pure; ///< The same inputs give the same bits.
    /// What the gradient lambda reads; everything, if there is none.
    static constexpr reads gradient_reads = detail::gradient_reads_of<Op>();
    /// The part of it that is only compared with 0.
    static constexpr reads gradient_one_bit = detail::gradient_one_bit_of<Op>();
    /// Inputs that the forward lambda only compares with 0.
    static constexpr positions one_bit_inputs = detail::one_bit_inputs_of<Op>();
    /// Counted from the forward lambda and the shapes.
    static constexpr flops_function flops = detail::flops_of<Op>();
};

/// About one pass over memory.
template <class Op>
struct light : by_lambdas<Op> {
    static constexpr op_kind kind = op_kind::light; ///< Cheap: may be recomputed.
};

/// Compute-bound: the boundary of recomputation. Still pure: a budget may buy it.
template <class Op>
struct compute_heavy : by_lambdas<Op> {
    /// Compute-heavy: recomputed only where a budget pays for it.
    static constexpr op_kind kind = op_kind::heavy;
};

/// Each element by itself, with broadcasting; where an input was broadcast, the host sums its gradient to
/// its shape. Runs in place over any input of the output's size.
template <class Op>
struct elementwise : light<Op> {
    static_assert(has_forward<Op>,
                  "echo: an element-wise op states `static constexpr auto forward`, a generic "
                  "lambda, as the head of <echo/op_traits.hpp> shows");
    static_assert(
        detail::forward_is_constant<Op>(),
        "echo: Op::forward must be a constant expression on echo::real<float>: call only the functions "
        "of <echo/symbol.hpp>, since others are not available on a device");
    static_assert(
        detail::gradient_is_constant<Op>(),
        "echo: Op::gradient must be a constant expression on echo::real<float>: call only the functions of "
        "<echo/symbol.hpp>, since others are not available on a device");

    /// Over any of the first four inputs.
    static constexpr storage_pairs inplace = detail::elementwise_pairs<Op>();
    static constexpr bool gradient_inplace = true; ///< The gradient of each element needs that element alone.
};

/// Element-wise with random draws (`static constexpr bool is_random = true`): runs again with the same seed.
template <class Op>
struct random : elementwise<Op> {
    static_assert(is_random<Op>,
                  "echo: a random op states `static constexpr bool is_random = true` and takes a "
                  "uniform draw in [0, 1) as last parameter of its forward");
    static constexpr rerun_kind rerun = rerun_kind::seeded; ///< The same seed gives the same bits.
};

/// Sums, means, maxima over axes.
template <class Op>
struct reduction : light<Op> {};

/// Reductions and arithmetic along rows or channels, fused: softmax, layer and batch normalisation.
template <class Op>
struct normalisation : light<Op> {};

/// Copies elements to other places; the gradient copies them back and reads no feature map, unless the op's
/// own gradient lambda says so (indices).
template <class Op>
struct data_movement : light<Op> {
    /// No feature map, unless the gradient lambda says otherwise.
    static constexpr reads gradient_reads = has_gradient<Op> ? detail::gradient_reads_of<Op>() : reads{};
};

/// Output 0 lies on the storage of input `Input`: no work, and the gradient reads nothing.
template <std::size_t Input = 0>
struct view {
    static_assert(Input < 256, "echo: storage pairs count inputs up to 255");
    static constexpr op_kind kind = op_kind::view;        ///< No work: it moves no bytes.
    static constexpr rerun_kind rerun = rerun_kind::pure; ///< Whatever it lies on, it can be made again.
    static constexpr reads gradient_reads{};              ///< Nothing.
    /// The output and the input that share a storage.
    static constexpr storage_pairs views{{0, static_cast<std::uint8_t>(Input)}};
};

/// Has side effects, or cannot be proved free of them: never run again, and its gradient reads everything.
struct stateful {
    static constexpr op_kind kind = op_kind::heavy;        ///< Never counted as cheap.
    static constexpr rerun_kind rerun = rerun_kind::never; ///< It runs once.
};

} // namespace echo
