// SPDX-License-Identifier: BSL-1.0
/// @file
/// Kernels that place elements elsewhere, and constants.
#include "engine/cpu/kernels.hpp"
#include "engine/cpu/strided.hpp"

namespace engine::cpu {
namespace {

/// All types that move have four bytes.
const std::uint32_t* words(const input_view& v) { return static_cast<const std::uint32_t*>(v.data); }
std::uint32_t* words(const output_view& v) { return static_cast<std::uint32_t*>(v.data); }

/// Writes a tensor that is read with strides.
void copy(const strided<std::uint32_t>& from, const output_view& to, context& on) {
    on.parallel(to.size(), thread_grain, [&](std::size_t first, std::size_t last) {
        from.read(first, last - first, words(to) + first);
    });
}

/// A matrix of [rows, columns] transposed in tiles, `matrices` times.
void transpose_matrices(const std::uint32_t* from, std::uint32_t* to, std::size_t matrices, std::size_t rows,
                        std::size_t columns, context& on) {
    constexpr std::size_t tile = 16;
    const std::size_t bands = (columns + tile - 1) / tile;
    const std::size_t grain = std::max<std::size_t>(1, thread_grain / (rows * tile + 1));
    on.parallel(matrices * bands, grain, [&](std::size_t first, std::size_t last) {
        for (std::size_t task = first; task < last; ++task) {
            const std::size_t m = task / bands * rows * columns, c0 = task % bands * tile;
            const std::size_t c1 = std::min(columns, c0 + tile);
            for (std::size_t r0 = 0; r0 < rows; r0 += tile) {
                const std::size_t r1 = std::min(rows, r0 + tile);
                std::uint32_t held[tile][tile]; // each line of memory is touched once
                for (std::size_t r = r0; r < r1; ++r)
                    for (std::size_t c = c0; c < c1; ++c) held[c - c0][r - r0] = from[m + r * columns + c];
                for (std::size_t c = c0; c < c1; ++c)
                    std::memcpy(to + m + c * rows + r0, held[c - c0], (r1 - r0) * 4);
            }
        }
    });
}

} // namespace

void run(const ops::fill& op, const call& c, context& on) {
    const output_view& y = c.outputs[0];
    on.parallel(y.size(), thread_grain, [&](std::size_t first, std::size_t last) {
        if (y.what->type == echo::dtype::i32)
            std::fill(y.i32() + first, y.i32() + last, static_cast<std::int32_t>(op.number));
        else
            std::fill(y.f32() + first, y.f32() + last, static_cast<float>(op.number));
    });
}

void run(const ops::causal_bias& op, const call& c, context&) {
    float* y = c.outputs[0].f32();
    for (std::int64_t i = 0; i < op.length; ++i)
        for (std::int64_t j = 0; j < op.length; ++j) *y++ = j > i ? -1e9f : 0.0f;
}

void run(const ops::split& op, const call& c, context& on) {
    const along x(c.inputs[0].shape(), op.axis);
    const std::size_t row = x.extent * x.inner;
    std::vector<std::size_t> begin(op.sizes.size());
    std::size_t at = 0;
    for (std::size_t k = 0; k < begin.size(); ++k) {
        begin[k] = at;
        at += static_cast<std::size_t>(op.sizes[k]) * x.inner;
    }
    const std::size_t grain = std::max<std::size_t>(1, thread_grain * begin.size() / (x.outer * row + 1));
    on.parallel(begin.size(), grain, [&](std::size_t first, std::size_t last) {
        for (std::size_t k = first; k < last; ++k) {
            const std::size_t width = static_cast<std::size_t>(op.sizes[k]) * x.inner;
            for (std::size_t o = 0; o < x.outer; ++o)
                std::memcpy(words(c.outputs[k]) + o * width, words(c.inputs[0]) + o * row + begin[k],
                            width * 4);
        }
    });
}

void run(const ops::concat& op, const call& c, context& on) {
    const auto axis = static_cast<std::size_t>(op.axis);
    const echo::shape& y = c.outputs[0].shape();
    const along made(y, op.axis);
    const std::size_t row = made.extent * made.inner, parts = c.inputs.size();
    std::vector<std::size_t> begin(parts), width(parts);
    std::size_t at = 0;
    for (std::size_t k = 0; k < parts; ++k) {
        begin[k] = at;
        width[k] = made.inner * (op.stack ? 1 : static_cast<std::size_t>(c.inputs[k].shape()[axis]));
        at += width[k];
    }
    const std::size_t grain = std::max<std::size_t>(1, thread_grain * parts / (made.outer * row + 1));
    on.parallel(parts, grain, [&](std::size_t first, std::size_t last) {
        for (std::size_t k = first; k < last; ++k)
            for (std::size_t o = 0; o < made.outer; ++o)
                std::memcpy(words(c.outputs[0]) + o * row + begin[k], words(c.inputs[k]) + o * width[k],
                            width[k] * 4);
    });
}

void run(const ops::transpose& op, const call& c, context& on) {
    // The result's axes, those of one element left out, and what stays together as one: extents and strides in x.
    const auto mine = strides_of(c.inputs[0].shape());
    struct axis {
        std::size_t extent, stride;
    };
    std::vector<axis> axes;
    for (const auto from : op.order) {
        const auto at = static_cast<std::size_t>(from);
        const auto extent = static_cast<std::size_t>(c.inputs[0].shape()[at]);
        if (extent == 1) continue;
        if (!axes.empty() && axes.back().stride == extent * mine[at])
            axes.back() = {axes.back().extent * extent, mine[at]};
        else
            axes.push_back({extent, mine[at]});
    }
    const std::size_t rank = axes.size();
    if (rank < 2) {
        std::memcpy(c.outputs[0].data, c.inputs[0].data, c.inputs[0].size() * 4);
    } else if (axes[rank - 2].stride == 1 && axes[rank - 1].stride == axes[rank - 2].extent &&
               (rank == 2 || (rank == 3 && axes[0].stride == axes[1].extent * axes[2].extent))) { // matrices
        transpose_matrices(words(c.inputs[0]), words(c.outputs[0]), rank == 3 ? axes[0].extent : 1,
                           axes[rank - 1].extent, axes[rank - 2].extent, on);
    } else {
        std::vector<std::int64_t> extents;
        std::vector<std::size_t> strides;
        for (const axis& a : axes) {
            extents.push_back(static_cast<std::int64_t>(a.extent));
            strides.push_back(a.stride);
        }
        copy(strided<std::uint32_t>(words(c.inputs[0]), echo::shape(std::move(extents)), strides),
             c.outputs[0], on);
    }
}

void run(const ops::repeat& op, const call& c, context& on) {
    const echo::shape& y = c.outputs[0].shape();
    auto extents = extents_of(y);
    for (const auto axis : op.axes) extents[static_cast<std::size_t>(axis)] = 1;
    const auto from = strided<float>::repeated(c.inputs[0].f32(), echo::shape(std::move(extents)), y);
    const float factor = static_cast<float>(op.factor);
    float* to = c.outputs[0].f32();
    on.parallel(c.outputs[0].size(), thread_grain, [&](std::size_t first, std::size_t last) {
        from.read(first, last - first, to + first);
        if (factor != 1)
            for (std::size_t i = first; i < last; ++i) to[i] *= factor;
    });
}

void run(const ops::tile& op, const call& c, context& on) {
    // As [t0, x0, t1, x1, ..] the repetitions are axes of their own.
    const echo::shape& x = c.inputs[0].shape();
    const auto mine = strides_of(x);
    std::vector<std::int64_t> extents;
    std::vector<std::size_t> strides;
    for (std::size_t i = 0; i < x.rank(); ++i) {
        extents.insert(extents.end(), {op.times[i], x[i]});
        strides.insert(strides.end(), {0, mine[i]});
    }
    copy(strided<std::uint32_t>(words(c.inputs[0]), echo::shape(std::move(extents)), strides), c.outputs[0],
         on);
}

} // namespace engine::cpu
