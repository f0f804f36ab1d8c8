// SPDX-License-Identifier: BSL-1.0
/// @file
/// `launch`: a kernel body on the device. One grid-stride kernel for all bodies, its grid sized from
/// occupancy.
#pragma once

#include <echo/config.hpp>

#if !defined(__CUDACC__)
#error "echo/cuda/launch.cuh needs a CUDA compiler: compile the file as .cu, with nvcc"
#elif !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error "echo/cuda/launch.cuh needs constexpr functions on the device: compile with --expt-relaxed-constexpr"
#endif

#include <echo/cuda/check.hpp>
#include <echo/cuda/device.hpp>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/cuda/kernel/warp.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace echo::cuda {

namespace detail {

/// Threads that a multiprocessor holds, of the architecture that is compiled for.
constexpr int multiprocessor_threads() noexcept {
#if !defined(__CUDA_ARCH__)
    return 2048; // the host does not ask
#elif __CUDA_ARCH__ < 800
    return 1024;
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1100
    return 1536;
#else
    return 2048;
#endif
}
/// Whether what is compiled is for sm_100 or later.
constexpr bool is_from_100() noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    return true;
#else
    return false;
#endif
}
/// Blocks that a multiprocessor is to hold, by which the compiler limits the registers of a thread; 0: as it comes. A
/// body that wants many threads says how many: `Body::resident_threads`, or for sm_100 and later
/// `Body::resident_threads_from_100`.
template <class Body>
constexpr int least_blocks() noexcept {
    if constexpr (requires { Body::resident_threads; })
        return std::min(Body::resident_threads, multiprocessor_threads()) / block_threads;
    else if constexpr (is_from_100() && requires { Body::resident_threads_from_100; })
        return Body::resident_threads_from_100 / block_threads;
    else
        return 0;
}

template <class Body>
__global__ void __launch_bounds__(block_threads, least_blocks<Body>()) run_kernel(const Body body) {
    device_warp w;
    body(w);
}

/// `resident_blocks` of a kernel on the current device, asked once for each.
template <class Body>
int resident_blocks_of() {
    static std::array<std::atomic<int>, 64> known{};
    const auto device = static_cast<std::size_t>(current_device());
    const auto* kernel = reinterpret_cast<const void*>(&run_kernel<Body>);
    if (device >= known.size()) return resident_blocks(kernel, block_threads);
    int resident = known[device].load(std::memory_order_relaxed);
    if (resident == 0) {
        resident = resident_blocks(kernel, block_threads);
        known[device].store(resident, std::memory_order_relaxed);
    }
    return resident;
}

} // namespace detail

/// Starts the body on the stream, on the current device, to which the stream must belong. Nothing is
/// allocated and nothing is waited for, so it can be captured. `name` is what errors call the kernel. Throws
/// `error` if the launch is refused; faults of the kernel show up at a later call, as the runtime has them.
template <kernel_body Body>
void launch(std::string_view name, const Body& body, stream_ref stream) {
    const std::int64_t tiles = body.tiles();
    if (tiles == 0) return;
    Body copy = body;
    void* arguments[] = {&copy};
    const unsigned blocks = grid_for(tiles, detail::resident_blocks_of<Body>());
    // The launch's own code: the runtime's last error may be that of an earlier call of the host's.
    const cudaError_t code = cudaLaunchKernel(reinterpret_cast<const void*>(&detail::run_kernel<Body>),
                                              dim3(blocks), dim3(block_threads), arguments, 0, stream.get());
    if (code != cudaSuccess) check_kernel(code, "kernel " + std::string(name));
}

/// Loads the code of a body's kernel onto the current device and asks what `launch` asks once, so that no launch of it
/// does: a first launch within a capture would load code there, which a driver may refuse. Throws as `launch`.
///
/// ```cpp
/// echo::cuda::prepare(echo::cuda::kernel::encode(x, mask, n));
/// echo::cuda::prepare(fused::body_of<dz>(results, operands, extents));
/// ```
template <kernel_body Body>
void prepare() {
    cudaFuncAttributes attributes{};
    check_kernel(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&detail::run_kernel<Body>)),
                 "cudaFuncGetAttributes");
    static_cast<void>(detail::resident_blocks_of<Body>());
}
/// The same, by a body at hand.
template <kernel_body Body>
void prepare(const Body&) {
    prepare<Body>();
}

} // namespace echo::cuda
