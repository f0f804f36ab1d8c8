// SPDX-License-Identifier: BSL-1.0
/// @file
/// The one-bit kernels as they are counted.
#include "../every_one_bit.cuh"

void all_counted(void* data, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    every_one_bit_kernel(static_cast<const float*>(data), static_cast<float*>(data), mask, n, s);
    every_one_bit_kernel(static_cast<const __half*>(data), static_cast<__half*>(data), mask, n, s);
    every_one_bit_kernel(static_cast<const __nv_bfloat16*>(data), static_cast<__nv_bfloat16*>(data), mask, n,
                         s);
}
