// SPDX-License-Identifier: BSL-1.0
/// @file
/// `device_memory`: tensors on a device, in one stream. Needs CUDA's headers.
#pragma once

#include "engine/memory.hpp"

#include <echo/cuda/allocators.hpp>
#include <echo/cuda/stream.hpp>

#include <string>

namespace engine::cuda {

class device_memory final : public tensor_memory {
public:
    explicit device_memory(echo::cuda::stream_ref stream) : stream_(stream) {}

    bool on_host() const noexcept override { return false; }
    /// Errors: `echo::cuda::out_of_memory`, which names what it was for.
    std::byte* allocate(std::size_t bytes, std::string_view what) override {
        try {
            return static_cast<std::byte*>(allocator_.allocate(bytes, echo::cuda::cuda_alignment, stream_));
        } catch (const echo::cuda::out_of_memory& e) {
            auto known = e.shortage();
            known.arena = what;
            throw echo::cuda::out_of_memory(e.code(), e.operation(), std::move(known));
        }
    }
    void free(std::byte* at, std::size_t bytes) noexcept override {
        allocator_.deallocate(at, bytes, stream_);
    }
    void write(void* to, const void* from, std::size_t bytes) override {
        copy(to, from, bytes, cudaMemcpyHostToDevice);
    }
    void zero(void* to, std::size_t bytes) override {
        echo::cuda::check(cudaMemsetAsync(to, 0, bytes, stream_.get()), "cudaMemsetAsync");
    }
    void read(void* to, const void* from, std::size_t bytes) override {
        copy(to, from, bytes, cudaMemcpyDeviceToHost);
        wait();
    }
    void wait() override { echo::cuda::wait(stream_); }

private:
    void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        echo::cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "cudaMemcpyAsync");
    }

    echo::cuda::stream_ref stream_;
    echo::cuda::cuda_malloc_allocator allocator_;
};

} // namespace engine::cuda
