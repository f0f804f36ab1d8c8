// SPDX-License-Identifier: BSL-1.0
/// @file
/// Dropout whose gradient reads one bit per element, or none at all: the mask is a function of seed, offset
/// and element index (kernel/dropout_mask.hpp says which random bits are whose), so it can be drawn again in
/// the backward pass. `choose_dropout_mask` (kernel/dropout_choice.hpp) says which of the two is cheaper.
///
/// An element is dropped with probability p, exact to 2^-40; others are multiplied with 1 / (1 - p), in
/// float. Bit order of a mask, types, n, alignment, streams and errors are those of bitmask.cuh; besides, p
/// outside [0, 1) and NaN throw `argument_error`. A set bit is a kept element. A NaN or infinity that is
/// dropped becomes 0.
#pragma once

#include <echo/config.hpp>

#if !defined(__CUDACC__)
#error "echo/cuda/dropout.cuh needs a CUDA compiler: compile the file as .cu, with nvcc"
#elif !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error "echo/cuda/dropout.cuh needs constexpr functions on the device: compile with --expt-relaxed-constexpr"
#endif

#include <echo/cuda/kernel/dropout.hpp>
#include <echo/cuda/kernel/dropout_choice.hpp>
#include <echo/cuda/launch.cuh>
#include <echo/cuda/stream_ref.hpp>

#include <cstdint>

namespace echo::cuda {

/// y ← dropped x, mask ← which were kept. y may be x.
template <class T>
void dropout_forward(const T* x, T* y, std::uint32_t* mask, std::int64_t n, double p, dropout_seed seed,
                     stream_ref stream) {
    launch("dropout_forward", kernel::dropout_forward(x, y, mask, n, p, seed), stream);
}

/// The same y without a mask: 0 bits are kept, and the backward pass takes the seed.
template <class T>
void dropout_forward(const T* x, T* y, std::int64_t n, double p, dropout_seed seed, stream_ref stream) {
    launch("dropout_forward", kernel::dropout_forward(x, y, n, p, seed), stream);
}

/// dx ← dy / (1 - p) where the bit is set, else 0; p as in the forward pass. dx may be dy.
template <class T>
void dropout_backward(const T* dy, const std::uint32_t* mask, T* dx, std::int64_t n, double p,
                      stream_ref stream) {
    launch("dropout_backward", kernel::dropout_backward(dy, mask, dx, n, p), stream);
}

/// The same dx from the forward pass's p and seed: the mask is drawn again. dx may be dy.
template <class T>
void dropout_backward(const T* dy, T* dx, std::int64_t n, double p, dropout_seed seed, stream_ref stream) {
    launch("dropout_backward", kernel::dropout_backward(dy, dx, n, p, seed), stream);
}

} // namespace echo::cuda
