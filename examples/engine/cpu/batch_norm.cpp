// SPDX-License-Identifier: BSL-1.0
/// @file
/// Statistics of a batch, and the gradient of its normalisation by oneDNN.
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/onednn.hpp"
#include "engine/cpu/sum_over.hpp"

#include <algorithm>
#include <bit>

namespace engine::cpu {
namespace {

using namespace onednn;

/// The tensor as an image, whatever its rank and wherever its channels are.
desc image_of(const echo::shape& x, std::int64_t axis) {
    const along a(x, axis);
    const auto c = static_cast<dnnl_dim_t>(a.extent), outer = static_cast<dnnl_dim_t>(a.outer);
    if (a.inner != 1) return image({outer, c, static_cast<dnnl_dim_t>(a.inner), 1}, false);
    const dnnl_dim_t n = axis_of(x, axis) ? x[0] : 1;
    return image({n, c, n ? outer / n : 0, 1}, true);
}

template <class Op>
geometry key_of(const Op& op, const echo::shape& x, std::int64_t kind) {
    geometry key{kind, static_cast<std::int64_t>(axis_of(x, op.axis)),
                 std::bit_cast<std::int64_t>(op.epsilon)};
    key.insert(key.end(), x.extents().begin(), x.extents().end());
    return key;
}

constexpr auto flags = dnnl::normalization_flags::use_scale_shift;

template <class Op>
dnnl::batch_normalization_forward::primitive_desc forward_of(const Op& op, const desc& x) {
    return {{dnnl::prop_kind::forward_training, x, static_cast<float>(op.epsilon), flags},
            attributes(),
            processor()};
}

kernel& find(const ops::batch_norm_gradient& op, const echo::shape& shape, const context& on) {
    return kernel_of(op.name, key_of(op, shape, 11), on, [&]() -> kernel {
        const desc x = image_of(shape, op.axis), c = f32({x.dims()[1]}, tag::x);
        const desc both = f32({2, x.dims()[1]}, tag::nc);
        const dnnl::batch_normalization_backward::primitive_desc how(
            {dnnl::prop_kind::backward, x, x, static_cast<float>(op.epsilon), flags}, attributes(),
            processor(), forward_of(op, x));
        return {dnnl::batch_normalization_backward(how),
                how.scratchpad_desc(),
                {{DNNL_ARG_DIFF_DST, x, x},
                 {DNNL_ARG_SRC, x, x},
                 {DNNL_ARG_SCALE_SHIFT, both, both},
                 {DNNL_ARG_MEAN, c, c},
                 {DNNL_ARG_VARIANCE, c, c},
                 {DNNL_ARG_DIFF_SRC, x, x, true},
                 {DNNL_ARG_DIFF_SCALE_SHIFT, both, both, true}}};
    });
}

/// oneDNN wants gamma and beta side by side, as it gives their gradients (separate ones crash in 2.6): they lie behind
/// its own scratch.
float* behind(const kernel& k, const call& c) {
    return reinterpret_cast<float*>(c.scratch.data() + k.scratch());
}
void fill_gamma(bool fixed, const input_view& gamma, float* to) {
    if (fixed)
        std::fill_n(to, gamma.size(), 1.0f);
    else
        std::copy_n(gamma.f32(), gamma.size(), to);
}

} // namespace

/// One pass: squares in double keep what a float can hold of the variance, wherever the mean is.
void run(const ops::batch_statistics& op, const call& c, context& on) {
    const echo::shape& shape = c.inputs[0].shape();
    std::vector<bool> summed(shape.rank(), true);
    summed[axis_of(shape, op.axis)] = false;
    const sum_axes over(shape, summed);
    const auto terms = static_cast<double>(over.terms);
    const float* x = c.inputs[0].f32();
    float *mean = c.outputs[0].f32(), *variance = c.outputs[1].f32();
    sums_over<2>(
        over, [x](std::size_t first, std::size_t n, block& v) { v.load(x + first, n); },
        [](double value) {
            return std::array{value, value * value};
        },
        [=](std::size_t kept, const double* sums) {
            const double middle = sums[0] / terms;
            mean[kept] = static_cast<float>(middle);
            variance[kept] = static_cast<float>(std::max(0.0, sums[1] / terms - middle * middle));
        },
        on);
}

void run(const ops::batch_norm_gradient& op, const call& c, context& on) {
    const auto& in = c.inputs;
    const auto& out = c.outputs;
    const std::size_t n = in[2].size();
    kernel& k = find(op, in[1].shape(), on);
    float *both = behind(k, c), *gradient = both + 2 * n;
    fill_gamma(op.fixed_gamma, in[2], both);
    std::fill_n(both + n, n, 0.0f); // nothing depends on beta
    k({in[0].data, in[1].data, both, in[3].data, in[4].data, out[0].data, gradient}, c.scratch);
    if (op.fixed_gamma) std::fill_n(gradient, n, 0.0f);
    std::copy_n(gradient, n, out[1].f32());
    std::copy_n(gradient + n, n, out[2].f32());
}

std::uint64_t scratch(const ops::batch_norm_gradient& op, tensor_span in, tensor_span, context& on) {
    return find(op, in[1].shape, on).scratch() + 4 * elements(in[2]) * sizeof(float);
}

} // namespace engine::cpu
