// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the system says of memory: how much a process may still take, and how much this one has had.
#pragma once

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace train {

/// The number behind `key` in a file of lines `key: N kB`, in bytes.
inline std::optional<std::uint64_t> kilobytes_in(const char* file, const std::string& key) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key + ":")) return 1024 * std::stoull(line.substr(key.size() + 1));
    return std::nullopt;
}

/// The number that a file consists of; none where it says `max` or is not there.
inline std::optional<std::uint64_t> number_in(const std::string& file) {
    std::ifstream in(file);
    std::uint64_t number = 0;
    if (in >> number) return number;
    return std::nullopt;
}

/// The most memory this process has had in use at once. 0 where the system does not say.
inline std::uint64_t most_resident_bytes() { return kilobytes_in("/proc/self/status", "VmHWM").value_or(0); }

/// What is free goes back to the system, and from now on `most_resident_bytes` counts anew, where the system can do
/// that.
inline void forget_most_resident_bytes() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
}

/// Bytes that can still be taken: of the machine, of the container, of the process's own limit.
inline std::uint64_t available_bytes() {
    std::uint64_t free = std::numeric_limits<std::uint64_t>::max();
    const auto at_most = [&](std::optional<std::uint64_t> limit, std::optional<std::uint64_t> used) {
        if (limit && used) free = std::min(free, *limit - std::min(*limit, *used));
    };
    at_most(kilobytes_in("/proc/meminfo", "MemAvailable"), 0);
    const std::string groups = "/sys/fs/cgroup/";
    at_most(number_in(groups + "memory.max"), number_in(groups + "memory.current"));
    at_most(number_in(groups + "memory/memory.limit_in_bytes"),
            number_in(groups + "memory/memory.usage_in_bytes"));
    rlimit own{};
    if (getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
        at_most(own.rlim_cur, kilobytes_in("/proc/self/status", "VmSize"));
    return free;
}

} // namespace train
