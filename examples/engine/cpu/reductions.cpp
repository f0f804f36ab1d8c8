// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sums.
#include "engine/cpu/kernels.hpp"
#include "engine/cpu/sum_over.hpp"

namespace engine::cpu {
namespace {

void sum(const input_view& x, const echo::shape& shape, const std::vector<bool>& summed, double factor,
         const output_view& y, context& on) {
    const auto values = [from = x.f32()](std::size_t first, std::size_t n, block& out) {
        out.load(from + first, n);
    };
    sum_over(sum_axes(shape, summed), values, factor, y.f32(), on);
}

} // namespace

void run(const ops::reduce& op, const call& c, context& on) {
    const echo::shape& x = c.inputs[0].shape();
    std::vector<bool> summed(x.rank(), false);
    for (const auto axis : op.axes) summed[static_cast<std::size_t>(axis)] = true;
    const double factor =
        op.how == ops::reduce::mean ? count(*c.outputs[0].what) / count(*c.inputs[0].what) : 1;
    sum(c.inputs[0], x, summed, factor, c.outputs[0], on);
}

void run(const ops::tile_gradient& op, const call& c, context& on) {
    std::vector<std::int64_t> extents;
    std::vector<bool> summed;
    for (std::size_t i = 0; i < op.shape.rank(); ++i) {
        extents.insert(extents.end(), {op.times[i], op.shape[i]});
        summed.insert(summed.end(), {true, false});
    }
    sum(c.inputs[0], echo::shape(std::move(extents)), summed, 1, c.outputs[0], on);
}

} // namespace engine::cpu
