// SPDX-License-Identifier: BSL-1.0
/// @file
/// The one-bit kernels as they are counted: fp32 and fp16 (bf16 differs in the conversion alone).
#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

namespace {

template <class T>
void counted(const T* in, T* out, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    using namespace echo::cuda;
    encode(in, mask, n, s);
    decode(mask, out, n, s);
    relu_forward(in, out, mask, n, s);
    relu_backward(in, mask, out, n, s);
    dropout_forward(in, out, mask, n, 0.5, {}, s);
    dropout_forward(in, out, n, 0.5, {}, s);
    dropout_backward(in, mask, out, n, 0.5, s);
}

} // namespace

void all_counted(void* data, std::uint32_t* mask, std::int64_t n, echo::cuda::stream_ref s) {
    counted(static_cast<const float*>(data), static_cast<float*>(data), mask, n, s);
    counted(static_cast<const __half*>(data), static_cast<__half*>(data), mask, n, s);
}
