// SPDX-License-Identifier: BSL-1.0
/// @file
/// Budgets as they are written on a command line: `8589934592`, `512MiB`, `0.5`.
#pragma once

#include "command_line/refuse_comma.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace echo::format {

/// Bytes, or a part of the baseline's peak.
struct budget_text {
    double amount = 0;
    bool is_ratio = false;

    /// At most the largest number of bytes there is.
    std::uint64_t bytes(std::uint64_t baseline_peak) const {
        const double wanted = is_ratio ? amount * static_cast<double>(baseline_peak) : amount;
        return wanted < 0x1p63 ? static_cast<std::uint64_t>(wanted) : std::uint64_t{1} << 63;
    }
};

/// The number at the head of `text`, which is cut off. Errors: `usage_error` if there is none, it is not finite, or a
/// comma stands in the text.
inline double take_number(std::string_view option, std::string_view& text) {
    refuse_comma(option, text);
    double number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{} || !std::isfinite(number))
        throw usage_error(fmt::format("{} {}: not a finite number", option, text));
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

/// Bytes of the unit that `text` ends with; 1 where there is none. Errors: `usage_error`.
inline double unit_of(std::string_view option, std::string_view text, std::string_view unit) {
    constexpr std::pair<std::string_view, double> units[] = {
        {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
        {"kB", 1e3}, {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    if (unit.empty()) return 1;
    const std::string_view name = unit.substr(unit.starts_with(' '));
    for (const auto& [known, bytes] : units)
        if (name == known) return bytes;
    throw usage_error(
        fmt::format("{} {}: unit '{}' is none of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB", option, text, name));
}

/// A whole number is bytes, a number with a point (and the number 1) is a ratio, and a unit says itself what is meant.
/// Errors: `usage_error`.
inline budget_text parse_budget(std::string_view text) {
    std::string_view rest = text;
    const double number = take_number("--budget", rest);
    const double unit = unit_of("--budget", text, rest);
    if (!(number > 0)) throw usage_error(fmt::format("--budget {}: must be more than 0", text));
    if (rest.empty()) return {number, number <= 1 || text.find_first_of(".eE") != std::string_view::npos};
    return {number * unit, false};
}

/// A number of bytes, with or without a unit. Errors: `usage_error`.
inline std::uint64_t parse_bytes(std::string_view option, std::string_view text) {
    std::string_view rest = text;
    const double number = take_number(option, rest);
    const double bytes = number * unit_of(option, text, rest);
    if (!(bytes >= 1 && bytes < 0x1p63))
        throw usage_error(fmt::format("{} {}: must be at least one byte, and less than 2^63", option, text));
    return static_cast<std::uint64_t>(bytes);
}

/// A ratio, or a part in a hundred: `0.05` and `5%` are the same. Errors: `usage_error`.
inline double parse_overhead(std::string_view text) {
    std::string_view rest = text;
    const double number = take_number("--max-overhead", rest);
    const bool in_hundred = rest == "%";
    if ((!rest.empty() && !in_hundred) || !(number >= 0))
        throw usage_error(
            fmt::format("--max-overhead {}: must be a ratio of at least 0, such as 0.05 or 5%", text));
    return in_hundred ? number / 100 : number;
}

} // namespace echo::format
