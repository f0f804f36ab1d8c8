// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sizes and parts as they are written on a command line: `8589934592`, `512MiB`, `1e9`, `0.5`, `5%`. One rule for all
/// commands: a number with a unit, or of 2 and more, is bytes; one with `%`, or with a point and at most 1, is a part.
/// What could mean either, such as a bare 1, is refused.
#pragma once

#include "command_line/refuse_comma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace echo::format {

/// Bytes, or a part of the baseline's peak.
struct peak_budget {
    std::uint64_t size = 0; ///< in bytes; 0: it is a part
    double part = 0;        ///< above 0, at most 1

    std::uint64_t bytes(std::uint64_t baseline_peak) const {
        return size ? size : static_cast<std::uint64_t>(part * static_cast<double>(baseline_peak));
    }
};

/// The number at the head of `text`, which is cut off: digits with or without a point and an exponent, no sign. Errors:
/// `usage_error` if there is none, it is not finite, or a comma stands in the text.
inline double take_number(std::string_view option, std::string_view& text) {
    refuse_comma(option, text);
    double number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{} || !std::isfinite(number))
        throw usage_error(fmt::format("{} {}: not a finite number", option, text));
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

namespace detail {

/// A number and what stands behind it.
struct amount {
    double number = 0;
    std::string digits{}; ///< the number as it is written
    std::string unit{};   ///< in small letters
    bool has_point() const { return digits.find('.') != std::string::npos; }
};

inline std::string_view without_blanks_around(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Blanks around the number and its unit do not count. Errors: as `take_number`; it is negative.
inline amount take_amount(std::string_view option, std::string_view text) {
    refuse_comma(option, text);
    std::string_view rest = without_blanks_around(text);
    amount found{.digits = std::string(rest)};
    found.number = take_number(option, rest);
    if (found.digits.starts_with('-')) throw usage_error(fmt::format("{} {}: is negative", option, text));
    found.digits.resize(found.digits.size() - rest.size());
    for (const char c : without_blanks_around(rest))
        found.unit += 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return found;
}

/// Bytes of a unit in small letters, with or without its `b`; 0 where there is none of that name.
inline std::uint64_t bytes_of_unit(std::string_view unit) {
    constexpr std::pair<std::string_view, std::uint64_t> units[] = {{"", 1},
                                                                    {"k", 1'000},
                                                                    {"m", 1'000'000},
                                                                    {"g", 1'000'000'000},
                                                                    {"t", 1'000'000'000'000},
                                                                    {"ki", std::uint64_t{1} << 10},
                                                                    {"mi", std::uint64_t{1} << 20},
                                                                    {"gi", std::uint64_t{1} << 30},
                                                                    {"ti", std::uint64_t{1} << 40}};
    if (unit.ends_with('b')) unit.remove_suffix(1);
    for (const auto& [known, bytes] : units)
        if (unit == known) return bytes;
    return 0;
}

/// Whole bytes, rounded down; nothing where they are less than 1, or 2^63 and more. A whole number is exact.
inline std::optional<std::uint64_t> bytes_of(const amount& a, std::uint64_t unit) {
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    if (a.digits.find_first_not_of("0123456789") == std::string::npos) {
        std::uint64_t whole = 0;
        const char* const end = a.digits.data() + a.digits.size();
        if (std::from_chars(a.digits.data(), end, whole).ec != std::errc{} || whole > most / unit) return {};
        return whole ? std::optional(whole * unit) : std::nullopt;
    }
    const double bytes = a.number * static_cast<double>(unit);
    return bytes >= 1 && bytes < 0x1p63 ? std::optional(static_cast<std::uint64_t>(bytes)) : std::nullopt;
}

} // namespace detail

/// What the peak should not exceed. Errors: `usage_error`, which shows both spellings.
inline peak_budget parse_budget(std::string_view text) {
    const detail::amount a = detail::take_amount("--budget", text);
    if (a.unit == "%" && a.number > 0 && a.number <= 100) return {.part = a.number / 100};
    if (a.unit.empty() && a.has_point() && a.number > 0 && a.number <= 1) return {.part = a.number};
    const std::uint64_t unit = detail::bytes_of_unit(a.unit);
    if (unit != 0 && (!a.unit.empty() || a.number >= 2))
        if (const auto bytes = detail::bytes_of(a, unit)) return {.size = *bytes};
    const std::string_view what = a.unit.empty() && a.number > 0 && a.number < 2
                                      ? "could mean bytes or a part"
                                  : unit != 0 && a.number >= 2 ? "is 2^63 bytes and more"
                                                               : "is neither bytes nor a part";
    throw usage_error(fmt::format("--budget {}: {}; give bytes with a unit, such as 8GiB, or a part of the "
                                  "peak without Echo, such as 0.5 or 50%",
                                  text, what));
}

/// A number of bytes, with or without a unit. `least`: 0 or 1. Errors: `usage_error`.
inline std::uint64_t parse_bytes(std::string_view option, std::string_view text, std::uint64_t least = 1) {
    const detail::amount a = detail::take_amount(option, text);
    const std::uint64_t unit = detail::bytes_of_unit(a.unit);
    if (unit == 0)
        throw usage_error(fmt::format("{} {}: unit '{}' is none of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
                                      option, text, a.unit));
    if (unit == 1 && a.number != std::floor(a.number))
        throw usage_error(fmt::format("{} {}: is no whole number of bytes", option, text));
    if (least == 0 && a.number == 0) return 0;
    if (const auto bytes = detail::bytes_of(a, unit)) return *bytes;
    throw usage_error(
        fmt::format("{} {}: must be {} or more bytes, and less than 2^63", option, text, least));
}

/// Bytes in a second as bytes in a microsecond: `25GB/s`, `16 GiB/s`. Errors: `usage_error`.
inline double parse_rate(std::string_view option, std::string_view text) {
    detail::amount a = detail::take_amount(option, text);
    const bool is_rate = a.unit.ends_with("/s");
    if (is_rate) a.unit.resize(a.unit.size() - 2);
    const std::uint64_t unit = is_rate && !a.unit.empty() ? detail::bytes_of_unit(a.unit) : 0;
    const double rate = a.number * static_cast<double>(unit) / 1e6;
    if (!(rate >= 0.001) || !(rate < 1e12))
        throw usage_error(
            fmt::format("{} {}: is no rate of a kilobyte a second and more, such as 25GB/s", option, text));
    return rate;
}

/// A part of a whole, which may be more than all of it: `5%` and `0.05` are the same. A bare 5 could mean either 5 % or
/// 500 %. Errors: `usage_error`, which shows both spellings.
inline double parse_part(std::string_view option, std::string_view text) {
    constexpr double most = 10'000; // per cent: beyond that there is no limit
    const detail::amount a = detail::take_amount(option, text);
    if (a.unit == "%" && a.number >= 0 && a.number <= most) return a.number / 100;
    if (a.unit.empty() && a.number >= 0 && a.number < 1) return a.number;
    const std::string_view what = a.unit.empty() && a.number >= 1    ? "could mean per cent or a part"
                                  : a.unit == "%" && a.number > most ? "is more than 10000 %"
                                                                     : "is neither per cent nor a part";
    throw usage_error(fmt::format("{} {}: {}; give per cent, such as 5%, or a part below 1, such as 0.05",
                                  option, text, what));
}

} // namespace echo::format
