// SPDX-License-Identifier: BSL-1.0
/// @file
/// A tensor read in the order of another shape: repeated along axes, or with its axes in another order.
#pragma once

#include "engine/cpu/block.hpp"
#include "engine/value.hpp"

#include <algorithm>

namespace engine::cpu {

/// Elements apart, per axis: those of a tensor that is stored in order of its shape.
inline std::vector<std::size_t> strides_of(const echo::shape& shape) {
    std::vector<std::size_t> made(shape.rank());
    std::size_t step = 1;
    for (std::size_t i = shape.rank(); i-- > 0;) {
        made[i] = step;
        step *= static_cast<std::size_t>(shape[i]);
    }
    return made;
}

/// Reads `from` as a tensor of some shape whose axes lie `strides` apart in it; 0 repeats.
template <class T>
class strided {
public:
    strided(const T* from, const echo::shape& shape, const std::vector<std::size_t>& strides) : from_(from) {
        for (std::size_t i = 0; i < shape.rank(); ++i) {
            const auto extent = static_cast<std::size_t>(shape[i]);
            if (extent == 1) continue;
            // Two axes of which the outer goes on where the inner ends are one.
            if (!axes_.empty() && axes_.back().stride == strides[i] * extent)
                axes_.back() = {axes_.back().extent * extent, strides[i]};
            else
                axes_.push_back({extent, strides[i]});
        }
        if (axes_.empty()) axes_.push_back({1, 0});
    }
    /// A tensor of shape `own` repeated to `shape`, aligned at the last axes.
    static strided repeated(const T* from, const echo::shape& own, const echo::shape& shape) {
        std::vector<std::size_t> strides(shape.rank(), 0);
        const auto mine = strides_of(own);
        const std::size_t offset = shape.rank() - own.rank();
        for (std::size_t i = 0; i < own.rank(); ++i)
            if (own[i] != 1) strides[offset + i] = mine[i];
        return strided(from, shape, strides);
    }

    /// Copies elements `first` to `first` + n.
    void read(std::size_t first, std::size_t n, T* to) const {
        const axis& inner = axes_.back();
        while (n) {
            std::size_t rest = first / inner.extent, at = 0;
            const std::size_t column = first % inner.extent;
            for (std::size_t i = axes_.size() - 1; i-- > 0;) {
                at += rest % axes_[i].extent * axes_[i].stride;
                rest /= axes_[i].extent;
            }
            const std::size_t count = std::min(n, inner.extent - column);
            const T* begin = from_ + at + column * inner.stride;
            if (inner.stride == 1)
                std::memcpy(to, begin, count * sizeof(T));
            else if (inner.stride == 0)
                std::fill_n(to, count, *begin);
            else
                for (std::size_t i = 0; i < count; ++i) to[i] = begin[i * inner.stride];
            to += count, first += count, n -= count;
        }
    }

private:
    struct axis {
        std::size_t extent, stride;
    };
    const T* from_;
    std::vector<axis> axes_;
};

} // namespace engine::cpu
