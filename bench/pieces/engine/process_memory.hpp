// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the system says of this process's memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

/// Bytes that this process has (`VmRSS`) or had at most (`VmHWM`).
inline std::uint64_t process_memory(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == key + ":") {
            std::uint64_t kib = 0;
            status >> kib;
            return kib * 1024;
        }
    return 0;
}

/// From now on `VmHWM` counts anew. Returns whether the system can do that.
inline bool forget_most_memory() {
    return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush);
}
