// SPDX-License-Identifier: BSL-1.0
/// @file
/// What is asked of a device: is there one, how large is it, how much of its memory is free, how many blocks
/// of a kernel it holds at once.
#pragma once

#include <echo/cuda/check.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace echo::cuda {

/// The devices that the process may see: at least one. Throws `error` (`no_device`, `no_driver`,
/// `driver_too_old`) where there is none.
inline int device_count() {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (count == 0) check(cudaErrorNoDevice, "cudaGetDeviceCount");
    return count;
}

/// The device that calls of this thread go to.
inline int current_device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    return device;
}

/// Makes a device the current one of this thread, and the earlier one again at its end.
class device_scope {
public:
    /// From here on that device is the current one; the end of the scope brings back the one before. Errors:
    /// `error`.
    explicit device_scope(int device) : before_(current_device()) {
        check(cudaSetDevice(device), "cudaSetDevice");
    }
    device_scope(const device_scope&) = delete;
    device_scope& operator=(const device_scope&) = delete;
    ~device_scope() { static_cast<void>(cudaSetDevice(before_)); }

private:
    int before_;
};

/// What kernels and reports need to know of a device. Memory in bytes.
struct device_properties {
    std::string name{};                 ///< As the driver calls it.
    std::string bus{};                  ///< PCI address, by which other tools name it: "0000:3b:00.0"
    int major = 0;                      ///< of the architecture: 9 of sm_90
    int minor = 0;                      ///< The second number of the compute capability.
    int multiprocessors = 0;            ///< Multiprocessors of the card.
    int threads_per_multiprocessor = 0; ///< Threads that one of them holds at once.
    std::uint64_t memory = 0;           ///< Bytes of the card.
    std::uint64_t level_2_cache = 0;    ///< Bytes.

    /// As nvcc numbers it: 90 of sm_90.
    int architecture() const noexcept { return 10 * major + minor; }
};

/// What the runtime says of a device. Errors: `error` if there is no such device.
inline device_properties properties_of(int device) {
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
    char bus[32] = {};
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
    return {.name = found.name,
            .bus = bus,
            .major = found.major,
            .minor = found.minor,
            .multiprocessors = found.multiProcessorCount,
            .threads_per_multiprocessor = found.maxThreadsPerMultiProcessor,
            .memory = found.totalGlobalMem,
            .level_2_cache = static_cast<std::uint64_t>(found.l2CacheSize)};
}

/// Bytes of the current device, whoever uses them. Asking costs some microseconds and is for reports, not for
/// steps.
struct device_memory {
    std::uint64_t free = 0;  ///< Bytes that nobody has taken.
    std::uint64_t total = 0; ///< Bytes of the card.
};

/// What is free on the current device, and what it has. Errors: `error`.
inline device_memory memory_of_current_device() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {free, total};
}

/// Blocks of a kernel that the current device holds at once: what a grid-stride kernel needs and no more.
/// `kernel` is the function, `shared_bytes` the dynamic shared memory of a block. Throws `error` (`invalid`)
/// for a block that does not fit. Costs microseconds: ask once per kernel and device.
template <class Built = built_architectures>
int resident_blocks(const void* kernel, int threads, std::size_t shared_bytes = 0) {
    int per_multiprocessor = 0, multiprocessors = 0;
    check_kernel<Built>(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, threads, shared_bytes),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, current_device()),
          "cudaDeviceGetAttribute");
    if (per_multiprocessor == 0) check(cudaErrorLaunchOutOfResources, "a block of the kernel");
    return per_multiprocessor * multiprocessors;
}

/// Blocks to launch for `items` of which each block takes `items_per_block` at a time: all of them, but no
/// more than are resident. At least 1; for no items the caller launches nothing.
constexpr unsigned grid_blocks(std::uint64_t items, std::uint64_t items_per_block, int resident) noexcept {
    const std::uint64_t wanted = items / items_per_block + (items % items_per_block ? 1 : 0);
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(wanted, 1, static_cast<std::uint64_t>(std::max(resident, 1))));
}

} // namespace echo::cuda
