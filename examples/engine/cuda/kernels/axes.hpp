// SPDX-License-Identifier: BSL-1.0
/// @file
/// Positions by index: axes of which some lie together as one, with the steps that several operands take along them.
#pragma once

#include "engine/value.hpp"

#include <echo/config.hpp>
#include <echo/cuda/kernel/divisor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace engine::cuda {

/// Elements are numbered in 31 bits, those of a last group that are none too.
inline constexpr std::size_t most_elements = (std::size_t{1} << 31) - 128;

/// Errors: a tensor has more.
inline void expect_numbered(const echo::tensor& t) {
    if (elements(t) > most_elements)
        throw echo::error({}, "shape", "a tensor of " + std::to_string(elements(t)) + " elements",
                          "kernels take at most " + std::to_string(most_elements) + ": lower the batch");
}

using echo::cuda::division;
using echo::cuda::divisor;

/// More do not occur: neighbours that lie together are one.
inline constexpr int most_axes = 6;

/// Where each of `N` operands has the element of an index. Axis 0 is the innermost.
template <int N>
struct axes {
    int count = 0;
    divisor extent[most_axes]{};
    std::int32_t step[most_axes][N]{};

    /// Adds them. Axes are constants in the code: an index into what a kernel was given would have it copied.
    template <int Axis = 0>
    ECHO_HOST_DEVICE constexpr void add(std::uint32_t index, std::int32_t (&at)[N]) const noexcept {
        if constexpr (Axis + 1 < most_axes)
            if (Axis + 1 < count) {
                const division d(index, extent[Axis]);
                for (int i = 0; i < N; ++i) at[i] += static_cast<std::int32_t>(d.rest) * step[Axis][i];
                add<Axis + 1>(d.quotient, at);
                return;
            }
        for (int i = 0; i < N; ++i) at[i] += static_cast<std::int32_t>(index) * step[Axis][i];
    }
};

/// Axes as they are put together, outermost first.
template <int N>
class axis_list {
public:
    using steps = std::array<std::int64_t, static_cast<std::size_t>(N)>;

    /// An axis behind the others. One of extent 1 is left out; where the step of the outer one goes on behind its end,
    /// for all operands, the two are one.
    void push(std::int64_t extent, const steps& step) {
        if (extent == 1) return;
        bool joins = !all_.empty();
        for (std::size_t i = 0; i < step.size() && joins; ++i)
            joins = all_.back().step[i] == step[i] * extent;
        if (joins)
            all_.back() = {all_.back().extent * extent, step};
        else
            all_.push_back({extent, step});
    }

    std::size_t size() const { return all_.size(); }
    std::int64_t extent(std::size_t i) const { return all_[i].extent; }
    const steps& step(std::size_t i) const { return all_[i].step; }
    std::int64_t count() const {
        std::int64_t n = 1;
        for (const auto& one : all_) n *= one.extent;
        return n;
    }

    /// Errors: more axes than kernels know.
    axes<N> made() const {
        if (all_.size() > static_cast<std::size_t>(most_axes))
            throw echo::error({}, "shape", std::to_string(all_.size()) + " axes that do not lie together",
                              "reshape so that at most " + std::to_string(most_axes) + " are left");
        axes<N> to;
        to.count = static_cast<int>(all_.size());
        for (std::size_t a = 0; a < all_.size(); ++a) {
            const auto& from = all_[all_.size() - 1 - a];
            to.extent[a] = divisor(static_cast<std::uint64_t>(from.extent));
            for (std::size_t i = 0; i < from.step.size(); ++i)
                to.step[a][i] = static_cast<std::int32_t>(from.step[i]);
        }
        return to;
    }

private:
    struct axis {
        std::int64_t extent;
        steps step;
    };
    std::vector<axis> all_;
};

/// Elements apart, per axis, of a tensor that is stored in order of its shape.
inline std::vector<std::int64_t> steps_of(const echo::shape& shape) {
    std::vector<std::int64_t> made(shape.rank());
    std::int64_t step = 1;
    for (std::size_t i = shape.rank(); i-- > 0;) {
        made[i] = step;
        step *= shape[i];
    }
    return made;
}

/// The same of a tensor of shape `own` repeated to `whole`, aligned at the last axes.
inline std::vector<std::int64_t> repeated_steps(const echo::shape& own, const echo::shape& whole) {
    std::vector<std::int64_t> made(whole.rank(), 0);
    const auto mine = steps_of(own);
    const std::size_t offset = whole.rank() - own.rank();
    for (std::size_t i = 0; i < own.rank(); ++i)
        if (own[i] != 1) made[offset + i] = mine[i];
    return made;
}

} // namespace engine::cuda
