// SPDX-License-Identifier: BSL-1.0
/// @file
/// `link_model`: the way between the device's memory and the host's, on which copies travel beside the computation.
#pragma once

#include <echo/config.hpp>

#include <cstdint>
#include <limits>

namespace echo {

/// How fast values leave for the host's memory and come back. The default is no link: nothing is offloaded.
struct link_model {
    /// Bytes that leave in a microsecond: 25 GB/s are 25,000.
    double out_bytes_per_us = 0;
    /// Bytes that come back in a microsecond.
    double in_bytes_per_us = 0;
    /// Whether a copy each way travels at once, as with the two copy engines of a GPU; without it there is one engine.
    bool both_ways = true;
    /// Bytes of the host's memory that may be taken at any time.
    std::uint64_t host_bytes = std::numeric_limits<std::uint64_t>::max();

    friend bool operator==(const link_model&, const link_model&) = default;
    /// Whether there is a link.
    explicit operator bool() const noexcept { return out_bytes_per_us > 0 || in_bytes_per_us > 0; }
};

} // namespace echo
