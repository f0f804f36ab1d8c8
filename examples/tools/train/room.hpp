// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whether a device has room for training, and what would fit if it has not.
#pragma once

#include "engine/session.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace train {

/// Bytes of arena and residents.
inline std::uint64_t needed_bytes(const engine::planned& p) {
    return p.memory.bytes() + p.plan.report().resident_bytes;
}

/// What is left of a device for memory that is not the plan's: graphs, code, what an allocator rounds up to.
inline std::uint64_t besides_on_device(const engine::planned& p) {
    return (std::uint64_t{64} << 20) + p.plan.report().resident_bytes / 64;
}

/// The largest peak for which `free` bytes of a device are enough; 0: none.
inline std::uint64_t budget_for(const engine::planned& p, std::uint64_t free) {
    const std::uint64_t others = p.plan.report().resident_bytes + besides_on_device(p);
    if (free <= others) return 0;
    // Places between tensors may stay empty, in the smaller arena as in this one.
    const double filled = static_cast<double>(p.plan.report().peak_bytes) /
                          static_cast<double>(std::max<std::uint64_t>(p.memory.bytes(), 1));
    return static_cast<std::uint64_t>(std::min(1.0, 0.98 * filled) * static_cast<double>(free - others));
}

/// Errors: a device with `free` bytes has not enough; one line says what is needed, and the budget that would fit.
inline void expect_room(const engine::planned& p, std::uint64_t free) {
    const std::uint64_t besides = besides_on_device(p), needed = needed_bytes(p) + besides;
    if (needed <= free) return;
    std::string words = std::to_string(needed);
    words.append(" bytes are needed on the device (").append(std::to_string(p.memory.bytes()));
    words.append(" for the arena, ").append(std::to_string(p.plan.report().resident_bytes));
    words.append(" for parameters, optimizer state and data, ").append(std::to_string(besides));
    words.append(" besides), ").append(std::to_string(free)).append(" are free");
    std::string advice = "no budget fits: give a smaller --batch or --preset, or free memory of the device";
    if (const std::uint64_t budget = budget_for(p, free))
        advice.assign("--strategy budget --budget ").append(std::to_string(budget)).append(" would fit");
    throw echo::error({}, "memory", words, advice);
}

} // namespace train
