// SPDX-License-Identifier: BSL-1.0
/// @file
/// Cross entropy behind a softmax.
#include "engine/cpu/doubles.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

namespace engine::cpu {
namespace {

/// Rows that count. Errors: a label that names no class.
std::size_t counted(const ops::cross_entropy& how, const input_view& labels, std::size_t classes) {
    std::size_t rows = 0;
    for (std::size_t r = 0; r < labels.size(); ++r) {
        const std::int32_t label = labels.i32()[r];
        if (label == how.ignore) continue;
        if (label < 0 || static_cast<std::size_t>(label) >= classes)
            throw echo::error({}, "label",
                              "row " + std::to_string(r) + " has label " + std::to_string(label) + " of " +
                                  std::to_string(classes) + " classes",
                              "give labels from 0, or the one to ignore");
        ++rows;
    }
    return rows;
}

/// What a row's loss is multiplied by.
double weight(const ops::cross_entropy& how, std::size_t rows) {
    return how.mean ? how.scale / static_cast<double>(std::max<std::size_t>(rows, 1)) : how.scale;
}

/// The target distribution: `on` at the label, `off` elsewhere.
struct target {
    double on, off;
    target(const ops::cross_entropy& how, std::size_t classes)
        : on(classes > 1 ? 1 - how.smoothing : 1),
          off(classes > 1 ? how.smoothing / static_cast<double>(classes - 1) : 0) {}
};

} // namespace

std::uint64_t scratch(const ops::softmax_output&, tensor_span in, tensor_span, context&) {
    return bytes_of_doubles(elements(in[1])); // the loss of each row
}

void run(const ops::softmax_output& op, const call& c, context& on) {
    const along a(c.inputs[0].shape(), -1);
    const std::size_t counting = counted(op.how, c.inputs[1], a.extent);
    const target aim(op.how, a.extent);
    auto* losses = doubles(c);
    on.parallel(a.outer, row_grain(a.extent), [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) {
            const float* x = c.inputs[0].f32() + r * a.extent; // may be where p goes
            float* p = c.outputs[1].f32() + r * a.extent;
            const std::int32_t label = c.inputs[1].i32()[r];
            const float max = largest(x, a.extent);
            double aimed = 0; // the mean score, of the target
            if (label != op.how.ignore) {
                if (aim.off > 0) {
                    lane_sum sum;
                    sum.add(a.extent, [&](std::size_t i) { return static_cast<double>(x[i]); });
                    aimed = aim.off * sum.total();
                }
                aimed += (aim.on - aim.off) * static_cast<double>(x[label]);
            }
            const double sum = exp_row(x, max, p, a.extent);
            scale_row(p, 1 / sum, a.extent);
            losses[r] = label == op.how.ignore ? 0 : static_cast<double>(max) + std::log(sum) - aimed;
        }
    });
    double loss = 0;
    for (std::size_t r = 0; r < a.outer; ++r) loss += losses[r];
    c.outputs[0].f32()[0] = static_cast<float>(loss * weight(op.how, counting));
}

void run(const ops::softmax_output_gradient& op, const call& c, context& on) {
    const along a(c.inputs[2].shape(), -1);
    const std::size_t counting = counted(op.how, c.inputs[1], a.extent);
    const target aim(op.how, a.extent);
    const float f = static_cast<float>(static_cast<double>(c.inputs[0].f32()[0]) * weight(op.how, counting));
    const float in_class = static_cast<float>(aim.on), elsewhere = static_cast<float>(aim.off);
    on.parallel(a.outer, row_grain(a.extent), [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) {
            const float* p = c.inputs[2].f32() + r * a.extent; // may be where dx goes
            float* dx = c.outputs[0].f32() + r * a.extent;
            const std::int32_t label = c.inputs[1].i32()[r];
            if (label == op.how.ignore) {
                std::fill_n(dx, a.extent, 0.0f);
                continue;
            }
            const float at_label = (p[label] - in_class) * f;
            for (std::size_t i = 0; i < a.extent; ++i) dx[i] = (p[i] - elsewhere) * f;
            dx[label] = at_label;
        }
    });
}

} // namespace engine::cpu
