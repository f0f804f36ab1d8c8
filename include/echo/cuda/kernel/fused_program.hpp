// SPDX-License-Identifier: BSL-1.0
/// @file
/// The program of one fused kernel: the steps of several ops behind one another, each distinct step once. The types of
/// fused_expression.hpp are linked into one at compile time, the graphs of jit.hpp at run time, by the same code.
#pragma once

#include <echo/symbol.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace echo::cuda::fused {

/// Operands and results of one kernel together.
inline constexpr std::size_t most_operands = 16;

/// What a step gives: a number or, for comparisons, a truth.
enum class step_kind : std::uint8_t {
    literal,     ///< a number of the op's text
    operand,     ///< what the kernel reads: operand `operands[0]`
    elementwise, ///< `op` on earlier steps
    row_sum,     ///< sum of a step over the row
    row_max,     ///< largest of a step over the row; NaN if one is NaN
    row_length,  ///< elements of a row
    row_index,   ///< position in the row, from 0
    round_f16,   ///< the value as fp16 would have stored it
    round_bf16,  ///< the value as bf16 would have stored it
};

/// Whether the step needs a whole row.
constexpr bool is_row_reduction(step_kind k) noexcept {
    return k == step_kind::row_sum || k == step_kind::row_max;
}

/// One step; `operands` are numbers of earlier steps (of an operand: its number).
struct step {
    step_kind kind = step_kind::literal;               ///< What the step is.
    symbol::operation op = symbol::operation::literal; ///< Of `elementwise`: what is done.
    std::uint8_t arity = 0;                            ///< How many operands count.
    std::array<std::uint16_t, 3> operands{};           ///< Numbers of earlier steps.
    double number = 0;                                 ///< Of `literal`: the number.
    /// Equal where all members are, the number by its bits.
    friend constexpr bool operator==(const step& a, const step& b) noexcept {
        return a.kind == b.kind && a.op == b.op && a.arity == b.arity && a.operands == b.operands &&
               std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number);
    }
};

/// Why steps could not be linked.
enum class link_fault : std::uint8_t {
    none,
    reads_unused,   ///< the op reads an argument that was given as unused
    not_fusible,    ///< a product, a convolution, a movement of elements: no fused kernel has it
    no_gradient,    ///< the op has no gradient for that input
    different_axes, ///< two reductions over different axes
    too_long,       ///< more steps than step numbers
};

/// The fault in words, for a message.
constexpr std::string_view words_of(link_fault f) noexcept {
    switch (f) {
    case link_fault::none:
        return "nothing";
    case link_fault::reads_unused:
        return "it reads an argument that is given as unused";
    case link_fault::not_fusible:
        return "it is neither element-wise nor a reduction of rows, and no part of a fused kernel";
    case link_fault::no_gradient:
        return "it has no gradient for that input";
    case link_fault::different_axes:
        return "it reduces over other axes than the rest of the kernel";
    case link_fault::too_long:
        return "the kernel has too many steps";
    }
    return {};
}

/// Steps that grow: `Steps` is a vector of them, of fixed capacity at compile time.
template <class Steps>
struct linker {
    /// "No step": an argument that nobody reads.
    static constexpr std::uint16_t none = 0xffff;
    static constexpr std::size_t most_steps = 4096; ///< Steps of one program at most.

    Steps steps{};                       ///< What is linked so far.
    axes reduced{};                      ///< The axes that reductions are over.
    bool reduces = false;                ///< Whether there is a reduction yet.
    link_fault fault = link_fault::none; ///< The first thing that could not be linked.

    /// The number of an equal step, or of this one, appended. O(steps).
    constexpr std::uint16_t number(const step& s) {
        for (std::size_t i = 0; i < steps.size(); ++i)
            if (steps[i] == s) return static_cast<std::uint16_t>(i);
        if (steps.size() == most_steps) return fail(link_fault::too_long);
        steps.push_back(s);
        return static_cast<std::uint16_t>(steps.size() - 1);
    }
    /// The step that reads operand `index`.
    constexpr std::uint16_t operand(std::size_t index) {
        return number({step_kind::operand, {}, 0, {static_cast<std::uint16_t>(index)}, 0});
    }
    /// The step that does `kind` to step `a`.
    constexpr std::uint16_t unary(step_kind kind, std::uint16_t a) { return number({kind, {}, 1, {a}, 0}); }
    /// The step that does `op` to these steps, element by element.
    constexpr std::uint16_t elementwise(symbol::operation op, std::uint8_t arity,
                                        std::array<std::uint16_t, 3> operands) {
        return number({step_kind::elementwise, op, arity, operands, 0});
    }

    /// Appends the steps of an op that its result number `wanted` needs; `leaf(role, index)` is the step that stands
    /// for each leaf, or `none`. `forward` says over which axes the op reduces. Returns the result's step, or sets
    /// `fault`. O(op's steps × steps).
    template <class Leaf>
    constexpr std::uint16_t append(const symbol::program_view& p, const symbol::program_view& forward,
                                   std::size_t wanted, Leaf leaf) {
        using symbol::program_view;
        if (p.steps.size() > most_op_steps) return fail(link_fault::too_long);
        if (p.results[wanted] == program_view::none) return fail(link_fault::no_gradient);
        std::array<bool, most_op_steps> needed{};
        needed[p.results[wanted]] = true;
        for (std::size_t i = p.steps.size(); i-- > 0;)
            if (needed[i] && !symbol::is_leaf(p.steps[i].op))
                for (std::size_t k = 0; k < data_operands(p.steps[i]); ++k)
                    needed[p.steps[i].operands[k]] = true;
        std::array<std::uint16_t, most_op_steps> at{};
        for (std::size_t i = 0; i < p.steps.size(); ++i)
            if (needed[i]) {
                at[i] = translate(p.steps[i], at, leaf, forward);
                if (at[i] == none) return none;
            }
        return at[p.results[wanted]];
    }

private:
    static constexpr std::size_t most_op_steps = 512;

    constexpr std::uint16_t fail(link_fault f) noexcept {
        if (fault == link_fault::none) fault = f;
        return none;
    }
    /// Operands whose data is read: what gives only its shape stands last, and every operand of the kernel is laid over
    /// the kernel's one shape already.
    static constexpr std::size_t data_operands(const symbol::step& s) noexcept {
        using enum symbol::operation;
        switch (s.op) {
        case shape_of:
            return 0;
        case broadcast:
        case broadcast_mean:
        case along_axis:
        case one_hot:
            return 1;
        default:
            return s.arity;
        }
    }
    constexpr bool same_row(const axes& over) noexcept {
        axes these = over;
        these.kept = false;
        if (!reduces) reduced = these;
        reduces = true;
        return reduced == these;
    }
    /// The same for a step that tells no axes, but counts along those that its op reduces.
    constexpr bool same_row(const symbol::program_view& forward) noexcept {
        for (const auto& s : forward.steps)
            if (is_reduction(s.op) && !same_row(s.parameter.axes)) return false;
        return true;
    }
    static constexpr bool is_reduction(symbol::operation o) noexcept {
        using enum symbol::operation;
        return o == sum || o == mean || o == max_over;
    }
    /// Whether step `a` has one value per row because the row was reduced: it has no such axes any more, so that
    /// whoever reduces it means others.
    constexpr bool is_reduced(std::uint16_t a) const noexcept {
        enum class is : std::uint8_t { constant, per_row, per_element };
        std::array<is, most_steps> known{};
        for (std::size_t i = 0; i <= a; ++i) {
            const step& s = steps[i];
            known[i] = s.kind == step_kind::operand || s.kind == step_kind::row_index ? is::per_element
                                                                                      : is::constant;
            for (std::size_t k = 0; s.kind != step_kind::operand && k < s.arity; ++k)
                if (known[s.operands[k]] > known[i]) known[i] = known[s.operands[k]];
            if (is_row_reduction(s.kind)) known[i] = is::per_row;
        }
        return known[a] == is::per_row;
    }
    template <class Leaf>
    constexpr std::uint16_t translate(const symbol::step& s,
                                      const std::array<std::uint16_t, most_op_steps>& at, Leaf leaf,
                                      const symbol::program_view& forward) {
        using enum symbol::operation;
        const auto a = at[s.operands[0]];
        if (s.op == literal) return number({step_kind::literal, {}, 0, {}, s.parameter.number});
        if (symbol::is_leaf(s.op)) {
            const std::uint16_t found = leaf(s.op, s.operands[0]);
            return found == none ? fail(link_fault::reads_unused) : found;
        }
        if (symbol::is_elementwise(s.op)) {
            std::array<std::uint16_t, 3> operands{};
            for (std::size_t k = 0; k < s.arity; ++k) operands[k] = at[s.operands[k]];
            return elementwise(s.op, s.arity, operands);
        }
        switch (s.op) {
        case broadcast:
        case along_axis:
            return a;
        case broadcast_mean:
            if (!same_row(forward)) return fail(link_fault::different_axes);
            return elementwise(divide, 2, {a, number({step_kind::row_length, {}, 0, {}, 0})});
        case one_hot: {
            if (!same_row(forward)) return fail(link_fault::different_axes);
            const auto index = number({step_kind::row_index, {}, 0, {}, 0});
            const auto one = number({step_kind::literal, {}, 0, {}, 1});
            const auto zero = number({step_kind::literal, {}, 0, {}, 0});
            return elementwise(select, 3, {elementwise(equal, 2, {a, index}), one, zero});
        }
        case sum:
        case mean:
        case max_over: {
            if ((reduces && is_reduced(a)) || !same_row(s.parameter.axes))
                return fail(link_fault::different_axes);
            const auto total = unary(s.op == max_over ? step_kind::row_max : step_kind::row_sum, a);
            if (s.op != mean) return total;
            return elementwise(divide, 2, {total, number({step_kind::row_length, {}, 0, {}, 0})});
        }
        default:
            return fail(link_fault::not_fusible);
        }
    }
};

/// Threads that a multiprocessor should hold of an element-wise kernel of these steps; 0: any number.
///
/// A kernel of few tensors has few loads in flight, so that many threads must hide what it waits for. With 2048 of them
/// resident each has 32 registers: enough for few steps, unless they call functions that need more and would spill.
constexpr int wanted_threads(std::span<const step> steps, std::size_t tensors) noexcept {
    using enum symbol::operation;
    if (tensors > 4 || steps.size() > 16) return 0;
    for (const step& s : steps)
        for (const auto function : {divide, log, erf, sqrt, rsqrt, sin, cos, pow})
            if (s.kind == step_kind::elementwise && s.op == function) return 0;
    return 2048;
}

/// A vector within a constant expression.
template <class T, std::size_t Capacity>
struct fixed_vector {
    std::array<T, Capacity> items{}; ///< The first `count` are there.
    std::size_t count = 0;           ///< How many are there.
    /// How many are there.
    constexpr std::size_t size() const noexcept { return count; }
    /// Adds one; there must be room.
    constexpr void push_back(const T& item) { items[count++] = item; }
    /// One of them.
    constexpr const T& operator[](std::size_t i) const noexcept { return items[i]; }
};

} // namespace echo::cuda::fused
