// SPDX-License-Identifier: BSL-1.0
/// @file
/// `stream_ref`: the stream that a call works on, as its last argument. Needs no CUDA header. Owning one:
/// stream.hpp.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>

#include <cstddef>

struct CUstream_st; // what cudaStream_t points to

namespace echo::cuda {

/// Says that the default stream is meant.
struct default_stream_t {
    explicit default_stream_t() = default;
};
inline constexpr default_stream_t default_stream{}; ///< Asks for the default stream.

/// A stream of somebody else's: trivially copyable, owns nothing. A `cudaStream_t` converts, but a null one
/// is refused: the default stream waits for all others and cannot be captured, so nobody gets it by having
/// forgotten theirs. `stream_ref(default_stream)` asks for it; `or_default` takes what a host hands on that
/// may be null.
///
/// Example: `relu_forward(x, y, bits, n, stream)` with a `cudaStream_t`, a `cuda::stream` or a `stream_ref`.
class stream_ref {
public:
    stream_ref() = delete;
    stream_ref(std::nullptr_t) = delete;
    stream_ref(int) = delete;
    /// Somebody else's stream. Errors: `argument_error` if it is null.
    stream_ref(CUstream_st* handle) : handle_(handle) {
        if (!handle)
            throw argument_error("stream", "is null", "give a stream, or say stream_ref(default_stream)");
    }
    /// The default stream, asked for by name.
    constexpr stream_ref(default_stream_t) noexcept {}

    /// The stream, or the default one if the handle is null.
    static stream_ref or_default(CUstream_st* handle) {
        return handle ? stream_ref(handle) : stream_ref(default_stream);
    }

    /// CUDA's own handle; null: the default stream.
    constexpr CUstream_st* get() const noexcept { return handle_; }
    /// Whether it is the default stream.
    constexpr bool is_default() const noexcept { return !handle_; }

    friend constexpr bool operator==(stream_ref, stream_ref) = default;

private:
    CUstream_st* handle_ = nullptr;
};

} // namespace echo::cuda
