// SPDX-License-Identifier: BSL-1.0
/// @file
/// Pooling: a lane for each element of the result. The gradient looks from each element of x at the windows that reach
/// it, in their order; of equal maxima the first in its window takes all.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/rows.hpp"
#include "engine/op.hpp"

#include <limits>

namespace engine::cuda {

/// Positions that windows reach along one axis.
struct reach {
    std::int32_t extent, windows, stride, padding, dilation, kernel;

    reach() = default;
    reach(const ops::pooling& op, const echo::shape& x, const echo::shape& y, std::size_t i)
        : extent(static_cast<std::int32_t>(x[op.window.space_axis(i)])),
          windows(static_cast<std::int32_t>(y[op.window.space_axis(i)])),
          stride(static_cast<std::int32_t>(op.window.stride[i])),
          padding(static_cast<std::int32_t>(op.window.padding[i])),
          dilation(static_cast<std::int32_t>(op.window.dilation[i])),
          kernel(static_cast<std::int32_t>(op.kernel[i])) {}

    ECHO_HOST_DEVICE constexpr std::int32_t begin(std::int32_t window) const {
        return window * stride - padding;
    }
    ECHO_HOST_DEVICE constexpr bool holds(std::int32_t at) const { return at >= 0 && at < extent; }
    /// The first window that may reach a position, and the last.
    ECHO_HOST_DEVICE constexpr std::int32_t first_window(std::int32_t at) const {
        const std::int32_t rest = at + padding - dilation * (kernel - 1);
        return rest <= 0 ? 0 : (rest + stride - 1) / stride;
    }
    ECHO_HOST_DEVICE constexpr std::int32_t last_window(std::int32_t at) const {
        const std::int32_t last = (at + padding) / stride;
        return last < windows ? last : windows - 1;
    }
    ECHO_HOST_DEVICE constexpr bool reaches(std::int32_t window, std::int32_t at) const {
        return (at - begin(window)) % dilation == 0;
    }
};

/// An image's elements: where a channel of it begins, and how far apart its columns are.
struct image_place {
    std::int32_t first, row, column;
};

/// Extents of images [n, c, h, w] or [n, h, w, c], to find an element's place.
struct images {
    divisor inner, middle, outer; ///< the three last axes, from the last
    bool channels_last;

    images() = default;
    images(const echo::shape& s, bool last)
        : inner(static_cast<std::uint64_t>(s[3])), middle(static_cast<std::uint64_t>(s[2])),
          outer(static_cast<std::uint64_t>(s[1])), channels_last(last) {}

    ECHO_HOST_DEVICE std::int32_t step() const {
        return channels_last ? static_cast<std::int32_t>(inner.value()) : 1;
    }
    /// Elements of an image's channel, or of its channels where they lie together.
    ECHO_HOST_DEVICE std::int32_t area() const {
        return static_cast<std::int32_t>(inner.value() * middle.value() *
                                         (channels_last ? outer.value() : 1));
    }
    /// `other`: the images in which `first` is to be.
    ECHO_HOST_DEVICE image_place place(std::int64_t i, const images& other) const {
        const division a(i, inner), b(a.quotient, middle);
        if (channels_last) {
            const division d(b.quotient, outer);
            return {static_cast<std::int32_t>(d.quotient) * other.area() + static_cast<std::int32_t>(a.rest),
                    static_cast<std::int32_t>(d.rest), static_cast<std::int32_t>(b.rest)};
        }
        return {static_cast<std::int32_t>(b.quotient) * other.area(), static_cast<std::int32_t>(b.rest),
                static_cast<std::int32_t>(a.rest)};
    }
};

struct pool_element {
    const float* x;
    float* y;
    images from, to;
    reach rows, columns;
    bool maxima;

    template <class>
    ECHO_HOST_DEVICE void element(std::int64_t i) const {
        const image_place at = to.place(i, from);
        float most = std::numeric_limits<float>::lowest(), sum = 0;
        for (std::int32_t k = 0, h = rows.begin(at.row); k < rows.kernel; ++k, h += rows.dilation) {
            if (!rows.holds(h)) continue;
            for (std::int32_t j = 0, v = columns.begin(at.column); j < columns.kernel;
                 ++j, v += columns.dilation) {
                if (!columns.holds(v)) continue;
                const float read = x[at.first + (h * columns.extent + v) * from.step()];
                most = read > most ? read : most;
                sum += read;
            }
        }
        y[i] = maxima ? most : sum / static_cast<float>(rows.kernel * columns.kernel);
    }
};

template <class Launcher>
void run(const ops::pooling& op, const call& c, Launcher& launcher) {
    const echo::shape &x = c.inputs[0].shape(), &y = c.outputs[0].shape();
    const bool last = op.window.channels_last;
    run_elements(op.name, c.outputs[0].size(),
                 pool_element{c.inputs[0].f32(), c.outputs[0].f32(), images(x, last), images(y, last),
                              reach(op, x, y, 0), reach(op, x, y, 1), op.how == ops::pooling::max},
                 launcher);
}

struct pool_gradient_element {
    const float *dy, *x, *y; ///< of maxima x and y too
    float* dx;
    images from, windows; ///< of x, and of y
    reach rows, columns;
    float share;

    /// Whether no element of window (r, s) in front of (h, v) is `most`.
    ECHO_HOST_DEVICE bool is_first(const float* image, std::int32_t r, std::int32_t s, std::int32_t h,
                                   std::int32_t v, float most) const {
        for (std::int32_t a = rows.begin(r); a <= h; a += rows.dilation) {
            if (!rows.holds(a)) continue;
            std::int32_t b = columns.begin(s);
            for (std::int32_t j = 0; j < columns.kernel; ++j, b += columns.dilation) {
                if (a == h && b >= v) break;
                if (columns.holds(b) && image[(a * columns.extent + b) * from.step()] == most) return false;
            }
        }
        return true;
    }
    template <class>
    ECHO_HOST_DEVICE void element(std::int64_t i) const {
        const image_place at = from.place(i, windows);
        const image_place own = from.place(i, from);
        const float value = x ? x[i] : 0;
        float sum = 0;
        for (std::int32_t r = rows.first_window(at.row); r <= rows.last_window(at.row); ++r) {
            if (!rows.reaches(r, at.row)) continue;
            for (std::int32_t s = columns.first_window(at.column); s <= columns.last_window(at.column); ++s) {
                if (!columns.reaches(s, at.column)) continue;
                const std::int32_t window = at.first + (r * columns.windows + s) * windows.step();
                if (!x)
                    sum += dy[window] * share;
                else if (y[window] == value && is_first(x + own.first, r, s, at.row, at.column, value))
                    sum += dy[window];
            }
        }
        dx[i] = sum;
    }
};

template <class Launcher>
void run(const ops::pooling_gradient& op, const call& c, Launcher& launcher) {
    const echo::shape& windows = c.inputs[0].shape();
    const bool last = op.of.window.channels_last, maxima = op.of.how == ops::pooling::max;
    run_elements(op.name, c.outputs[0].size(),
                 pool_gradient_element{c.inputs[0].f32(), maxima ? c.inputs[1].f32() : nullptr,
                                       maxima ? c.inputs[2].f32() : nullptr, c.outputs[0].f32(),
                                       images(op.shape, last), images(windows, last),
                                       reach(op.of, op.shape, windows, 0), reach(op.of, op.shape, windows, 1),
                                       1 / static_cast<float>(op.of.kernel[0] * op.of.kernel[1])},
                 launcher);
}

} // namespace engine::cuda
