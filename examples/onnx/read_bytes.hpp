// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read_bytes`: a whole file in memory.
#pragma once

#include "format/byte_source.hpp"

#include <cstddef>
#include <string>

namespace echo::format {

/// Errors: as the sources of byte_source.hpp.
inline std::string read_bytes(std::streambuf& source) {
    std::string bytes;
    constexpr std::size_t chunk = std::size_t{1} << 16;
    for (std::size_t got = chunk; got == chunk;) {
        const std::size_t before = bytes.size();
        bytes.resize(before + chunk);
        got = static_cast<std::size_t>(source.sgetn(bytes.data() + before, chunk));
        bytes.resize(before + got);
    }
    return bytes;
}

} // namespace echo::format
