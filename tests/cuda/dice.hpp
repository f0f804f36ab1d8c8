// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random numbers that are the same in each run.
#pragma once

#include <cstdint>

/// Xorshift, 64 bits.
class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed * 2 + 1) {
        for (int i = 0; i < 8; ++i) (*this)(); // the first ones of small seeds are small
    }
    std::uint64_t operator()() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }

private:
    std::uint64_t state_;
};
