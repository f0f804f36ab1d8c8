// SPDX-License-Identifier: BSL-1.0
/// @file
/// `event`: a mark in a stream, to wait for or to measure between.
#pragma once

#include <echo/cuda/check.hpp>
#include <echo/cuda/stream_ref.hpp>

#include <utility>

namespace echo::cuda {

/// Whether an event carries a time.
enum class timing : bool { off, on };

/// Owns a `cudaEvent_t`. Moved-from events can only be assigned to and destroyed.
class event {
public:
    /// A new event on the current device. Errors: `error`.
    explicit event(timing time = timing::on) {
        check(cudaEventCreateWithFlags(&handle_,
                                       time == timing::on ? cudaEventDefault : cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
    }
    event(event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    event& operator=(event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~event() {
        if (handle_) static_cast<void>(cudaEventDestroy(handle_));
    }

    /// CUDA's own handle, which stays this object's.
    cudaEvent_t get() const noexcept { return handle_; }

    /// Marks this point of the stream's work.
    void record(stream_ref stream) { check(cudaEventRecord(handle_, stream.get()), "cudaEventRecord"); }

    /// Whether all the work in front of the mark is done. Does not wait.
    bool done() const {
        const cudaError_t code = cudaEventQuery(handle_);
        if (code == cudaErrorNotReady) {
            static_cast<void>(cudaGetLastError());
            return false;
        }
        check(code, "cudaEventQuery");
        return true;
    }

    /// Waits until the mark is reached: this thread does.
    void wait() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }

    /// Lets what comes behind it in `stream` wait for the mark; this thread does not.
    void hold(stream_ref stream) const {
        check(cudaStreamWaitEvent(stream.get(), handle_, 0), "cudaStreamWaitEvent");
    }

private:
    cudaEvent_t handle_ = nullptr;
};

/// Milliseconds between two marks, both of them reached and both with `timing::on`; about half a microsecond
/// exact.
inline double milliseconds_between(const event& begin, const event& end) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
}

} // namespace echo::cuda
