// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every typical fused kernel, launched: what all_fused.cu compiles for each architecture and counts/fused.cu counts.
#pragma once

#include "typical_fused.hpp"

#include <echo/cuda/fused.cuh>

/// `behind`: what the bias's gradient reads of relu, one bit or one number for each element.
template <class T, class U>
void every_fused(T* to, const T* from, const U* behind, const echo::cuda::fused::extents& e,
                 echo::cuda::stream_ref s) {
    using namespace typical;
    const auto y = whole(to, e);
    const auto x = whole(from, e);
    const auto row = per_row(to, e);
    run<forward>(results(y), operands(x, x), e, s);
    run<stashed>(results(y), operands(x, x), e, s);
    run<recomputed>(results(y), operands(x, x, x), e, s);
    run<cell>(results(y), operands(x, x, x, x), e, s);
    run<gates>(results(y, y, y), operands(x, x, x, x, x), e, s);
    run<gelu>(results(y), operands(x, x, x), e, s);
    run<gelu_tanh>(results(y), operands(x, x, x), e, s);
    run<normed>(results(y, row, row), operands(x, x, x, x), e, s);
    run<norm_gradient>(results(y), operands(x, x, x, x, x), e, s);
    run<soft>(results(y), operands(x), e, s);
    run<soft_gradient>(results(y), operands(x, x), e, s);
    run<bias>(results(row), operands(x, whole(behind, e)), e, s);
}
