// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every kernel of the one-bit helpers, for every element type: compiled for each architecture with warnings
/// as errors, and read for spills by tests/cuda/spills.py.
#include "every_one_bit.cuh"

void every_kernel_of_every_type(void* data, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    every_one_bit_kernel(static_cast<const float*>(data), static_cast<float*>(data), mask, n, s);
    every_one_bit_kernel(static_cast<const __half*>(data), static_cast<__half*>(data), mask, n, s);
    every_one_bit_kernel(static_cast<const __nv_bfloat16*>(data), static_cast<__nv_bfloat16*>(data), mask, n,
                         s);
}
