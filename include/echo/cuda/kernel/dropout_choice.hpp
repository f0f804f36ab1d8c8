// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whether to keep a dropout's mask in one bit per element, or to draw it again: by time and by what memory
/// is worth.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/bits.hpp>

#include <algorithm>
#include <cstdint>

namespace echo::cuda {

/// What a device does per second. Measure both on yours: with a copy kernel, and with `dropout_forward`
/// without a mask on a tensor that stays in the cache.
struct dropout_rates {
    double bytes;    ///< to and from memory
    double elements; ///< of random bits
};

/// How the backward pass comes by the mask.
enum class dropout_mask : std::uint8_t {
    replayed, ///< 0 bits: backward draws the mask again
    one_bit,  ///< `bytes_required(n)` bytes live from forward to backward
};

/// Seconds that forward and backward take together. Memory and random numbers overlap, so a kernel takes the
/// longer of the two: the forward pass always draws, the backward pass only where the mask is replayed.
constexpr double dropout_seconds(dropout_mask kind, std::int64_t n, int element_bytes,
                                 const dropout_rates& device) {
    const double data = 2.0 * static_cast<double>(n) * element_bytes;
    const double mask = kind == dropout_mask::one_bit ? static_cast<double>(bytes_required(n)) : 0;
    const double memory = (data + mask) / device.bytes, drawing = static_cast<double>(n) / device.elements;
    const double forward = std::max(memory, drawing);
    return forward + (kind == dropout_mask::one_bit ? memory : forward);
}

/// The cheaper kind for n elements of `element_bytes`, where one byte that is free between forward and
/// backward is worth `seconds_per_byte` (a planner's λ; 0: only time counts). Where drawing hides behind
/// memory, replay is faster as well as smaller, and is what comes out. Throws `argument_error` for n < 0,
/// rates that are not above 0 and a price below 0.
constexpr dropout_mask choose_dropout_mask(std::int64_t n, int element_bytes, const dropout_rates& device,
                                           double seconds_per_byte = 0) {
    if (element_bytes <= 0)
        throw argument_error("choose_dropout_mask, element_bytes", "is not above 0",
                             "give sizeof an element");
    if (!(device.bytes > 0) || !(device.elements > 0))
        throw argument_error("choose_dropout_mask, device", "has a rate that is not above 0", "measure both");
    if (!(seconds_per_byte >= 0))
        throw argument_error("choose_dropout_mask, seconds_per_byte", "is below 0",
                             "give 0 if memory is free");
    const double worth = seconds_per_byte * static_cast<double>(bytes_required(n));
    return dropout_seconds(dropout_mask::replayed, n, element_bytes, device) <=
                   dropout_seconds(dropout_mask::one_bit, n, element_bytes, device) + worth
               ? dropout_mask::replayed
               : dropout_mask::one_bit;
}

} // namespace echo::cuda
