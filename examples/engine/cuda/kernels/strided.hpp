// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise work on operands that are repeated along axes: ops that broadcast, and repetition.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/elementwise.hpp"

namespace engine::cuda {

/// `F` on each element of a result, `f.value(x)` with the elements of its `F::reads` operands.
template <class F>
struct strided_groups {
    static constexpr int reads = F::reads;
    const float* x[reads]{};
    bool wide[reads]{}; ///< its groups are 16 bytes at a multiple of 16
    bool whole = false; ///< no group goes over the end of the innermost axis
    axes<reads> at{};
    sink y;
    F f;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        float in[group_size][reads];
        if (whole) {
            std::int32_t from[reads]{};
            at.add(static_cast<std::uint32_t>(first), from);
            for (int i = 0; i < reads; ++i) {
                const std::int32_t step = at.step[0][i];
                const float* const begin = x[i] + from[i];
                if (wide[i]) {
                    const group v = load_wide<Warp>(begin);
                    for (int e = 0; e < group_size; ++e) in[e][i] = v.at[e];
                } else if (step == 0) {
                    const float same = *begin;
                    for (int e = 0; e < group_size; ++e) in[e][i] = same;
                } else {
                    for (int e = 0; e < group_size; ++e) in[e][i] = begin[e * step];
                }
            }
        } else {
            for (int e = 0; e < group_size; ++e) {
                std::int32_t from[reads]{};
                if (e < n) at.add(static_cast<std::uint32_t>(first + e), from);
                for (int i = 0; i < reads; ++i) in[e][i] = e < n ? x[i][from[i]] : 1.0f;
            }
        }
        group out;
        for (int e = 0; e < group_size; ++e) out.at[e] = f.value(in[e]);
        y.template store<Warp>(first, n, out);
    }
};

/// An operand and the steps it takes along the axes of the result.
struct strided_operand {
    const float* data;
    std::vector<std::int64_t> steps;
};

/// Starts it. O(axes) on the host.
template <class F, class Launcher>
void run_strided(std::string_view name, const F& f, const std::vector<strided_operand>& operands,
                 const output_view& y, Launcher& launcher) {
    constexpr int reads = F::reads;
    axis_list<reads> list;
    const echo::shape& shape = y.shape();
    for (std::size_t a = 0; a < shape.rank(); ++a) {
        typename axis_list<reads>::steps step{};
        for (std::size_t i = 0; i < step.size(); ++i) step[i] = operands[i].steps[a];
        list.push(shape[a], step);
    }
    strided_groups<F> body{.at = list.made(), .y = sink(y), .f = f};
    const std::size_t last = list.size();
    body.whole = last == 0 ? false : list.extent(last - 1) % group_size == 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(reads); ++i) {
        body.x[i] = operands[i].data;
        // Along the others an operand that lies in order here steps over whole lines.
        body.wide[i] = body.whole && list.step(last - 1)[i] == 1 && is_wide(operands[i].data);
    }
    run_groups(name, y.size(), body, launcher);
}

template <class Op>
struct forward_value {
    static constexpr int reads = 2;
    ECHO_HOST_DEVICE constexpr float value(const float (&x)[2]) const {
        float y[1];
        forward<Op>(x, told<Op>{}, y);
        return y[0];
    }
};

template <class Op, class Launcher>
void run(const ops::broadcast<Op>& op, const call& c, Launcher& launcher) {
    const output_view& y = c.outputs[0];
    std::vector<strided_operand> operands;
    for (std::size_t i = 0; i < 2; ++i)
        operands.push_back({c.inputs[i].f32(), repeated_steps(c.inputs[i].shape(), y.shape())});
    run_strided(op.name, forward_value<Op>{}, operands, y, launcher);
}

struct scaled_value {
    static constexpr int reads = 1;
    float factor;
    ECHO_HOST_DEVICE constexpr float value(const float (&x)[1]) const { return x[0] * factor; }
};

template <class Launcher>
void run(const ops::repeat& op, const call& c, Launcher& launcher) {
    const output_view& y = c.outputs[0];
    auto extents = extents_of(y.shape());
    for (const auto axis : op.axes) extents[static_cast<std::size_t>(axis)] = 1;
    run_strided(op.name, scaled_value{static_cast<float>(op.factor)},
                {{c.inputs[0].f32(), repeated_steps(echo::shape(std::move(extents)), y.shape())}}, y,
                launcher);
}

} // namespace engine::cuda
