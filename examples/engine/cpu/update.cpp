// SPDX-License-Identifier: BSL-1.0
/// @file
/// Optimizers, clipping, running statistics. Results lie on inputs, so elements go through blocks.
#include "engine/cpu/doubles.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

#include <array>

namespace engine::cpu {
namespace {

/// Elements whose squares are summed at once: the order of the sum does not depend on the number of threads.
constexpr std::size_t chunk = 64 * block_size;

constexpr std::size_t chunks(std::size_t n) { return (n + chunk - 1) / chunk; }

/// `f` on each element of the inputs told, in blocks; its results go to the outputs in order.
template <std::size_t Inputs, std::size_t Outputs, class F>
void each(const call& c, context& on, const std::array<std::size_t, Inputs>& inputs, const F& f) {
    on.parallel(c.outputs[0].size(), thread_grain, [&](std::size_t first, std::size_t last) {
        block in[Inputs], out[Outputs];
        for (std::size_t at = first; at < last; at += block_size) {
            const std::size_t n = std::min(block_size, last - at);
            for (std::size_t i = 0; i < Inputs; ++i) in[i].load(c.inputs[inputs[i]].f32() + at, n);
            for (std::size_t i = 0; i < padded(n); ++i) f(in, out, i);
            for (std::size_t k = 0; k < Outputs; ++k) out[k].store(c.outputs[k].f32() + at, n);
        }
    });
}

/// The factor of the gradient, where an input says one.
float factor(const call& c, std::size_t input) {
    return c.inputs.size() > input ? c.inputs[input].f32()[0] : 1.0f;
}

} // namespace

std::uint64_t scratch(const ops::clip_factor&, tensor_span in, tensor_span, context&) {
    std::size_t count = 0;
    for (const auto& t : in) count += chunks(elements(t));
    return bytes_of_doubles(count);
}

void run(const ops::clip_factor& op, const call& c, context& on) {
    auto* sums = doubles(c);
    std::vector<std::size_t> begin{0}; // the first chunk of each input
    for (const auto& in : c.inputs) begin.push_back(begin.back() + chunks(in.size()));
    on.parallel(begin.back(), 1, [&](std::size_t first, std::size_t last) {
        for (std::size_t k = first; k < last; ++k) {
            const auto i =
                static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), k) - begin.begin() - 1);
            const std::size_t at = (k - begin[i]) * chunk;
            const float* g = c.inputs[i].f32() + at;
            lane_sum sum;
            sum.add(std::min(chunk, c.inputs[i].size() - at),
                    [&](std::size_t e) { return static_cast<double>(g[e]) * static_cast<double>(g[e]); });
            sums[k] = sum.total();
        }
    });
    double sum = 0;
    for (std::size_t k = 0; k < begin.back(); ++k) sum += sums[k];
    const double norm = std::sqrt(sum);
    if (!std::isfinite(norm))
        throw echo::error({}, "gradient", "the norm of the gradients is not finite",
                          "lower the learning rate");
    c.outputs[0].f32()[0] = norm > op.limit ? static_cast<float>(op.limit / norm) : 1.0f;
}

void run(const ops::sgd& op, const call& c, context& on) {
    const float scale = factor(c, 3), rate = static_cast<float>(op.rate);
    const float momentum = static_cast<float>(op.momentum), decay = static_cast<float>(op.decay);
    each<3, 2>(c, on, {0, 1, 2}, [=](const block* in, block* out, std::size_t i) {
        const float w = in[0].at[i];
        const float m = momentum * in[2].at[i] + (scale * in[1].at[i] + decay * w);
        out[0].at[i] = w - rate * m;
        out[1].at[i] = m;
    });
}

void run(const ops::adam& op, const call& c, context& on) {
    const double t = static_cast<double>(c.iteration);
    const float scale = factor(c, 4), epsilon = static_cast<float>(op.epsilon);
    const float beta1 = static_cast<float>(op.beta1), rest1 = static_cast<float>(1 - op.beta1);
    const float beta2 = static_cast<float>(op.beta2), rest2 = static_cast<float>(1 - op.beta2);
    const float rate = static_cast<float>(op.rate / (1 - std::pow(op.beta1, t)));
    const float root = static_cast<float>(1 / std::sqrt(1 - std::pow(op.beta2, t)));
    each<4, 3>(c, on, {0, 1, 2, 3}, [=](const block* in, block* out, std::size_t i) {
        const float g = scale * in[1].at[i];
        const float m = beta1 * in[2].at[i] + rest1 * g;
        const float v = beta2 * in[3].at[i] + rest2 * (g * g);
        out[0].at[i] = in[0].at[i] - rate * m / (std::sqrt(v) * root + epsilon);
        out[1].at[i] = m;
        out[2].at[i] = v;
    });
}

void run(const ops::update_statistics& op, const call& c, context& on) {
    const float kept = static_cast<float>(op.momentum), fresh = static_cast<float>(1 - op.momentum);
    each<2, 1>(c, on, {0, 1}, [=](const block* in, block* out, std::size_t i) {
        out[0].at[i] = in[0].at[i] * kept + in[1].at[i] * fresh;
    });
}

} // namespace engine::cpu
