// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every call of the one-bit helpers.
#pragma once

#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

template <class T>
void every_one_bit_kernel(const T* in, T* out, std::uint32_t* mask, std::int64_t n,
                          echo::cuda::stream_ref s) {
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
