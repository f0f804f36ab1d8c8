// SPDX-License-Identifier: BSL-1.0
/// @file
/// The operations that symbolic expressions are made of, and the parameters they carry: reduced axes, window
/// geometry.
#pragma once

#include <echo/symbol/elementwise.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace echo {

/// Axes of a reduction; negative ones count from the last. `over(-1)` removes the axis, `over(-1).keep()`
/// leaves an extent of 1, `all_but(1)` reduces every other axis. A structural type, comparable.
struct axes {
    std::array<std::int8_t, 4> list{}; ///< The axes, of which the first `count` are meant.
    std::uint8_t count = 0;            ///< How many are named.
    bool complement = false;           ///< True: all axes but these.
    bool kept = false;                 ///< True: a reduced axis stays, with an extent of 1.

    /// The same axes, each of which stays with an extent of 1.
    constexpr axes keep() const noexcept {
        axes result = *this;
        result.kept = true;
        return result;
    }
    /// Whether `axis` of a tensor of that rank is reduced.
    constexpr bool contains(std::size_t axis, std::size_t rank) const noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            const auto named = static_cast<std::ptrdiff_t>(list[i]);
            if ((named < 0 ? named + static_cast<std::ptrdiff_t>(rank) : named) ==
                static_cast<std::ptrdiff_t>(axis))
                return !complement;
        }
        return complement;
    }
    friend constexpr bool operator==(const axes&, const axes&) = default;
};

/// These axes (at most four).
template <class... Axis>
    requires(sizeof...(Axis) <= 4)
constexpr axes over(Axis... axis) noexcept {
    return {{static_cast<std::int8_t>(axis)...}, sizeof...(Axis), false, false};
}

/// Every axis except these; `all_but()` is every axis.
template <class... Axis>
    requires(sizeof...(Axis) <= 4)
constexpr axes all_but(Axis... axis) noexcept {
    return {{static_cast<std::int8_t>(axis)...}, sizeof...(Axis), true, false};
}

/// How a convolution or a pooling slides over up to three spatial axes. `stated == false` (the default) says
/// that the op does not know: shape and FLOPs are then read off the output that the host states. Structural,
/// so an op can be a template over it. `kernel` matters to pooling only; a convolution reads it off its
/// weights.
struct window {
    bool stated = false; ///< Whether the geometry is known.
    /// Along each spatial axis.
    std::array<int, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
    friend constexpr bool operator==(const window&, const window&) = default;
};

namespace symbol {

/// Everything an expression can be. `shape_of` reads no data, so what stands below it is no dependency.
enum class operation : std::uint8_t {
    // leaves
    literal,
    input,
    output,
    output_gradient,
    seed,
// clang-format off
    // element-wise arithmetic and functions
/// @cond
#define ECHO_NAME_OF_ROW(name, ...) name,
/// @endcond
    ECHO_BINARY_OPERATORS(ECHO_NAME_OF_ROW)
    negate,
    ECHO_UNARY_FUNCTIONS(ECHO_NAME_OF_ROW)
    ECHO_BINARY_FUNCTIONS(ECHO_NAME_OF_ROW)
    // masks, and the choice between two values
    ECHO_COMPARISONS(ECHO_NAME_OF_ROW)
    ECHO_LOGICAL_OPERATORS(ECHO_NAME_OF_ROW)
    logical_not,
    select,
#undef ECHO_NAME_OF_ROW
    // clang-format on
    // movement: no arithmetic
    shape_of,
    transpose,
    rows,
    broadcast,
    broadcast_mean,
    along_axis,
    gather_rows,
    one_hot,
    // reductions
    sum,
    mean,
    max_over,
    scatter_rows,
    // sliding windows
    max_pool,
    max_pool_gradient,
    mean_pool,
    mean_pool_gradient,
    convolution,
    convolution_data_gradient,
    convolution_weight_gradient,
    // contraction
    matmul
};

/// Whether it stands for what an op is given, and computes nothing.
constexpr bool is_leaf(operation o) noexcept { return o <= operation::seed; }
/// Whether it gives a truth and no number.
constexpr bool is_mask(operation o) noexcept {
    return o >= operation::greater && o <= operation::logical_not;
}
/// Acts on each element by itself, with broadcasting.
constexpr bool is_elementwise(operation o) noexcept { return o >= operation::add && o <= operation::select; }
/// Compute-bound: convolutions and matrix products.
constexpr bool is_heavy(operation o) noexcept { return o >= operation::convolution; }

/// What an operation is told beside its operands. `number` is a literal's value or the axis of `along_axis`;
/// `transposed` says which operands of `matmul` are read transposed.
struct parameters {
    double number = 0;                ///< A literal's value, or an axis.
    echo::axes axes{};                ///< What is reduced.
    echo::window window{};            ///< How a window slides.
    std::array<bool, 2> transposed{}; ///< Of `matmul`, for each operand.
    friend constexpr bool operator==(const parameters&, const parameters&) = default;
};

} // namespace symbol
} // namespace echo
