// SPDX-License-Identifier: BSL-1.0
/// @file
/// Convolution and its gradients by oneDNN, in the order of elements that is fastest: weights and most images are
/// reordered on the way.
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/onednn.hpp"

namespace engine::cpu {
namespace {

using namespace onednn;

enum class part : std::int64_t { forward, data, weights };

/// One convolution y = x * w.
struct shapes {
    const ops::sliding& window;
    const echo::shape &x, &w, &y;

    dims dilation() const { return {window.dilation[0] - 1, window.dilation[1] - 1}; }
    dims stride() const { return {window.stride[0], window.stride[1]}; }
    dims padding() const { return {window.padding[0], window.padding[1]}; }
    dims weight_dims() const {
        if (window.groups == 1) return {w[0], w[1], w[2], w[3]};
        return {window.groups, w[0] / window.groups, w[1], w[2], w[3]};
    }
    /// Whether a product of matrices as they lie is faster than a reordering: where no window slides and rows are long.
    /// Gradients of images of a few channels do not fill the vectors of another order.
    bool stays(part p) const {
        if (window.channels_last || (p == part::data && x[1] < 16)) return true;
        const bool point = w[2] == 1 && w[3] == 1 && window.stride == ops::pair{1, 1} &&
                           window.padding == ops::pair{0, 0} && window.groups == 1;
        return point && x[2] * x[3] >= 64;
    }
    tag weight_order() const { return window.groups == 1 ? tag::oihw : tag::goihw; }

    geometry key(part p) const {
        geometry k{static_cast<std::int64_t>(p), window.groups, window.channels_last};
        for (const auto& two : {window.stride, window.padding, window.dilation})
            k.insert(k.end(), two.begin(), two.end());
        for (const auto* s : {&x, &w}) k.insert(k.end(), s->extents().begin(), s->extents().end());
        return k;
    }
};

constexpr auto direct = dnnl::algorithm::convolution_direct;

kernel& find(std::string_view op, part p, const shapes& s, const context& on) {
    return kernel_of(op, s.key(p), on, [&]() -> kernel {
        const bool last = s.window.channels_last;
        const desc x = image(image_dims(s.x, last), last), y = image(image_dims(s.y, last), last);
        const desc w = f32(s.weight_dims(), s.weight_order()), any = f32(s.weight_dims(), tag::any);
        const bool stays = s.stays(p);
        const desc best_x = stays ? x : f32(x.dims(), tag::any), best_y = stays ? y : f32(y.dims(), tag::any);
        const auto stride = s.stride(), dilation = s.dilation(), padding = s.padding();
        const dnnl::convolution_forward::primitive_desc forward({dnnl::prop_kind::forward_training, direct,
                                                                 best_x, any, best_y, stride, dilation,
                                                                 padding, padding},
                                                                attributes(), processor());
        switch (p) {
        case part::data: {
            const dnnl::convolution_backward_data::primitive_desc how(
                {direct, best_x, any, best_y, stride, dilation, padding, padding}, attributes(), processor(),
                forward);
            return {dnnl::convolution_backward_data(how),
                    how.scratchpad_desc(),
                    {{DNNL_ARG_DIFF_DST, y, how.diff_dst_desc()},
                     {DNNL_ARG_WEIGHTS, w, how.weights_desc()},
                     {DNNL_ARG_DIFF_SRC, x, how.diff_src_desc(), true}}};
        }
        case part::weights: {
            const dnnl::convolution_backward_weights::primitive_desc how(
                {direct, best_x, any, best_y, stride, dilation, padding, padding}, attributes(), processor(),
                forward);
            return {dnnl::convolution_backward_weights(how),
                    how.scratchpad_desc(),
                    {{DNNL_ARG_DIFF_DST, y, how.diff_dst_desc()},
                     {DNNL_ARG_SRC, x, how.src_desc()},
                     {DNNL_ARG_DIFF_WEIGHTS, w, how.diff_weights_desc(), true}}};
        }
        case part::forward:
            break;
        }
        return {dnnl::convolution_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, x, forward.src_desc()},
                 {DNNL_ARG_WEIGHTS, w, forward.weights_desc()},
                 {DNNL_ARG_DST, y, forward.dst_desc(), true}}};
    });
}

// The tensors of a convolution by the inputs and outputs of each op.
kernel& find(const ops::convolution& op, const echo::shape& x, const echo::shape& w, const echo::shape& y,
             const context& on) {
    return find(op.name, part::forward, {op.window, x, w, y}, on);
}
kernel& find(const ops::convolution_data_gradient& op, const echo::shape& dy, const echo::shape& w,
             const echo::shape& dx, const context& on) {
    return find(op.name, part::data, {op.window, dx, w, dy}, on);
}
kernel& find(const ops::convolution_weight_gradient& op, const echo::shape& dy, const echo::shape& x,
             const echo::shape& dw, const context& on) {
    return find(op.name, part::weights, {op.window, x, dw, dy}, on);
}

template <class Op>
void run_any(const Op& op, const call& c, const context& on) {
    find(op, c.inputs[0].shape(), c.inputs[1].shape(), c.outputs[0].shape(),
         on)({c.inputs[0].data, c.inputs[1].data, c.outputs[0].data}, c.scratch);
}
template <class Op>
std::uint64_t scratch_any(const Op& op, tensor_span in, tensor_span out, const context& on) {
    return find(op, in[0].shape, in[1].shape, out[0].shape, on).scratch();
}

} // namespace

void run(const ops::convolution& op, const call& c, context& on) { run_any(op, c, on); }
void run(const ops::convolution_data_gradient& op, const call& c, context& on) { run_any(op, c, on); }
void run(const ops::convolution_weight_gradient& op, const call& c, context& on) { run_any(op, c, on); }

std::uint64_t scratch(const ops::convolution& op, tensor_span in, tensor_span out, context& on) {
    return scratch_any(op, in, out, on);
}
std::uint64_t scratch(const ops::convolution_data_gradient& op, tensor_span in, tensor_span out,
                      context& on) {
    return scratch_any(op, in, out, on);
}
std::uint64_t scratch(const ops::convolution_weight_gradient& op, tensor_span in, tensor_span out,
                      context& on) {
    return scratch_any(op, in, out, on);
}

} // namespace engine::cpu
