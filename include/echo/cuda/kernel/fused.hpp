// SPDX-License-Identifier: BSL-1.0
/// @file
/// Bodies of fused kernels over the warp policy. Element-wise: each lane takes groups of neighbouring elements. By row:
/// each warp takes rows; its lanes read the row once for each level of reductions and once more to write.
///
/// The order in which a row is summed depends on its length and the element types only, not on addresses, strides or the
/// grid: group g of the row (4 or 8 elements) belongs to lane g % 32, each lane adds its elements in order, and lanes are
/// added in a butterfly over distances 16, 8, 4, 2, 1.
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

    /// Loads the operands that some step of pass `Pass` reads.
    template <std::size_t Pass, class Warp>
    ECHO_HOST_DEVICE void load(float (&x)[F::inputs + 1][width], const std::int64_t* at,
                               const group_place& g) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (([&] {
                 constexpr step s = F::program.of[I];
                 if constexpr (s.kind == step_kind::operand && in_pass<F, I, Pass>) {
                     constexpr std::size_t i = s.operands[0];
                     load_group<element<F::outputs + i>, width, Warp>(x[i], operands[F::outputs + i],
                                                                      at[F::outputs + i], g);
                 }
             }()),
             ...);
        }(std::make_index_sequence<F::steps>{});
    }

    /// Evaluates the results of one group and writes those that differ from element to element.
    template <class Warp>
    ECHO_HOST_DEVICE void write_group(const frame<F>& known, const std::int64_t* at, const group_place& g,
                                      row_place row) const {
        constexpr std::size_t pass = F::program.rows.passes;
        float x[F::inputs + 1][width], y[F::outputs][width];
        load<pass, Warp>(x, at, g);
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
                 if constexpr (!F::result_by_row.contains(K))
                     store_group<element<K>, width, Warp>(y[K], operands[K], at[K], g);
             }()),
             ...);
        }(std::make_index_sequence<F::outputs>{});
    }

    template <std::size_t I>
    using element = std::tuple_element_t<I, std::tuple<Elements...>>;
};

} // namespace detail

/// Runs a program that knows no rows. A tile is a warp's worth of groups.
template <class F, class... Elements>
struct elementwise_body : detail::body<F, Elements...> {
    static_assert(!F::by_row);
    using base = detail::body<F, Elements...>; ///< What both kinds of body have.

    ECHO_HOST_DEVICE std::int64_t tiles() const noexcept {
        return static_cast<std::int64_t>((this->shape.groups + warp_lanes - 1) / warp_lanes);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count())
            w.lanes([&](int lane) {
                const auto group =
                    static_cast<std::uint64_t>(tile) * warp_lanes + static_cast<std::uint64_t>(lane);
                if (group >= this->shape.groups) return;
                std::int64_t at[base::count] = {};
                std::uint64_t line = 0;
                if (this->shape.groups != this->shape.line_groups) {
                    line = detail::divide(group, this->shape.line_groups);
                    detail::add_offsets<base::count>(at, this->operands, line, this->shape.within);
                }
                const auto g =
                    detail::place_of<base::width>(group - line * this->shape.line_groups, this->shape);
                this->template write_group<Warp>(frame<F>{}, at, g, {});
            });
    }
};

/// Runs a program with reductions: a warp per row. A tile is a row.
template <class F, class... Elements>
struct row_body : detail::body<F, Elements...> {
    static_assert(F::by_row);
    using base = detail::body<F, Elements...>; ///< What both kinds of body have.

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
                walk(w, at,
                     [&](const std::int64_t* line, const detail::group_place& g, row_place place, int) {
                         this->template write_group<Warp>(known, line, g, place);
                     });
            w.lanes([&](int lane) {
                if (lane == 0) store_row(known, at);
            });
        }
    }

private:
    /// Calls f(offsets, group, place in the row, lane) for each group of the row, on the lane that has it. Where a row is
    /// several lines and a group lies across their ends, it is called for each part.
    template <class Warp, class Function>
    ECHO_HOST_DEVICE void walk(Warp& w, const std::int64_t* at, Function&& f) const {
        constexpr auto most = static_cast<std::int64_t>(base::width);
        w.lanes([&](int lane) {
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
                    f(offset,
                      detail::group_place{column - e, static_cast<std::uint32_t>(e),
                                          static_cast<std::uint32_t>(stop)},
                      row_place{begin, s.row_length}, lane);
                    e = stop;
                }
            }
        });
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
        walk(w, at, [&](const std::int64_t* line, const detail::group_place& g, row_place place, int lane) {
            float x[F::inputs + 1][base::width];
            this->template load<Pass, Warp>(x, line, g);
            for (std::uint32_t e = 0; e < base::width; ++e) {
                frame<F> f = known;
                float of[F::inputs + 1];
                for (std::size_t i = 0; i < F::inputs; ++i) of[i] = x[i][e];
                run_pass<F, Pass>(f, of, {place.index + e, place.length});
                if (e >= g.begin && e < g.end)
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
