// SPDX-License-Identifier: BSL-1.0
/// @file
/// Typical fused kernels, for every element type: compiled for each architecture with warnings as errors, and read for
/// spills and for accesses of 16 bytes by tests/cuda/spills.py.
#include "every_fused.cuh"

void every_fused_kernel_of_every_type(void* to, const void* from, const echo::cuda::fused::mask_word* mask,
                                      const echo::cuda::fused::extents& e, echo::cuda::stream_ref s) {
    every_fused(static_cast<float*>(to), static_cast<const float*>(from), mask, e, s);
    every_fused(static_cast<__half*>(to), static_cast<const __half*>(from), mask, e, s);
    every_fused(static_cast<__nv_bfloat16*>(to), static_cast<const __nv_bfloat16*>(from), mask, e, s);
}
