// SPDX-License-Identifier: BSL-1.0
/// @file
/// `divisor`: division by a number that is known before a launch, as one multiplication and a shift, where a device
/// takes twenty instructions for a division of 32 bits and seventy for one of 64.
#pragma once

#include <echo/config.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace echo::cuda {

/// Divides numbers below 2^31. Plain data, of three words. The factor is 2^(31 + k) / by rounded up, with 2^k the first
/// power of 2 that is not below `by`: what rounding adds to a quotient is less than 2^-k, too little to reach the next
/// integer (Granlund and Montgomery, 1994).
class divisor {
public:
    constexpr divisor() = default;
    /// `by` is 1 to 2^31; by 0 nothing is divided, as there is nothing to do.
    explicit constexpr divisor(std::uint64_t by) noexcept : minus_by_(0 - static_cast<std::uint32_t>(by)) {
        if (by == 0) return;
        const auto digits = static_cast<std::uint32_t>(std::bit_width(by - 1));
        shift_ = 31 + digits;
        factor_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + by - 1) / by);
    }

    /// What is divided by.
    ECHO_HOST_DEVICE constexpr std::uint32_t value() const noexcept { return 0 - minus_by_; }
    /// n / by, rounded down; n is below 2^31.
    ECHO_HOST_DEVICE constexpr std::uint32_t quotient(std::uint32_t n) const noexcept {
#if defined(__CUDA_ARCH__)
        if (!std::is_constant_evaluated()) { // nvcc 13 adds a zero to the product's upper half otherwise
            std::uint64_t product;
            asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(n), "r"(factor_));
            return static_cast<std::uint32_t>(product >> shift_);
        }
#endif
        return static_cast<std::uint32_t>(std::uint64_t{n} * factor_ >> shift_);
    }
    /// n % by, from the quotient.
    ECHO_HOST_DEVICE constexpr std::uint32_t rest(std::uint32_t n, std::uint32_t quotient) const noexcept {
        return quotient * minus_by_ + n;
    }

    friend constexpr bool operator==(const divisor&, const divisor&) = default;
    /// As a kernel has it: 0 − by, factor, shift.
    constexpr std::array<std::uint32_t, 3> words() const noexcept { return {minus_by_, factor_, shift_}; }

private:
    std::uint32_t minus_by_ = ~0u; ///< 0 − by: a product and a sum are one instruction
    std::uint32_t factor_ = 1u << 31, shift_ = 31;
};

/// n / by and n % by.
struct division {
    std::uint32_t quotient, rest; ///< n / by, and n % by.
    /// Divides; n is below 2^31.
    template <class N>
    ECHO_HOST_DEVICE constexpr division(N n, const divisor& by) noexcept
        : quotient(by.quotient(static_cast<std::uint32_t>(n))),
          rest(by.rest(static_cast<std::uint32_t>(n), quotient)) {}
};

} // namespace echo::cuda
