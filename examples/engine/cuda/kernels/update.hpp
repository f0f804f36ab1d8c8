// SPDX-License-Identifier: BSL-1.0
/// @file
/// Optimizers, clipping, running statistics. Results lie on inputs.
#pragma once

#include "engine/cuda/kernels/elementwise.hpp"
#include "engine/cuda/kernels/rows.hpp"

#include <cmath>

namespace engine::cuda {

/// The factor of the gradient, where an input says one.
struct gradient_factor {
    const float* at = nullptr;
    gradient_factor(const call& c, std::size_t input)
        : at(c.inputs.size() > input ? c.inputs[input].f32() : nullptr) {}
    ECHO_HOST_DEVICE float value() const { return at ? *at : 1.0f; }
};

struct sgd_groups {
    source w, g, m;
    sink new_w, new_m;
    gradient_factor factor;
    float rate, momentum, decay;

    ECHO_HOST_DEVICE float prepare() const { return factor.value(); }

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, float scale) const {
        group vw = w.load<Warp>(first, n), vm = m.load<Warp>(first, n);
        const group vg = g.load<Warp>(first, n);
        for (int e = 0; e < group_size; ++e) {
            vm.at[e] = momentum * vm.at[e] + (scale * vg.at[e] + decay * vw.at[e]);
            vw.at[e] = vw.at[e] - rate * vm.at[e];
        }
        new_w.store<Warp>(first, n, vw);
        new_m.store<Warp>(first, n, vm);
    }
};

template <class Launcher>
void run(const ops::sgd& op, const call& c, Launcher& launcher) {
    const auto& in = c.inputs;
    run_groups(op.name, c.outputs[0].size(),
               sgd_groups{source(in[0]), source(in[1]), source(in[2]), sink(c.outputs[0]), sink(c.outputs[1]),
                          gradient_factor(c, 3), static_cast<float>(op.rate), static_cast<float>(op.momentum),
                          static_cast<float>(op.decay)},
               launcher);
}

/// x to the power n, n ≥ 0.
ECHO_HOST_DEVICE constexpr double power(double x, std::uint64_t n) {
    double made = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1u) made *= x;
    return made;
}

struct adam_groups {
    source w, g, m, v;
    sink new_w, new_m, new_v;
    gradient_factor factor;
    step_source from;
    double beta1, beta2, told_rate;
    float kept1, rest1, kept2, rest2, epsilon;

    struct ready {
        float scale, rate, root;
    };
    ECHO_HOST_DEVICE ready prepare() const {
        const std::uint64_t t = from.step();
        return {factor.value(), static_cast<float>(told_rate / (1 - power(beta1, t))),
                static_cast<float>(1 / std::sqrt(1 - power(beta2, t)))};
    }

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, const ready& now) const {
        group vw = w.load<Warp>(first, n), vm = m.load<Warp>(first, n), vv = v.load<Warp>(first, n);
        const group vg = g.load<Warp>(first, n);
        for (int e = 0; e < group_size; ++e) {
            const float gradient = now.scale * vg.at[e];
            vm.at[e] = kept1 * vm.at[e] + rest1 * gradient;
            vv.at[e] = kept2 * vv.at[e] + rest2 * (gradient * gradient);
            vw.at[e] = vw.at[e] - now.rate * vm.at[e] / (std::sqrt(vv.at[e]) * now.root + epsilon);
        }
        new_w.store<Warp>(first, n, vw);
        new_m.store<Warp>(first, n, vm);
        new_v.store<Warp>(first, n, vv);
    }
};

template <class Launcher>
void run(const ops::adam& op, const call& c, Launcher& launcher) {
    const auto& in = c.inputs;
    run_groups(op.name, c.outputs[0].size(),
               adam_groups{source(in[0]), source(in[1]), source(in[2]), source(in[3]), sink(c.outputs[0]),
                           sink(c.outputs[1]), sink(c.outputs[2]), gradient_factor(c, 4), step_source(c),
                           op.beta1, op.beta2, op.rate, static_cast<float>(op.beta1),
                           static_cast<float>(1 - op.beta1), static_cast<float>(op.beta2),
                           static_cast<float>(1 - op.beta2), static_cast<float>(op.epsilon)},
               launcher);
}

struct statistics_groups {
    source running, fresh;
    sink to;
    float kept, rest;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group v = running.load<Warp>(first, n);
        const group more = fresh.load<Warp>(first, n);
        for (int e = 0; e < group_size; ++e) v.at[e] = v.at[e] * kept + more.at[e] * rest;
        to.store<Warp>(first, n, v);
    }
};

template <class Launcher>
void run(const ops::update_statistics& op, const call& c, Launcher& launcher) {
    run_groups(op.name, c.outputs[0].size(),
               statistics_groups{source(c.inputs[0]), source(c.inputs[1]), sink(c.outputs[0]),
                                 static_cast<float>(op.momentum), static_cast<float>(1 - op.momentum)},
               launcher);
}

// The norm of all gradients: a warp squares and adds 16,384 elements at a time, one adds what they found.

inline constexpr std::int64_t squares_at_once = 16384;
inline std::int64_t shares_of(std::size_t n) {
    return (static_cast<std::int64_t>(n) + squares_at_once - 1) / squares_at_once;
}

/// Tensors that one launch takes: as many as fit into its arguments.
inline constexpr std::size_t most_gradients = 96;

struct square_rows {
    struct tensor {
        const float* data;
        std::int64_t size, first; ///< its first share
    };
    tensor of[most_gradients];
    int held = 0;
    double* sums = nullptr;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t share) const {
        int low = 0, high = held; // the last tensor that begins at or before the share
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            (of[middle].first <= share ? low : high) = middle;
        }
        const std::int64_t begin = (share - of[low].first) * squares_at_once, left = of[low].size - begin;
        const float* const g = of[low].data + begin;
        const double sum =
            sum_of_row(w, left < squares_at_once ? left : squares_at_once,
                       [&](std::int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); });
        w.lanes([&](int lane) {
            if (lane == 0) sums[share] = sum;
        });
    }
};

/// min(1, limit ÷ norm); not a number where the norm is none.
struct norm_row {
    const double* sums;
    std::int64_t shares;
    float* factor;
    double limit;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t) const {
        const double norm = std::sqrt(sum_of_row(w, shares, [&](std::int64_t i) { return sums[i]; }));
        w.lanes([&](int lane) {
            if (lane != 0) return;
            if (!(norm < std::numeric_limits<double>::infinity()))
                *factor = std::numeric_limits<float>::quiet_NaN();
            else
                *factor = norm > limit ? static_cast<float>(limit / norm) : 1.0f;
        });
    }
};

inline std::uint64_t scratch(const ops::clip_factor&, tensor_span in, tensor_span) {
    std::int64_t shares = 0;
    for (const auto& t : in) shares += shares_of(elements(t));
    return scratch_bytes<double>(static_cast<std::uint64_t>(shares));
}

template <class Launcher>
void run(const ops::clip_factor& op, const call& c, Launcher& launcher) {
    auto* const sums = scratch_of<double>(c);
    std::int64_t shares = 0;
    for (std::size_t i = 0; i < c.inputs.size();) {
        square_rows f{};
        f.sums = sums + shares;
        std::int64_t own = 0;
        for (; i < c.inputs.size() && f.held < static_cast<int>(most_gradients); ++i) {
            const std::size_t n = c.inputs[i].size();
            if (n == 0) continue;
            f.of[f.held++] = {c.inputs[i].f32(), static_cast<std::int64_t>(n), own};
            own += shares_of(n);
        }
        run_rows(op.name, own, f, launcher);
        shares += own;
    }
    run_rows(op.name, 1, norm_row{sums, shares, c.outputs[0].f32(), op.limit}, launcher);
}

} // namespace engine::cuda
