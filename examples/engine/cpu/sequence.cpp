// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops on padded sequences.
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

namespace engine::cpu {
namespace {

/// [steps, batch, width].
struct extents {
    std::size_t steps, batch, width = 1;
    explicit extents(const echo::shape& x)
        : steps(static_cast<std::size_t>(x[0])), batch(static_cast<std::size_t>(x[1])) {
        for (std::size_t i = 2; i < x.rank(); ++i) width *= static_cast<std::size_t>(x[i]);
    }
    std::size_t at(std::size_t step, std::size_t b) const { return (step * batch + b) * width; }
};

/// Errors: a length below `least` or above the steps there are.
void check(const input_view& lengths, std::int32_t least, const extents& e) {
    for (std::size_t b = 0; b < lengths.size(); ++b) {
        const std::int32_t length = lengths.i32()[b];
        if (length < least || static_cast<std::size_t>(length) > e.steps)
            throw echo::error({}, "length",
                              "sequence " + std::to_string(b) + " has length " + std::to_string(length) +
                                  ", where " + std::to_string(least) + " to " + std::to_string(e.steps) +
                                  " can be",
                              "cut the sequence, or take a longer bucket");
    }
}

/// `f(step, b, length)` for each step of each sequence.
template <class F>
void each_step(const extents& e, const input_view& lengths, context& on, const F& f) {
    on.parallel(e.steps * e.batch, row_grain(e.width), [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r)
            f(r / e.batch, r % e.batch, static_cast<std::size_t>(lengths.i32()[r % e.batch]));
    });
}

} // namespace

void run(const ops::count_nonzero&, const call& c, context& on) {
    const along a(c.inputs[0].shape(), -1);
    const std::int32_t* x = c.inputs[0].i32();
    std::int32_t* to = c.outputs[0].i32();
    on.parallel(a.outer, row_grain(a.extent), [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) {
            std::int32_t count = 0;
            for (std::size_t i = r * a.extent; i < (r + 1) * a.extent; ++i) count += x[i] != 0;
            to[r] = count;
        }
    });
}

void run(const ops::sequence_mask& op, const call& c, context& on) {
    const extents e(c.inputs[0].shape());
    check(c.inputs[1], 0, e);
    const float* x = c.inputs[0].f32();
    float* y = c.outputs[0].f32(); // may be x
    const float number = static_cast<float>(op.number);
    each_step(e, c.inputs[1], on, [&](std::size_t t, std::size_t b, std::size_t length) {
        const std::size_t at = e.at(t, b);
        if (t >= length)
            std::fill_n(y + at, e.width, number);
        else if (x != y)
            std::copy_n(x + at, e.width, y + at);
    });
}

void run(const ops::sequence_reverse&, const call& c, context& on) {
    const extents e(c.inputs[0].shape());
    check(c.inputs[1], 0, e);
    each_step(e, c.inputs[1], on, [&](std::size_t t, std::size_t b, std::size_t length) {
        const std::size_t from = t < length ? length - 1 - t : t;
        std::copy_n(c.inputs[0].f32() + e.at(from, b), e.width, c.outputs[0].f32() + e.at(t, b));
    });
}

void run(const ops::sequence_last&, const call& c, context&) {
    const extents e(c.inputs[0].shape());
    check(c.inputs[1], 1, e);
    for (std::size_t b = 0; b < e.batch; ++b) {
        const auto length = static_cast<std::size_t>(c.inputs[1].i32()[b]);
        std::copy_n(c.inputs[0].f32() + e.at(length - 1, b), e.width, c.outputs[0].f32() + b * e.width);
    }
}

void run(const ops::sequence_last_gradient& op, const call& c, context& on) {
    const extents e(op.shape);
    check(c.inputs[1], 1, e);
    each_step(e, c.inputs[1], on, [&](std::size_t t, std::size_t b, std::size_t length) {
        float* to = c.outputs[0].f32() + e.at(t, b);
        if (t + 1 == length)
            std::copy_n(c.inputs[0].f32() + b * e.width, e.width, to);
        else
            std::fill_n(to, e.width, 0.0f);
    });
}

} // namespace engine::cpu
