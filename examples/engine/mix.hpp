// SPDX-License-Identifier: BSL-1.0
/// @file
/// The numbers that change from step to step, and the seeds that follow from them. A recorded step reads them from
/// memory.
#pragma once

#include <cstdint>

namespace engine {

/// Well-mixed bits of two numbers (splitmix64).
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/// Lies where the kernels run, and behind it the seeds of the step's random nodes; written before each step.
struct step_numbers {
    std::uint64_t seed = 0;      ///< of the session
    std::uint64_t iteration = 1; ///< training steps so far, this one included
};

/// The seed of a node in a step: the same for the node and its recomputation.
constexpr std::uint64_t seed_of(const step_numbers& numbers, std::uint64_t node_seed) noexcept {
    return mix(mix(numbers.seed, node_seed), numbers.iteration);
}

} // namespace engine
