// SPDX-License-Identifier: BSL-1.0
/// @file
/// Doubles in scratch memory, which may begin at any multiple of 4.
#pragma once

#include "engine/call.hpp"

#include <cstdint>

namespace engine::cpu {

/// Bytes of scratch memory in which `count` doubles fit, wherever it begins.
constexpr std::uint64_t bytes_of_doubles(std::size_t count) {
    return count * sizeof(double) + (alignof(double) - 4);
}

/// The first of them.
inline double* doubles(const call& c) {
    const auto past = reinterpret_cast<std::uintptr_t>(c.scratch.data()) % alignof(double);
    return reinterpret_cast<double*>(c.scratch.data() + (past ? alignof(double) - past : 0));
}

} // namespace engine::cpu
