// SPDX-License-Identifier: BSL-1.0
// The tensors of an attention layer, as docs/cuda.md takes them as given.
#include <cstdint>

void gradient(float* dx, const float* q, const float* k, const float* dy, std::int64_t batch,
              std::int64_t time, std::int64_t hidden, cudaStream_t stream) {
    // block
}
