// SPDX-License-Identifier: BSL-1.0
/// @file
/// Memory over a step in one line of a terminal: the highest load of each part of the steps, as a block of that height.
#pragma once

#include <echo/analysis/schedule/footprint.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

namespace echo::format {

/// Whether the terminal is said to show UTF-8 (`LC_ALL`, else `LC_CTYPE`, else `LANG`).
inline bool shows_utf8() {
    for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const char* const value = std::getenv(name);
        if (!value || !*value) continue;
        const std::string_view text = value;
        for (const std::string_view wanted : {"UTF-8", "utf-8", "UTF8", "utf8"})
            if (text.find(wanted) != std::string_view::npos) return true;
        return false;
    }
    return false;
}

/// `cells` characters, of which the highest stands for `top` bytes. Without UTF-8 digits stand for heights, 0 to 9.
inline std::string spark(std::span<const std::uint64_t> load, std::uint64_t top, bool utf8,
                         std::size_t cells = 60) {
    constexpr std::string_view blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    std::string made;
    cells = std::min(cells, load.size());
    for (std::size_t i = 0; i < cells; ++i) {
        const std::size_t first = i * load.size() / cells, end = (i + 1) * load.size() / cells;
        const std::uint64_t high = *std::max_element(load.begin() + static_cast<std::ptrdiff_t>(first),
                                                     load.begin() + static_cast<std::ptrdiff_t>(end));
        const double part = top > 0 ? static_cast<double>(high) / static_cast<double>(top) : 0;
        if (utf8)
            made +=
                blocks[high == 0 ? 0
                                 : std::clamp<std::size_t>(static_cast<std::size_t>(8 * part + 0.5), 1, 8)];
        else
            made += static_cast<char>('0' + std::min(9, static_cast<int>(9 * part + 0.5)));
    }
    return made;
}

} // namespace echo::format
