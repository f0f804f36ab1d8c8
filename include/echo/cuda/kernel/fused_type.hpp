// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fuse<Results…>`: the expressions that one kernel computes, linked into one program at compile time.
#pragma once

#include <echo/cuda/kernel/fused_expression.hpp>

namespace echo::cuda::fused {
namespace detail {

template <class List>
struct link_all;
template <class... E>
struct link_all<type_list<E...>> {
    using list = type_list<E...>;
    static constexpr std::size_t capacity = (linked<E>::steps + ... + 1);
    static constexpr std::size_t operands = [] {
        std::size_t most = 0;
        ((most = std::max(most, linked<E>::operands)), ...);
        return most;
    }();

    struct outcome {
        linker<fixed_vector<step, capacity>> made{};
        std::array<std::uint16_t, sizeof...(E) + 1> at{};
    };
    static constexpr outcome make() {
        outcome o;
        const auto at = [&o]<class P>(P) { return o.at[index_in<P, list>]; };
        ((o.at[index_in<E, list>] = linked<E>::append(o.made, at)), ...);
        return o;
    }
};

} // namespace detail

/// One kernel: it reads operands arg<0>, arg<1>, … and writes one result for each expression. Every result covers the
/// kernel's whole shape, except one that is a reduction over rows (`result_by_row`): that has one element per row.
/// Errors, at compile time: an op that no fused kernel can hold, reductions over different axes, a lambda that reads an
/// argument given as `unused`, more than 16 operands and results.
template <class... Results>
struct fuse {
    static_assert(sizeof...(Results) > 0, "echo: a fused kernel has at least one result");

    /// The distinct subexpressions, each behind what it reads.
    using expressions =
        typename detail::collected_all<detail::type_list<>, detail::canonical_t<Results>...>::type;
    /// How many operands the kernel reads.
    static constexpr std::size_t inputs = detail::link_all<expressions>::operands;
    /// How many results it writes.
    static constexpr std::size_t outputs = sizeof...(Results);
    static constexpr std::size_t operands = inputs + outputs; ///< Both together: results stand first.
    static_assert(operands <= most_operands, "echo: a fused kernel has at most 16 operands and results");
    /// Where each result stands among `expressions`.
    static constexpr std::array<std::size_t, outputs> result_positions{
        detail::index_in<detail::canonical_t<Results>, expressions>...};

private:
    static constexpr auto linked = detail::link_all<expressions>::make();
    static constexpr link_fault fault = linked.made.fault;
    static_assert(fault != link_fault::reads_unused,
                  "echo: an op of a fused kernel reads an argument that is given as `unused`");
    static_assert(fault != link_fault::not_fusible,
                  "echo: an op of a fused kernel is neither element-wise nor a reduction of rows");
    static_assert(fault != link_fault::no_gradient, "echo: an op has no gradient for that input");
    static_assert(fault != link_fault::different_axes,
                  "echo: the ops of a fused kernel reduce over different axes; give each its own kernel");
    static_assert(fault != link_fault::too_long, "echo: a fused kernel has too many steps");

    static constexpr std::array<std::uint16_t, outputs> all_results{
        linked.at[detail::index_in<detail::canonical_t<Results>, expressions>]...};
    struct timed {
        std::array<timing_of_step, linked.made.steps.count + 1> of{};
        row_schedule rows{};
    };
    static constexpr timed timed_all = [] {
        timed t;
        if constexpr (fault == link_fault::none)
            t.rows = schedule({linked.made.steps.items.data(), linked.made.steps.count}, all_results, t.of);
        return t;
    }();

public:
    /// Steps that a result depends on.
    static constexpr std::size_t steps = [] {
        std::size_t live = 0;
        for (std::size_t i = 0; i < linked.made.steps.count; ++i) live += timed_all.of[i].live;
        return live;
    }();

    /// The steps and when each is known.
    struct program_type {
        std::array<step, steps> of{};                 ///< What is computed, in this order.
        std::array<std::uint16_t, outputs> results{}; ///< The step of each result.
        std::array<timing_of_step, steps> timing{};   ///< When each step is known.
        row_schedule rows{};                          ///< How often a row is read.
    };
    /// The program, made at compile time.
    static constexpr program_type program = [] {
        program_type p;
        std::array<std::uint16_t, linked.made.steps.count + 1> moved{};
        std::size_t next = 0;
        for (std::size_t i = 0; i < linked.made.steps.count; ++i) {
            if (!timed_all.of[i].live) continue;
            step s = linked.made.steps[i];
            for (std::size_t k = 0; k < step_operands(s); ++k) s.operands[k] = moved[s.operands[k]];
            p.of[next] = s;
            moved[i] = static_cast<std::uint16_t>(next++);
        }
        for (std::size_t k = 0; k < outputs; ++k) p.results[k] = moved[all_results[k]];
        if constexpr (fault == link_fault::none) p.rows = schedule(p.of, p.results, p.timing);
        return p;
    }();
    static_assert(program.rows.passes <= most_passes,
                  "echo: a fused kernel has more dependent reductions than it can make");

    /// Operands whose data the kernel reads. Others may be null.
    static constexpr positions reads = [] {
        positions r;
        for (const step& s : program.of)
            if (s.kind == step_kind::operand) r.insert(s.operands[0]);
        return r;
    }();
    /// Whether the program knows rows: it reduces over the last axes of its shape, or asks for a row's length.
    static constexpr bool by_row = program.rows.by_row;
    /// Whether it compares labels with positions in a row.
    static constexpr bool reads_row_index = has_row_index(program.of);
    /// Results that have one element per row.
    static constexpr positions result_by_row = [] {
        positions r;
        for (std::size_t k = 0; k < outputs; ++k)
            if (by_row && program.timing[program.results[k]].uniform) r.insert(k);
        return r;
    }();
};

} // namespace echo::cuda::fused
