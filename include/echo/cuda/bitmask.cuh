// SPDX-License-Identifier: BSL-1.0
/// @file
/// One bit per element: encode and decode, and a ReLU whose gradient reads the bit instead of the feature
/// map.
///
/// The mask: bit i % 32 of 32-bit word i / 32 is element i's; it is set where x > 0. NaN, −0 and 0 give 0;
/// subnormals, whatever the flags, give 1. Bits behind element n - 1 are 0. `bytes_required(n)` says how many
/// bytes it takes.
///
/// For all functions: T is float, fp16 or bf16, as CUDA's own types or Echo's (kernel/element.hpp). n is 0 to
/// 2^40. Data may begin at any element: whatever lies equally far from a 16-byte boundary moves in 16-byte
/// accesses. A mask begins at a multiple of 4 bytes. The work is put on `stream`, on the current device;
/// nothing is allocated and nothing waits, so it can be captured in a CUDA graph. Throws, before anything is
/// launched, `argument_error` for a negative or too large n, a null or misaligned pointer, a null stream and
/// arrays that overlap other than exactly in place where that is allowed; `error` if the launch is refused.
/// The result does not depend on the grid or on alignment.
#pragma once

#include <echo/config.hpp>

#if !defined(__CUDACC__)
#error "echo/cuda/bitmask.cuh needs a CUDA compiler: compile the file as .cu, with nvcc"
#elif !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error "echo/cuda/bitmask.cuh needs constexpr functions on the device: compile with --expt-relaxed-constexpr"
#endif

#include <echo/cuda/kernel/bitmask.hpp>
#include <echo/cuda/launch.cuh>
#include <echo/cuda/stream_ref.hpp>

#include <cstdint>

namespace echo::cuda {

/// mask ← x > 0. Reads n · sizeof(T) bytes, writes `bytes_required(n)`.
template <class T>
void encode(const T* x, std::uint32_t* mask, std::int64_t n, stream_ref stream) {
    launch("encode", kernel::encode(x, mask, n), stream);
}

/// y ← 1 where the bit is set, else 0.
template <class T>
void decode(const std::uint32_t* mask, T* y, std::int64_t n, stream_ref stream) {
    launch("decode", kernel::decode(mask, y, n), stream);
}

/// y ← max(x, 0), mask ← x > 0. y may be x. A NaN and −0 pass into y as they are, with their bits 0, as
/// `echo::relu_op` has it.
template <class T>
void relu_forward(const T* x, T* y, std::uint32_t* mask, std::int64_t n, stream_ref stream) {
    launch("relu_forward", kernel::relu_forward(x, y, mask, n), stream);
}

/// dx ← dy where the bit is set, else 0: decoded within the kernel, the mask is read once and no map is
/// written. dx may be dy. A NaN in dy comes through only where the bit is set.
template <class T>
void relu_backward(const T* dy, const std::uint32_t* mask, T* dx, std::int64_t n, stream_ref stream) {
    launch("relu_backward", kernel::relu_backward(dy, mask, dx, n), stream);
}

} // namespace echo::cuda
