// SPDX-License-Identifier: BSL-1.0
/// @file
/// The cells of minimalloc's table: whole numbers, sizes with and without a unit, gaps.
#pragma once

#include "arena/shaped_placer.hpp"
#include "command_line/amount.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

/// What a cell holds, or what is wrong with it.
struct whole_cell {
    std::uint64_t value = 0;
    std::string_view problem{}; ///< empty: none
};

inline whole_cell read_whole(std::string_view text) {
    const bool negative = text.starts_with('-');
    const std::string_view digits = text.substr(negative);
    if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos)
        return {.problem = "is no whole number"};
    if (negative) return {.problem = "is negative"};
    std::uint64_t value = 0;
    for (const char digit : digits) {
        constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
        const auto unit = static_cast<std::uint64_t>(digit - '0');
        if (value > (most - unit) / 10) return {.problem = "is too large"};
        value = value * 10 + unit;
    }
    return {.value = value};
}

/// A whole number, or an amount with a unit, such as 1.5KiB.
inline whole_cell read_size(std::string_view text) {
    const whole_cell plain = read_whole(text);
    if (plain.problem != "is no whole number") return plain;
    try {
        const detail::amount a = detail::take_amount("size", text);
        const std::uint64_t unit = detail::bytes_of_unit(a.unit);
        if (a.unit.empty() || unit == 0) return plain;
        if (a.number == 0) return {};
        if (const auto bytes = detail::bytes_of(a, unit)) return {.value = *bytes};
        return {.problem = a.number < 1 ? "is less than a byte" : "is too large"};
    } catch (const usage_error&) {
        return plain;
    }
}

/// A time in which a buffer needs nothing, or only its bytes from `low` until before `high`.
struct gap {
    std::uint64_t begin = 0, end = 0, low = 0, high = 0;
    bool has_window = false;
};

/// `4-7` or `4-7@0:16`. Nothing where it is no gap.
inline std::optional<gap> read_gap(std::string_view text) {
    const std::string_view times = text.substr(0, text.find('@'));
    const auto part = [](std::string_view pair, char between, std::uint64_t& first, std::uint64_t& second) {
        const std::size_t at = pair.find(between);
        if (at == pair.npos) return false;
        const whole_cell a = read_whole(pair.substr(0, at)), b = read_whole(pair.substr(at + 1));
        first = a.value;
        second = b.value;
        return a.problem.empty() && b.problem.empty() && first <= second;
    };
    gap found{.has_window = times.size() != text.size()};
    if (!part(times, '-', found.begin, found.end)) return std::nullopt;
    if (found.has_window && !part(text.substr(times.size() + 1), ':', found.low, found.high))
        return std::nullopt;
    return found;
}

} // namespace echo::format
