// SPDX-License-Identifier: BSL-1.0
/// @file
/// What fusing does to storage and traffic: bytes that the fused kernel reads and writes against the sequence of one
/// kernel per op, and the bytes of the maps that are never written. Constants of the kernel's type and the sizes.
#pragma once

#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/fused_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace echo::cuda::fused {

/// Bytes over the memory bus, each element counted once: what is repeated along an axis, or read in several passes over
/// a row, is read from memory once and then from a cache.
struct traffic {
    std::uint64_t read = 0;    ///< Bytes from memory.
    std::uint64_t written = 0; ///< Bytes to memory.
    /// Bytes both ways.
    constexpr std::uint64_t total() const noexcept { return read + written; }
    friend constexpr bool operator==(const traffic&, const traffic&) = default;
};

/// One kernel against one per op. `between`: bytes of the values between the ops, which only the sequence writes, reads
/// and holds.
struct comparison {
    traffic fused{};           ///< Of one kernel for all ops.
    traffic unfused{};         ///< Of one kernel for each op.
    std::uint64_t between = 0; ///< Bytes that only the sequence writes and reads.
    std::uint64_t kernels = 0; ///< of the sequence
    friend constexpr bool operator==(const comparison&, const comparison&) = default;
};

/// A tensor as the counts see it: how it is stored, and its own extents, laid over the others' from the last axis on.
struct sized {
    storage kind = storage::f32; ///< How its elements are stored.
    extents own{};               ///< Without what broadcasting adds.
};

namespace detail {

/// Extents of what broadcasts of both cover.
constexpr extents together(const extents& a, const extents& b) noexcept {
    extents e = a.rank < b.rank ? b : a;
    const extents& less = a.rank < b.rank ? a : b;
    for (std::size_t back = 1; back <= less.rank; ++back) {
        auto& extent = e.of[e.rank - back];
        if (extent == 1) extent = less.of[less.rank - back];
    }
    return e;
}
constexpr extents rows_only(extents e, std::size_t row_axes) noexcept {
    for (std::size_t back = 1; back <= row_axes && back <= e.rank; ++back) e.of[e.rank - back] = 1;
    return e;
}

template <class Arguments>
struct op_alone;
template <std::size_t... I>
struct op_alone<std::index_sequence<I...>> {
    template <std::size_t K, class Op>
    using forward = fuse<output<K, apply<Op, arg<I>...>>>;
    template <std::size_t Input, class Op>
    using backward = fuse<gradient<Op, Input, arg<I>...>>;
};

/// One op's kernel: which of its parts it reads, and whether its result has one element per row.
template <class E>
struct call_of {
    static constexpr bool is_kernel = false;
};
template <std::size_t K, class Op, class... E>
struct call_of<output<K, apply<Op, E...>>> {
    static constexpr bool is_kernel = true;
    using call = apply<Op, E...>;
    using alone = typename op_alone<std::index_sequence_for<E...>>::template forward<K, Op>;
};
template <class Op, std::size_t I, class... E>
struct call_of<gradient<Op, I, E...>> {
    static constexpr bool is_kernel = true;
    using call = gradient<Op, 0, E...>;
    using alone = typename op_alone<std::index_sequence_for<E...>>::template backward<I, Op>;
};

/// Whether two results come from one run of an op: equal arguments, where both read them.
template <class A, class B>
inline constexpr bool same_call = std::is_same_v<A, B>;
template <class Op, class... A, class... B>
inline constexpr bool same_call<gradient<Op, 0, A...>, gradient<Op, 0, B...>> =
    ((std::is_same_v<A, B> || std::is_same_v<A, unused> || std::is_same_v<B, unused>)&&...);

template <class F, class List>
struct counted;
template <class F, class... E>
struct counted<F, type_list<E...>> {
    using list = type_list<E...>;
    static constexpr std::size_t size = sizeof...(E);

    const std::array<sized, F::inputs>& operands;
    storage between;
    std::size_t row_axes;
    std::array<sized, size + 1> of{};

    constexpr std::uint64_t bytes(std::size_t i) const noexcept {
        return bytes_of(of[i].kind, static_cast<std::uint64_t>(of[i].own.elements()));
    }

    template <class One>
    constexpr void measure() noexcept {
        constexpr std::size_t i = index_in<One, list>;
        of[i].kind = between;
        measure_parts(i, One{}, typename parts<One>::type{});
    }
    template <std::size_t I>
    constexpr void measure_parts(std::size_t i, arg<I>, type_list<>) noexcept {
        of[i] = operands[I];
    }
    constexpr void measure_parts(std::size_t, unused, type_list<>) noexcept {}
    template <class One, class... P>
    constexpr void measure_parts(std::size_t i, One, type_list<P...>) noexcept {
        ((of[i].own = together(of[i].own, of[index_in<P, list>].own)), ...);
        if constexpr (call_of<One>::is_kernel)
            if (call_of<One>::alone::result_by_row.contains(0)) of[i].own = rows_only(of[i].own, row_axes);
    }

    /// Adds what the kernel behind `One` reads that no earlier result of the same call has read.
    template <class One>
    constexpr void add_call(comparison& to) const noexcept {
        if constexpr (call_of<One>::is_kernel) {
            constexpr std::size_t own = index_in<One, list>;
            bool first = true;
            ((index_in<E, list> < own && comes_from_same<E, One>() ? first = false : false), ...);
            to.kernels += first;
            add_reads<One>(to, typename parts<One>::type{});
            to.unfused.written += bytes(own);
        }
    }
    template <class A, class B>
    static constexpr bool comes_from_same() noexcept {
        if constexpr (call_of<A>::is_kernel && call_of<B>::is_kernel)
            return same_call<typename call_of<A>::call, typename call_of<B>::call>;
        else
            return false;
    }
    template <class A, class B, class Part>
    static constexpr bool also_reads() noexcept {
        if constexpr (index_in<A, list> < index_in<B, list> && comes_from_same<A, B>())
            return reads_part<A, Part>(typename parts<A>::type{});
        else
            return false;
    }
    template <class A, class Part, class... P>
    static constexpr bool reads_part(type_list<P...>) noexcept {
        std::size_t position = 0;
        bool found = false;
        ((found = found || (std::is_same_v<P, Part> && call_of<A>::alone::reads.contains(position)),
          ++position),
         ...);
        return found;
    }
    template <class One, class... P>
    constexpr void add_reads(comparison& to, type_list<P...>) const noexcept {
        positions read; // a part given twice is read once
        (add_read<One, P>(to, read), ...);
    }
    template <class One, class Part>
    constexpr void add_read(comparison& to, positions& read) const noexcept {
        constexpr std::size_t at = index_in<Part, list>;
        if (read.contains(at) || !reads_part<One, Part>(typename parts<One>::type{})) return;
        read.insert(at);
        if ((also_reads<E, One, Part>() || ...)) return;
        to.unfused.read += bytes(at);
    }
};

} // namespace detail

/// Counts for `F` with operands of these sizes. `results`: how each result is stored; `between`: how the sequence
/// stores what it writes between its ops. The last `row_axes` axes are a row. The unfused sequence runs each distinct
/// op once and reads what its lambda reads; all gradients of one op come from one kernel.
template <class F>
constexpr comparison compare_traffic(const std::array<sized, F::inputs>& operands,
                                     const std::array<storage, F::outputs>& results,
                                     storage between = storage::f32, std::size_t row_axes = 1) noexcept {
    comparison out;
    const auto count = [&]<class... E>(detail::type_list<E...>) {
        using counted = detail::counted<F, detail::type_list<E...>>;
        counted counts{operands, between, row_axes};
        (counts.template measure<E>(), ...);
        for (std::size_t k = 0; k < F::outputs; ++k) counts.of[F::result_positions[k]].kind = results[k];
        (counts.template add_call<E>(out), ...);
        positions written;
        for (std::size_t k = 0; k < F::outputs; ++k) {
            out.fused.written += counts.bytes(F::result_positions[k]);
            written.insert(F::result_positions[k]);
        }
        ((detail::call_of<E>::is_kernel && !written.contains(detail::index_in<E, detail::type_list<E...>>)
              ? out.between += counts.bytes(detail::index_in<E, detail::type_list<E...>>)
              : 0),
         ...);
    };
    count(typename F::expressions{});
    for (std::size_t i = 0; i < F::inputs; ++i)
        if (F::reads.contains(i))
            out.fused.read +=
                bytes_of(operands[i].kind, static_cast<std::uint64_t>(operands[i].own.elements()));
    return out;
}

} // namespace echo::cuda::fused
