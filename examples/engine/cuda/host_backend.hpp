// SPDX-License-Identifier: BSL-1.0
/// @file
/// `host_backend`: this back end with its kernels on the CPU and the CPU backend's products and convolutions. It proves
/// kernels, and their order in a step, where there is no device.
#pragma once

#include "engine/cuda/cpu_library.hpp"
#include "engine/cuda/host_launcher.hpp"

namespace engine::cuda {

class host_backend {
public:
    /// 0 threads: as many as OpenMP offers to the library; kernels run on one.
    explicit host_backend(int threads = 0, echo::cuda::host_grid grid = {})
        : launcher_{grid}, library_(threads) {}

    void run(const op& o, const call& c);
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out);

private:
    host_launcher launcher_;
    cpu_library library_;
};

} // namespace engine::cuda
