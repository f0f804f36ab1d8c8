// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sums over some axes of values that are computed block by block. Each sum adds in the order of the elements, in
/// double, on one thread.
#pragma once

#include "engine/cpu/block.hpp"
#include "engine/cpu/context.hpp"
#include "engine/value.hpp"

#include <array>

namespace engine::cpu {

/// Runs of kept and of summed axes, alternating, as one axis each.
struct sum_axes {
    struct axis {
        std::size_t extent;
        bool summed;
    };
    std::vector<axis> axes;
    std::size_t results = 1, terms = 1;

    sum_axes(const echo::shape& shape, const std::vector<bool>& summed) {
        for (std::size_t i = 0; i < shape.rank(); ++i) {
            const auto extent = static_cast<std::size_t>(shape[i]);
            if (extent == 1) continue;
            if (!axes.empty() && axes.back().summed == summed[i])
                axes.back().extent *= extent;
            else
                axes.push_back({extent, summed[i]});
            (summed[i] ? terms : results) *= extent;
        }
        if (axes.empty()) axes.push_back({1, false});
    }

    /// Position of the first element of kept index `kept` and summed index `term`, the last axis left out.
    std::size_t row(std::size_t kept, std::size_t term) const {
        std::size_t at = 0, step = axes.back().extent;
        for (std::size_t i = axes.size() - 1; i-- > 0;) {
            std::size_t& index = axes[i].summed ? term : kept;
            at += index % axes[i].extent * step;
            index /= axes[i].extent;
            step *= axes[i].extent;
        }
        return at;
    }
};

/// Several sums at once: `values(first, n, block&)` computes elements, `terms(x)` what each adds to the `Count` sums,
/// as an array (nothing where x is 0); `take(kept, sums)` is called with those of each result.
template <std::size_t Count, class Values, class Terms, class Take>
void sums_over(const sum_axes& over, const Values& values, const Terms& terms, const Take& take,
               context& on) {
    const std::size_t inner = over.axes.back().extent;
    const std::size_t work = over.results ? std::max<std::size_t>(1, thread_grain / (over.terms + 1)) : 1;
    if (over.axes.back().summed) { // sums of rows
        const std::size_t rows = over.terms / std::max<std::size_t>(inner, 1);
        on.parallel(over.results, work, [&](std::size_t first, std::size_t last) {
            block v;
            for (std::size_t kept = first; kept < last; ++kept) {
                double lanes[Count][vector_size] = {}, sums[Count] = {};
                for (std::size_t r = 0; r < rows; ++r) {
                    const std::size_t begin = over.row(kept, r);
                    for (std::size_t at = 0; at < inner; at += block_size) {
                        const std::size_t n = std::min(block_size, inner - at);
                        values(begin + at, n, v);
                        for (std::size_t i = n; i < padded(n); ++i) v.at[i] = 0;
                        for (std::size_t i = 0; i < padded(n); i += vector_size)
                            for (std::size_t k = 0; k < vector_size; ++k) {
                                const auto added = terms(static_cast<double>(v.at[i + k]));
                                for (std::size_t s = 0; s < Count; ++s) lanes[s][k] += added[s];
                            }
                    }
                }
                for (std::size_t s = 0; s < Count; ++s)
                    for (const double lane : lanes[s]) sums[s] += lane;
                take(kept, sums);
            }
        });
        return;
    }
    const std::size_t columns = (inner + block_size - 1) / block_size; // blocks of them
    const std::size_t outer = over.results / std::max<std::size_t>(inner, 1);
    const std::size_t grain = std::max<std::size_t>(1, work / block_size);
    on.parallel(outer * columns, grain, [&](std::size_t first, std::size_t last) {
        block v;
        alignas(64) double sums[Count][block_size];
        for (std::size_t task = first; task < last; ++task) {
            const std::size_t kept = task / columns, column = task % columns * block_size;
            const std::size_t n = std::min(block_size, inner - column);
            std::fill_n(sums[0], Count * block_size, 0.0);
            for (std::size_t term = 0; term < over.terms; ++term) {
                values(over.row(kept, term) + column, n, v);
                for (std::size_t i = 0; i < padded(n); ++i) {
                    const auto added = terms(static_cast<double>(v.at[i]));
                    for (std::size_t s = 0; s < Count; ++s) sums[s][i] += added[s];
                }
            }
            for (std::size_t i = 0; i < n; ++i) {
                double of[Count];
                for (std::size_t s = 0; s < Count; ++s) of[s] = sums[s][i];
                take(kept * inner + column + i, of);
            }
        }
    });
}

/// `values(first, n, block&)` computes elements; their sums times `factor` go to `to`.
template <class Values>
void sum_over(const sum_axes& over, const Values& values, double factor, float* to, context& on) {
    sums_over<1>(
        over, values, [](double x) { return std::array{x}; },
        [=](std::size_t kept, const double* sums) { to[kept] = static_cast<float>(sums[0] * factor); }, on);
}

} // namespace engine::cpu
