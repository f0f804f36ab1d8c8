// SPDX-License-Identifier: BSL-1.0
/// @file
/// Bodies of fused kernels over the warp policy. Element-wise: each lane takes groups of neighbouring elements. By row:
/// each warp takes rows; its lanes read the row once for each level of reductions and once more to write.
///
/// The order in which a row is summed depends on its length and the element types only, not on addresses, strides or
/// the grid: group g of the row (4 or 8 elements) belongs to lane g % 32, each lane adds its elements in order, and
/// lanes are added in a butterfly over distances 16, 8, 4, 2, 1.
#pragma once

#include <echo/cuda/kernel/fused_access.hpp>
#include <echo/cuda/kernel/fused_evaluate.hpp>
#include <echo/cuda/kernel/warp.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace echo::cuda::fused {
namespace detail {

/// What both bodies share. `Elements`: how results, then operands are stored.
template <class F, class... Elements>
struct body {
    static constexpr std::size_t count = F::operands;
    static_assert(sizeof...(Elements) == count);
    static constexpr std::uint32_t width = ((sizeof(Elements) == 2) || ...) ? 8 : 4;

    launch_shape shape{};
    launch_operand operands[count]{};

    template <std::size_t I>
    using element = std::tuple_element_t<I, std::tuple<Elements...>>;

    /// Calls f.template operator()<operand>() for each operand that some step of pass `Pass` reads.
    template <std::size_t Pass, class Function>
    ECHO_HOST_DEVICE static void each_read(Function&& f) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (([&] {
                 constexpr step s = F::program.of[I];
                 if constexpr (s.kind == step_kind::operand && in_pass<F, I, Pass>)
                     f.template operator()<s.operands[0]>();
             }()),
             ...);
        }(std::make_index_sequence<F::steps>{});
    }

    /// Loads the operands of a pass: all are asked for before the first is converted.
    template <std::size_t Pass, class Group>
    ECHO_HOST_DEVICE static void load(float (&x)[F::inputs + 1][width], const Group& group) {
        [&]<std::size_t... All>(std::index_sequence<All...>) {
            std::tuple<raw_group<element<F::outputs + All>, width>...> raw;
            each_read<Pass>([&]<std::size_t I>() { group.load(std::get<I>(raw), F::outputs + I); });
            each_read<Pass>([&]<std::size_t I>() {
                for (std::uint32_t e = 0; e < width; ++e) x[I][e] = std::get<I>(raw).get(e);
            });
        }(std::make_index_sequence<F::inputs>{});
    }

    /// Evaluates the results of one group and writes those that differ from element to element.
    template <class Group>
    ECHO_HOST_DEVICE static void write_group(const frame<F>& known, const Group& group, row_place row) {
        constexpr std::size_t pass = F::program.rows.passes;
        float x[F::inputs + 1][width], y[F::outputs][width];
        load<pass>(x, group);
        for (std::uint32_t e = 0; e < width; ++e) {
            frame<F> f = known;
            float of[F::inputs + 1];
            for (std::size_t i = 0; i < F::inputs; ++i) of[i] = x[i][e];
            run_pass<F, pass>(f, of, {row.index + e, row.length});
            [&]<std::size_t... K>(std::index_sequence<K...>) {
                ((y[K][e] = f.number[F::program.results[K]].value()), ...);
            }(std::make_index_sequence<F::outputs>{});
        }
        [&]<std::size_t... K>(std::index_sequence<K...>) {
            (([&] {
                 if constexpr (!F::result_by_row.contains(K)) group.template store<element<K>>(y[K], K);
             }()),
             ...);
        }(std::make_index_sequence<F::outputs>{});
    }
};

} // namespace detail

/// Runs a program that knows no rows. A tile is a warp's worth of groups.
template <class F, class... Elements>
struct elementwise_body : detail::body<F, Elements...> {
    static_assert(!F::by_row);
    using base = detail::body<F, Elements...>; ///< What both kinds of body have.

    /// Threads that a multiprocessor should hold; 0: any number.
    static constexpr int resident_threads = wanted_threads(F::program.of, F::operands);

    ECHO_HOST_DEVICE std::int64_t tiles() const noexcept {
        return static_cast<std::int64_t>((this->shape.groups + warp_lanes - 1) / warp_lanes);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        if (this->shape.walk == walking::lines) return walk_lines<false>(w);
        if (this->shape.walk == walking::repeating) return walk_lines<true>(w);
        if (this->shape.walk == walking::flat) walk_flat(w);
        walk_any(w);
    }

private:
    template <class Warp, bool Repeats, class Index>
    using whole = detail::whole_group<base::width, Warp, Repeats, Index>;

    template <bool Repeats, class Warp>
    ECHO_HOST_DEVICE void walk_lines(Warp& w) const {
        const launch_shape& s = this->shape;
        const auto groups = static_cast<std::uint32_t>(s.groups);
        const auto stride = static_cast<std::uint32_t>(w.count()) * warp_lanes;
        for (auto begin = static_cast<std::uint32_t>(w.index()) * warp_lanes; begin < groups; begin += stride)
            w.lanes([&](int lane) {
                const std::uint32_t group = begin + static_cast<std::uint32_t>(lane);
                if (group >= groups) return;
                const division in_line(group, s.by_line_groups);
                const division inner(in_line.quotient, s.by_within[1]);
                const division outer(inner.quotient, s.by_within[0]);
                const std::uint32_t column = in_line.rest * base::width;
                std::uint32_t first[base::count];
                for (std::size_t i = 0; i < base::count; ++i) {
                    const auto& step = this->operands[i].step;
                    first[i] = column + inner.rest * static_cast<std::uint32_t>(step[2]) +
                               outer.rest * static_cast<std::uint32_t>(step[1]) +
                               outer.quotient * static_cast<std::uint32_t>(step[0]);
                }
                base::write_group(frame<F>{},
                                  whole<Warp, Repeats, std::uint32_t>{this->operands, first, column}, {});
            });
    }

    template <class Warp>
    ECHO_HOST_DEVICE void walk_flat(Warp& w) const {
        const launch_shape& s = this->shape;
        const auto groups = static_cast<std::uint32_t>(s.groups);
        const auto stride = static_cast<std::uint32_t>(w.count()) * warp_lanes;
        for (auto begin = static_cast<std::uint32_t>(w.index()) * warp_lanes; begin < groups; begin += stride)
            w.lanes([&](int lane) {
                const std::uint32_t group = begin + static_cast<std::uint32_t>(lane);
                if (group - s.first_whole >= s.whole) return;
                std::int64_t first[base::count];
                for (std::size_t i = 0; i < base::count; ++i)
                    first[i] = std::int64_t{group} * base::width - s.shift;
                base::write_group(frame<F>{}, whole<Warp, false, std::int64_t>{this->operands, first, 0}, {});
            });
    }

    /// All groups; behind `walk_flat` those of the first and the last tile that it has left.
    template <class Warp>
    ECHO_HOST_DEVICE void walk_any(Warp& w) const {
        const launch_shape& s = this->shape;
        const bool flat = s.walk == walking::flat;
        const std::int64_t last = tiles(), stride = flat && last > 2 ? last - 1 : 1;
        for (std::int64_t tile = w.index() * stride; tile < last; tile += w.count() * stride)
            w.lanes([&](int lane) {
                const auto group =
                    static_cast<std::uint64_t>(tile) * warp_lanes + static_cast<std::uint64_t>(lane);
                if (group >= s.groups || (flat && group - s.first_whole < s.whole)) return;
                std::int64_t at[base::count] = {};
                std::uint64_t line = 0;
                if (s.groups != s.line_groups) {
                    line = detail::divide(group, s.line_groups);
                    detail::add_offsets<base::count>(at, this->operands, line, s.within);
                }
                base::write_group(
                    frame<F>{},
                    detail::any_group<base::width, Warp>{
                        this->operands, at, detail::place_of<base::width>(group - line * s.line_groups, s)},
                    {});
            });
    }
};

/// Runs a program with reductions: a warp per row. A tile is a row.
template <class F, class... Elements>
struct row_body : detail::body<F, Elements...> {
    static_assert(F::by_row);
    using base = detail::body<F, Elements...>; ///< What both kinds of body have.

    /// Threads that a multiprocessor should hold from sm_100 on: for more the compiler would keep words of a row in
    /// local memory.
    static constexpr int resident_threads_from_100 = 896;

    ECHO_HOST_DEVICE std::int64_t tiles() const noexcept {
        return static_cast<std::int64_t>(this->shape.rows);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t row = w.index(); row < tiles(); row += w.count()) {
            std::int64_t at[base::count] = {};
            detail::add_offsets<base::count>(at, this->operands, static_cast<std::uint64_t>(row),
                                             this->shape.outer);
            frame<F> known;
            run_row<F, 0>(known, {0, this->shape.row_length});
            [&]<std::size_t... Pass>(std::index_sequence<Pass...>) {
                (reduce<Pass>(w, known, at), ...);
            }(std::make_index_sequence<F::program.rows.passes>{});
            if constexpr (F::program.rows.writes_elements)
                walk(w, at, [&](const auto& group, row_place place, int) {
                    base::write_group(known, group, place);
                });
            w.lanes([&](int lane) {
                if (lane == 0) store_row(known, at);
            });
        }
    }

private:
    /// Calls f(group, place in the row, lane) for each group of the row, on the lane that has it. Where a row is
    /// several lines and a group lies across their ends, it is called for each part.
    template <class Warp, class Function>
    ECHO_HOST_DEVICE void walk(Warp& w, const std::int64_t* at, Function&& f) const {
        if (this->shape.walk == walking::repeating)
            w.lanes([&](int lane) { walk_whole<Warp>(lane, at, f); });
        else
            w.lanes([&](int lane) { walk_any<Warp>(lane, at, f); });
    }

    template <class Warp, class Function>
    ECHO_HOST_DEVICE void walk_whole(int lane, const std::int64_t* at, Function& f) const {
        for (auto group = static_cast<std::uint64_t>(lane); group < this->shape.groups; group += warp_lanes) {
            const auto begin = static_cast<std::int64_t>(group * base::width);
            std::int64_t first[base::count];
            for (std::size_t i = 0; i < base::count; ++i) first[i] = at[i] + begin;
            f(detail::whole_group<base::width, Warp, true, std::int64_t>{this->operands, first, begin},
              row_place{begin, this->shape.row_length}, lane);
        }
    }

    template <class Warp, class Function>
    ECHO_HOST_DEVICE void walk_any(int lane, const std::int64_t* at, Function& f) const {
        constexpr auto most = static_cast<std::int64_t>(base::width);
        const launch_shape& s = this->shape;
        for (auto group = static_cast<std::uint64_t>(lane); group < s.groups; group += warp_lanes) {
            const auto begin = static_cast<std::int64_t>(group) * most;
            const std::int64_t left = s.row_length - begin, end = left < most ? left : most;
            for (std::int64_t e = 0; e < end;) {
                std::int64_t offset[base::count];
                for (std::size_t i = 0; i < base::count; ++i) offset[i] = at[i];
                std::int64_t column = begin + e;
                if (s.row_length != s.line) {
                    const auto line = detail::divide(static_cast<std::uint64_t>(column),
                                                     static_cast<std::uint64_t>(s.line));
                    detail::add_offsets<base::count>(offset, this->operands, line, s.within);
                    column -= static_cast<std::int64_t>(line) * s.line;
                }
                const std::int64_t stop = end - e < s.line - column ? end : e + s.line - column;
                f(detail::any_group<base::width, Warp>{this->operands,
                                                       offset,
                                                       {column - e, static_cast<std::uint32_t>(e),
                                                        static_cast<std::uint32_t>(stop)}},
                  row_place{begin, s.row_length}, lane);
                e = stop;
            }
        }
    }

    /// One pass: all reductions whose operands are known after `Pass` passes.
    template <std::size_t Pass, class Warp>
    ECHO_HOST_DEVICE void reduce(Warp& w, frame<F>& known, const std::int64_t* at) const {
        struct sums {
            float of[F::steps];
        };
        typename Warp::template value<sums> total;
        w.lanes([&](int lane) {
            each_reduction<Pass>([&]<std::size_t I>(auto how) { total[lane].of[I] = how.none(); });
        });
        walk(w, at, [&](const auto& group, row_place place, int lane) {
            float x[F::inputs + 1][base::width];
            base::template load<Pass>(x, group);
            for (std::uint32_t e = 0; e < base::width; ++e) {
                frame<F> f = known;
                float of[F::inputs + 1];
                for (std::size_t i = 0; i < F::inputs; ++i) of[i] = x[i][e];
                run_pass<F, Pass>(f, of, {place.index + e, place.length});
                if (group.has(e))
                    each_reduction<Pass>([&]<std::size_t I>(auto how) {
                        float& t = total[lane].of[I];
                        t = how.both(t, f.number[F::program.of[I].operands[0]].value());
                    });
            }
        });
        each_reduction<Pass>([&]<std::size_t I>(auto how) {
            typename Warp::template value<float> t;
            w.lanes([&](int lane) { t[lane] = total[lane].of[I]; });
            for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
                const auto other = w.shuffle(t, [distance](int lane) { return lane ^ distance; });
                w.lanes([&](int lane) { t[lane] = how.both(t[lane], other[lane]); });
            }
            // Lanes may differ in the sign of a zero or in the bits of a NaN: lane 0 decides.
            known.number[I] = w.shuffle(t, [](int) { return 0; })[0];
        });
        run_row<F, Pass + 1>(known, {0, this->shape.row_length});
    }

    /// f.template operator()<I>(accumulator) for each reduction of the pass.
    template <std::size_t Pass, class Function>
    ECHO_HOST_DEVICE static void each_reduction(Function&& f) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (([&] {
                 if constexpr (detail::reduced_by<F, I, Pass>)
                     f.template operator()<I>(accumulator<F::program.of[I].kind>{});
             }()),
             ...);
        }(std::make_index_sequence<F::steps>{});
    }

    ECHO_HOST_DEVICE void store_row(const frame<F>& known, const std::int64_t* at) const {
        [&]<std::size_t... K>(std::index_sequence<K...>) {
            (([&] {
                 if constexpr (F::result_by_row.contains(K)) {
                     using stored = typename base::template element<K>;
                     static_cast<stored*>(this->operands[K].data)[at[K]] =
                         static_cast<stored>(known.number[F::program.results[K]].value());
                 }
             }()),
             ...);
        }(std::make_index_sequence<F::outputs>{});
    }
};

} // namespace echo::cuda::fused
