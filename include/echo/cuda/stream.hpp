// SPDX-License-Identifier: BSL-1.0
/// @file
/// `stream`: an owned stream, and the waiting that the helpers never do by themselves.
#pragma once

#include <echo/cuda/check.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <utility>

namespace echo::cuda {

/// Waits until all the work of the stream is done. Throws what its kernels ran into.
inline void wait(stream_ref stream) { check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize"); }

/// Waits for what calls without a stream (`cudaMemset`, `cudaMemcpy`) put on the device: an owned `stream` does not
/// wait for it by itself, and those calls may return before it is done.
inline void wait_for_default_stream() {
    check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
}

/// Whether a graph is being captured from the stream.
inline bool capturing(stream_ref stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream.get(), &status), "cudaStreamIsCapturing");
    return status == cudaStreamCaptureStatusActive;
}

/// Owns a stream that does not wait for the default one. Its end lets the work in it run to completion, and
/// does not wait for it. Moved-from streams can only be assigned to and destroyed.
class stream {
public:
    stream() {
        check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    stream(stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    stream& operator=(stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~stream() {
        if (handle_) static_cast<void>(cudaStreamDestroy(handle_));
    }

    /// The stream for what takes anybody's.
    operator stream_ref() const { return stream_ref(handle_); }
    /// CUDA's own handle, which stays this object's.
    cudaStream_t get() const noexcept { return handle_; }
    /// Waits until all that was put into the stream is done. Errors: `error`.
    void wait() const { cuda::wait(*this); }

private:
    cudaStream_t handle_ = nullptr;
};

} // namespace echo::cuda
