// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random numbers for generated tasks: the same on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace models {

/// SplitMix64 (Steele et al., 2014).
class random_numbers {
public:
    /// Seeds that differ give streams that do not overlap in practice; so do streams of one seed.
    explicit random_numbers(std::uint64_t seed, std::uint64_t stream = 0) : state_(seed) {
        state_ = next() ^ (stream * 0xd1342543de82ef95u);
    }
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// In [low, high).
    float uniform(float low = 0, float high = 1) {
        return low + (high - low) * (static_cast<float>(next() >> 40) * 0x1p-24f);
    }
    /// From 0 to `count` − 1. Pre: `count` > 0.
    std::int64_t below(std::int64_t count) {
        return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
    }

private:
    std::uint64_t state_;
};

} // namespace models
