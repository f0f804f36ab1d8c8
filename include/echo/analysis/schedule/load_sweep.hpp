// SPDX-License-Identifier: BSL-1.0
/// @file
/// The sweep over load: from the first and the last moment of each life to what is live at every moment.
#pragma once

#include <echo/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace echo::detail {

/// So many moments, and one behind the last, at which nothing lives yet. `Loads`: a vector of bytes.
template <class Loads>
void begin_loads(Loads& loads, std::size_t moments) {
    loads.assign(moments + 1, 0);
}

/// Something of that many bytes lives from moment `first` to moment `last`, both included. O(1).
template <class Loads>
void add_life(Loads& loads, std::size_t first, std::size_t last, std::uint64_t bytes) {
    loads[first] += bytes;
    loads[last + 1] -= bytes; // wraps; the running sum does not
}

/// After all lives were added: makes `loads` what is live at each moment. The largest of it. O(moments).
template <class Loads>
std::uint64_t sum_lives(Loads& loads) {
    std::uint64_t now = 0, most = 0;
    for (std::uint64_t& load : loads) most = std::max(most, load = now += load);
    return most;
}

} // namespace echo::detail
