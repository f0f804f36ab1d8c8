// SPDX-License-Identifier: BSL-1.0
/// @file
/// Rows of a table, and the sum of gradients into them.
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

namespace engine::cpu {
namespace {

/// Errors: an index of no row.
void check(const input_view& indices, std::int64_t rows) {
    for (std::size_t i = 0; i < indices.size(); ++i)
        if (indices.i32()[i] < 0 || indices.i32()[i] >= rows)
            throw echo::error({}, "index",
                              "element " + std::to_string(i) + " is " + std::to_string(indices.i32()[i]) +
                                  ", of a table of " + std::to_string(rows) + " rows",
                              "give indices from 0, below the rows");
}

} // namespace

void run(const ops::embedding&, const call& c, context& on) {
    const auto width = static_cast<std::size_t>(c.inputs[0].shape()[1]);
    check(c.inputs[1], c.inputs[0].shape()[0]);
    on.parallel(c.inputs[1].size(), row_grain(width), [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i)
            std::memcpy(c.outputs[0].f32() + i * width,
                        c.inputs[0].f32() + static_cast<std::size_t>(c.inputs[1].i32()[i]) * width,
                        width * sizeof(float));
    });
}

void run(const ops::embedding_gradient& op, const call& c, context& on) {
    const auto width = static_cast<std::size_t>(op.shape[1]);
    check(c.inputs[1], op.shape[0]);
    float* to = c.outputs[0].f32();
    on.parallel(c.outputs[0].size(), thread_grain,
                [&](std::size_t first, std::size_t last) { std::fill(to + first, to + last, 0.0f); });
    // A thread has columns of its own, so that each element is summed in the order of the indices.
    const std::size_t count = c.inputs[1].size();
    const std::size_t grain =
        std::max(vector_size, (row_grain(count) + vector_size - 1) / vector_size * vector_size);
    on.parallel(width, grain, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = 0; i < count; ++i) {
            float* row = to + static_cast<std::size_t>(c.inputs[1].i32()[i]) * width;
            const float* dy = c.inputs[0].f32() + i * width;
            for (std::size_t k = first; k < last; ++k) row[k] += dy[k];
        }
    });
}

} // namespace engine::cpu
