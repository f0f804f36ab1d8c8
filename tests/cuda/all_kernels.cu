// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every kernel of the one-bit helpers, for every element type: compiled for each architecture with warnings
/// as errors, and read for spills by tests/cuda/spills.py.
#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

namespace {

template <class T>
void every_kernel(const T* in, T* out, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    using namespace echo::cuda;
    encode(in, mask, n, s);
    decode(mask, out, n, s);
    relu_forward(in, out, mask, n, s);
    relu_backward(in, mask, out, n, s);
    dropout_forward(in, out, mask, n, 0.5, {}, s);
    dropout_forward(in, out, n, 0.5, {}, s);
    dropout_backward(in, mask, out, n, 0.5, s);
    dropout_backward(in, out, n, 0.5, {}, s);
}

} // namespace

void every_kernel_of_every_type(void* data, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    every_kernel(static_cast<const float*>(data), static_cast<float*>(data), mask, n, s);
    every_kernel(static_cast<const __half*>(data), static_cast<__half*>(data), mask, n, s);
    every_kernel(static_cast<const __nv_bfloat16*>(data), static_cast<__nv_bfloat16*>(data), mask, n, s);
}
