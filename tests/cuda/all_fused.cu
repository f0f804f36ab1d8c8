// SPDX-License-Identifier: BSL-1.0
/// @file
/// Typical fused kernels, for every element type: compiled for each architecture with warnings as errors, and read for
/// spills and for accesses of 16 bytes by tests/cuda/spills.py.
#include "typical_fused.hpp"

#include <echo/cuda/fused.cuh>

namespace {

using namespace typical;

template <class T>
void every_kernel(T* to, const T* from, const mask_word* mask, const extents& e, echo::cuda::stream_ref s) {
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
    run<bias>(results(row), operands(x, whole(mask, e)), e, s);
}

} // namespace

void every_fused_kernel_of_every_type(void* to, const void* from, const mask_word* mask, const extents& e,
                                      echo::cuda::stream_ref s) {
    every_kernel(static_cast<float*>(to), static_cast<const float*>(from), mask, e, s);
    every_kernel(static_cast<__half*>(to), static_cast<const __half*>(from), mask, e, s);
    every_kernel(static_cast<__nv_bfloat16*>(to), static_cast<const __nv_bfloat16*>(from), mask, e, s);
}
