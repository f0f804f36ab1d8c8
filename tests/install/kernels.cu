// SPDX-License-Identifier: BSL-1.0
// A project with kernels: nvcc is told all that Echo's .cuh headers need by linking echo::cuda.
#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/stream.hpp>

bool device_is_there();

int main() {
    try {
        const echo::cuda::stream own;
        void* memory = nullptr;
        echo::cuda::check(cudaMalloc(&memory, 4096), "cudaMalloc");
        auto* const x = static_cast<float*>(memory);
        auto* const mask = reinterpret_cast<std::uint32_t*>(x + 512);
        echo::cuda::check(cudaMemsetAsync(x, 0, 2048, own.get()), "cudaMemsetAsync");
        echo::cuda::relu_forward(x, x, mask, 512, own);
        own.wait();
        return device_is_there() ? 0 : 1;
    } catch (const echo::cuda::error& e) { // on a machine without a device that is the right answer
        const auto kind = e.kind();
        const bool none = kind == echo::cuda::fault::no_driver || kind == echo::cuda::fault::no_device;
        return none && !device_is_there() ? 0 : 1;
    }
}
