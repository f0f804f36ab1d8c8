// SPDX-License-Identifier: BSL-1.0
/// @file
/// CUDA's own memory for `device_arena`: `cuda_malloc_allocator`, and `stream_ordered_allocator` over a
/// `memory_pool`.
#pragma once

#include <echo/cuda/arena.hpp>
#include <echo/cuda/check.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace echo::cuda {

/// What CUDA's allocators keep to; a larger alignment is refused.
inline constexpr std::size_t cuda_alignment = 256;

namespace detail {

inline void check_alignment(std::size_t alignment) {
    if (alignment > cuda_alignment)
        throw argument_error("alignment", "is more than the 256 bytes that CUDA's allocators keep to",
                             "plan with a smaller memory_options::align");
}

} // namespace detail

/// cudaMalloc and cudaFree. The latter waits for the whole device, and neither can be captured in a graph:
/// for memory that is allocated once and kept.
struct cuda_malloc_allocator {
    /// `bytes` of device memory by cudaMalloc, which waits for the device. Errors: `out_of_memory`, `error`.
    void* allocate(std::size_t bytes, std::size_t alignment, stream_ref) {
        detail::check_alignment(alignment);
        void* memory = nullptr;
        check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes);
        return memory;
    }
    /// Gives it back by cudaFree, which waits for the device too.
    void deallocate(void* memory, std::size_t, stream_ref) noexcept { static_cast<void>(cudaFree(memory)); }
};

/// Owns a pool of device memory that keeps what is given back to it, and knows its peak. Moved-from pools can
/// only be assigned to and destroyed.
class memory_pool {
public:
    /// On a device; at most `most` bytes, 0 for no limit.
    explicit memory_pool(int device, std::size_t most = 0) {
        cudaMemPoolProps wanted{};
        wanted.allocType = cudaMemAllocationTypePinned;
        wanted.handleTypes = cudaMemHandleTypeNone;
        wanted.location.type = cudaMemLocationTypeDevice;
        wanted.location.id = device;
        wanted.maxSize = most;
        check(cudaMemPoolCreate(&handle_, &wanted), "cudaMemPoolCreate");
        auto keep = std::numeric_limits<std::uint64_t>::max();
        const cudaError_t code = cudaMemPoolSetAttribute(handle_, cudaMemPoolAttrReleaseThreshold, &keep);
        if (code != cudaSuccess) static_cast<void>(cudaMemPoolDestroy(handle_));
        check(code, "cudaMemPoolSetAttribute");
    }
    memory_pool(memory_pool&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    memory_pool& operator=(memory_pool&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~memory_pool() {
        if (handle_) static_cast<void>(cudaMemPoolDestroy(handle_));
    }

    /// CUDA's own handle, which stays this object's.
    cudaMemPool_t get() const noexcept { return handle_; }

    /// Bytes in use now, and the most there were since the last `reset_peak`.
    std::uint64_t used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
    /// The most bytes that were in use at once since the last `reset_peak`. Errors: `error`.
    std::uint64_t peak() const { return attribute(cudaMemPoolAttrUsedMemHigh); }
    /// From now on `peak` counts anew. Errors: `error`.
    void reset_peak() {
        std::uint64_t zero = 0;
        check(cudaMemPoolSetAttribute(handle_, cudaMemPoolAttrUsedMemHigh, &zero), "cudaMemPoolSetAttribute");
    }

private:
    std::uint64_t attribute(cudaMemPoolAttr which) const {
        std::uint64_t value = 0;
        check(cudaMemPoolGetAttribute(handle_, which, &value), "cudaMemPoolGetAttribute");
        return value;
    }

    cudaMemPool_t handle_ = nullptr;
};

/// cudaMallocAsync: from a pool, in the order of the stream, without waiting; can be captured in a graph. The
/// pool outlives the allocator.
class stream_ordered_allocator {
public:
    /// From the default pool of the current device.
    stream_ordered_allocator() {
        int device = 0;
        check(cudaGetDevice(&device), "cudaGetDevice");
        check(cudaDeviceGetDefaultMemPool(&pool_, device), "cudaDeviceGetDefaultMemPool");
    }
    /// Takes memory from that pool, which must outlive the allocator.
    explicit stream_ordered_allocator(const memory_pool& pool) noexcept : pool_(pool.get()) {}
    /// Takes memory from a pool of somebody else's.
    explicit stream_ordered_allocator(cudaMemPool_t pool) noexcept : pool_(pool) {}

    /// `bytes` of the pool, in the stream's order. Errors: `out_of_memory`, `error`.
    void* allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) {
        detail::check_alignment(alignment);
        void* memory = nullptr;
        check_allocation(cudaMallocFromPoolAsync(&memory, bytes, pool_, stream.get()),
                         "cudaMallocFromPoolAsync", bytes);
        return memory;
    }
    /// Gives it back in the stream's order.
    void deallocate(void* memory, std::size_t, stream_ref stream) noexcept {
        static_cast<void>(cudaFreeAsync(memory, stream.get()));
    }

private:
    cudaMemPool_t pool_ = nullptr;
};

static_assert(device_allocator<cuda_malloc_allocator> && device_allocator<stream_ordered_allocator>);

} // namespace echo::cuda
