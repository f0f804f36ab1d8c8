// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sums over some axes, in double and in an order that depends on the shape alone. A sum is one warp's, whose lanes
/// take every 32nd term, where the last axis is summed and long; else one lane's, beside those of its neighbours. Where
/// that gives too few warps, the terms are cut into parts whose sums are added by a second launch.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/rows.hpp"
#include "engine/cuda/kernels/strided.hpp"
#include "engine/op.hpp"

#include <algorithm>

namespace engine::cuda {

/// Several sums that are made together.
template <int Count>
struct some_sums {
    double at[Count];
};

/// What a launch sums: element (kept, term) of operand i lies at kept's position plus term's.
template <int N>
struct sum_layout {
    axes<N> kept{}, terms{};
    std::int64_t results = 1, count = 1; ///< sums, and terms of each
    std::int64_t parts = 1, part = 1;    ///< of a sum, and the terms of each but the last
    bool by_row = false;                 ///< one warp for each part, else one lane
    divisor blocks{};                    ///< tiles of a part

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept {
        return by_row ? results * parts : static_cast<std::int64_t>(blocks.value()) * parts;
    }
};

/// Terms that are read before the first of them is added.
inline constexpr int terms_at_once = 4;

/// `F`: `operands`; `sums`; `terms(kept, at)`: what the element there adds. `Finish`: `finish(kept, sums)`.
template <class F, class Finish>
struct sum_body {
    static constexpr int operands = F::operands, sums = F::sums;
    using some = some_sums<sums>;
    sum_layout<operands> over;
    F f;
    Finish finish;
    double* partial = nullptr; ///< [results, parts, sums] where there are several parts

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return over.tiles(); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t tile = w.index(); tile < tiles(); tile += w.count()) {
            if (over.by_row)
                row(w, tile);
            else
                columns(w, tile);
        }
    }

private:
    /// Adds terms `begin`, `begin` + step, .. below `end`.
    ECHO_HOST_DEVICE some add(std::int64_t kept, std::int64_t begin, std::int64_t end,
                              std::int64_t step) const {
        std::int32_t from[operands]{};
        over.kept.add(static_cast<std::uint32_t>(kept), from);
        some total{};
        std::int64_t term = begin;
        for (; term + (terms_at_once - 1) * step < end; term += terms_at_once * step) {
            std::int32_t at[terms_at_once][operands];
            each<terms_at_once>([&](auto k) {
                for (int i = 0; i < operands; ++i) at[k][i] = from[i];
                over.terms.add(static_cast<std::uint32_t>(term + k * step), at[k]);
            });
            some added[terms_at_once];
            each<terms_at_once>([&](auto k) { added[k] = f.terms(kept, at[k]); });
            each<terms_at_once>([&](auto k) {
                for (int s = 0; s < sums; ++s) total.at[s] += added[k].at[s];
            });
        }
        for (; term < end; term += step) {
            std::int32_t at[operands];
            for (int i = 0; i < operands; ++i) at[i] = from[i];
            over.terms.add(static_cast<std::uint32_t>(term), at);
            const some added = f.terms(kept, at);
            for (int s = 0; s < sums; ++s) total.at[s] += added.at[s];
        }
        return total;
    }
    ECHO_HOST_DEVICE void done(std::int64_t kept, std::int64_t part, const some& total) const {
        if (over.parts == 1) {
            finish.finish(kept, total);
            return;
        }
        for (int s = 0; s < sums; ++s) partial[(kept * over.parts + part) * sums + s] = total.at[s];
    }

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t tile) const {
        const std::int64_t kept = over.parts == 1 ? tile : tile / over.parts, part = tile - kept * over.parts;
        const std::int64_t begin = part * over.part, rest = over.count - begin;
        const std::int64_t end = begin + (rest < over.part ? rest : over.part);
        typename Warp::template value<some> total;
        w.lanes([&](int lane) { total[lane] = add(kept, begin + lane, end, echo::cuda::warp_lanes); });
        some all{};
        for (int s = 0; s < sums; ++s) {
            typename Warp::template value<double> one;
            w.lanes([&](int lane) { one[lane] = total[lane].at[s]; });
            all.at[s] = sum_of_lanes(w, one);
        }
        w.lanes([&](int lane) {
            if (lane == 0) done(kept, part, all);
        });
    }
    template <class Warp>
    ECHO_HOST_DEVICE void columns(Warp& w, std::int64_t tile) const {
        const division d(tile, over.blocks);
        const std::int64_t part = static_cast<std::int64_t>(d.quotient), begin = part * over.part;
        const std::int64_t rest = over.count - begin, end = begin + (rest < over.part ? rest : over.part);
        w.lanes([&](int lane) {
            const std::int64_t kept = static_cast<std::int64_t>(d.rest) * echo::cuda::warp_lanes + lane;
            if (kept < over.results) done(kept, part, add(kept, begin, end, 1));
        });
    }
};

/// Adds the parts, a warp for each sum.
template <int Sums, class Finish>
struct sum_parts_body {
    const double* partial;
    std::int64_t results, parts;
    Finish finish;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return results; }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for (std::int64_t kept = w.index(); kept < results; kept += w.count()) {
            some_sums<Sums> all{};
            for (int s = 0; s < Sums; ++s) {
                typename Warp::template value<double> one;
                w.lanes([&](int lane) {
                    double sum = 0;
                    for (std::int64_t p = lane; p < parts; p += echo::cuda::warp_lanes)
                        sum += partial[(kept * parts + p) * Sums + s];
                    one[lane] = sum;
                });
                all.at[s] = sum_of_lanes(w, one);
            }
            w.lanes([&](int lane) {
                if (lane == 0) finish.finish(kept, all);
            });
        }
    }
};

/// Axes of a sum as they are put together, outermost first.
template <int N>
class sum_axes {
public:
    void push(std::int64_t extent, bool summed, const typename axis_list<N>::steps& step) {
        if (extent == 1) return;
        (summed ? terms_ : kept_).push(extent, step);
        last_ = summed;
    }

    /// How the sums are shared out: at least 1,024 terms for each warp, 32 for each lane.
    sum_layout<N> made() const {
        constexpr std::int64_t enough_warps = 4096, most_parts = 1024;
        sum_layout<N> to{
            .kept = kept_.made(), .terms = terms_.made(), .results = kept_.count(), .count = terms_.count()};
        to.by_row = last_ && to.count > 2 * echo::cuda::warp_lanes;
        const std::int64_t blocks = (to.results + echo::cuda::warp_lanes - 1) / echo::cuda::warp_lanes,
                           least = to.by_row ? 1024 : 32;
        const std::int64_t warps = std::max<std::int64_t>(1, to.by_row ? to.results : blocks);
        const std::int64_t wanted =
            std::min({(enough_warps + warps - 1) / warps, (to.count + least - 1) / least, most_parts});
        to.part = wanted > 1 ? (to.count + wanted - 1) / wanted : std::max<std::int64_t>(to.count, 1);
        to.parts = std::max<std::int64_t>(1, (to.count + to.part - 1) / to.part);
        to.blocks = divisor(static_cast<std::uint64_t>(blocks));
        return to;
    }

private:
    axis_list<N> kept_, terms_;
    bool last_ = false;
};

/// Bytes of scratch memory that a sum wants.
template <int N>
std::uint64_t sum_scratch(const sum_layout<N>& over, int sums) {
    return over.parts == 1
               ? 0
               : scratch_bytes<double>(static_cast<std::uint64_t>(over.results * over.parts * sums));
}

/// Starts it; `partial` is of `sum_scratch` bytes.
template <class F, class Finish, class Launcher>
void run_sums(std::string_view name, const sum_layout<F::operands>& over, const F& f, const Finish& finish,
              double* partial, Launcher& launcher) {
    if (over.results == 0) return;
    launcher(name, sum_body<F, Finish>{over, f, finish, partial});
    if (over.parts > 1)
        launcher(name, sum_parts_body<F::sums, Finish>{partial, over.results, over.parts, finish});
}

/// Writes one sum times a factor.
struct write_sum {
    float* y;
    double factor;
    ECHO_HOST_DEVICE void finish(std::int64_t kept, const some_sums<1>& sum) const {
        y[kept] = static_cast<float>(sum.at[0] * factor);
    }
};

/// The elements themselves.
struct plain_terms {
    static constexpr int operands = 1, sums = 1;
    const float* x;
    ECHO_HOST_DEVICE some_sums<1> terms(std::int64_t, const std::int32_t (&at)[1]) const {
        return {{static_cast<double>(x[at[0]])}};
    }
};

// Sums and means.

inline sum_layout<1> layout_of(const ops::reduce& op, const echo::shape& x) {
    sum_axes<1> axes;
    const auto steps = steps_of(x);
    for (std::size_t a = 0; a < x.rank(); ++a)
        axes.push(x[a],
                  std::find(op.axes.begin(), op.axes.end(), static_cast<std::int64_t>(a)) != op.axes.end(),
                  {steps[a]});
    return axes.made();
}

template <class Launcher>
void run(const ops::reduce& op, const call& c, Launcher& launcher) {
    const double factor =
        op.how == ops::reduce::mean ? count(*c.outputs[0].what) / count(*c.inputs[0].what) : 1;
    run_sums(op.name, layout_of(op, c.inputs[0].shape()), plain_terms{c.inputs[0].f32()},
             write_sum{c.outputs[0].f32(), factor}, scratch_of<double>(c), launcher);
}
inline std::uint64_t scratch(const ops::reduce& op, tensor_span in, tensor_span) {
    return sum_scratch(layout_of(op, in[0].shape), 1);
}

// Repetitions of a tile: its axes and those of the repetition, alternating.

inline sum_layout<1> layout_of(const ops::tile_gradient& op) {
    sum_axes<1> axes;
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < op.shape.rank(); ++i)
        extents.insert(extents.end(), {op.times[i], op.shape[i]});
    const auto steps = steps_of(echo::shape(extents));
    for (std::size_t i = 0; i < extents.size(); ++i) axes.push(extents[i], i % 2 == 0, {steps[i]});
    return axes.made();
}

template <class Launcher>
void run(const ops::tile_gradient& op, const call& c, Launcher& launcher) {
    run_sums(op.name, layout_of(op), plain_terms{c.inputs[0].f32()}, write_sum{c.outputs[0].f32(), 1},
             scratch_of<double>(c), launcher);
}
inline std::uint64_t scratch(const ops::tile_gradient& op, tensor_span, tensor_span) {
    return sum_scratch(layout_of(op), 1);
}

// Gradients of ops that broadcast.

template <class Op, std::size_t I>
struct gradient_terms {
    static constexpr int operands = static_cast<int>(gradient_reads<Op, I>), sums = 1;
    const float* x[gradient_reads<Op, I>];
    ECHO_HOST_DEVICE some_sums<1> terms(std::int64_t, const std::int32_t (&at)[operands]) const {
        float read[gradient_reads<Op, I>];
        for (int i = 0; i < operands; ++i) read[i] = x[i][at[i]];
        return {{static_cast<double>(gradient<Op, I>(read, told<Op>{}))}};
    }
};

/// The same where nothing is summed.
template <class Op, std::size_t I>
struct gradient_value {
    static constexpr int reads = static_cast<int>(gradient_reads<Op, I>);
    ECHO_HOST_DEVICE constexpr float value(const float (&x)[gradient_reads<Op, I>]) const {
        return gradient<Op, I>(x, told<Op>{});
    }
};

/// `shapes`: of the inputs that are read.
template <class Op, std::size_t I, class Shapes>
auto layout_of(const ops::broadcast_gradient<Op, I>& op, const Shapes& shapes) {
    constexpr int reads = static_cast<int>(gradient_reads<Op, I>);
    const echo::shape& whole = shapes(0);
    std::vector<std::vector<std::int64_t>> steps;
    for (std::size_t i = 0; i < gradient_reads<Op, I>; ++i) steps.push_back(repeated_steps(shapes(i), whole));
    sum_axes<reads> axes;
    const std::size_t added = whole.rank() - op.shape.rank();
    for (std::size_t a = 0; a < whole.rank(); ++a) {
        typename axis_list<reads>::steps step{};
        for (std::size_t i = 0; i < step.size(); ++i) step[i] = steps[i][a];
        axes.push(whole[a], a < added || (op.shape[a - added] == 1 && whole[a] != 1), step);
    }
    return axes.made();
}

template <class Op, std::size_t I, class Launcher>
void run(const ops::broadcast_gradient<Op, I>& op, const call& c, Launcher& launcher) {
    const output_view& y = c.outputs[0];
    if (c.inputs[0].size() == y.size()) {
        std::vector<strided_operand> operands;
        for (const input_view& in : c.inputs.first(gradient_reads<Op, I>))
            operands.push_back({in.f32(), repeated_steps(in.shape(), c.inputs[0].shape())});
        run_strided(op.name, gradient_value<Op, I>{}, operands, {y.data, c.inputs[0].what}, launcher);
        return;
    }
    gradient_terms<Op, I> f{};
    for (std::size_t i = 0; i < gradient_reads<Op, I>; ++i) f.x[i] = c.inputs[i].f32();
    const auto over = layout_of(op, [&](std::size_t i) -> const echo::shape& { return c.inputs[i].shape(); });
    run_sums(op.name, over, f, write_sum{y.f32(), 1}, scratch_of<double>(c), launcher);
}
template <class Op, std::size_t I>
std::uint64_t scratch(const ops::broadcast_gradient<Op, I>& op, tensor_span in, tensor_span) {
    return sum_scratch(layout_of(op, [&](std::size_t i) -> const echo::shape& { return in[i].shape; }), 1);
}

} // namespace engine::cuda
