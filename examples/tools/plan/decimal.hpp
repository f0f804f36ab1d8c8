// SPDX-License-Identifier: BSL-1.0
/// @file
/// Numbers as text, with a point whatever the locale, by the standard library alone.
#pragma once

#include <array>
#include <charconv>
#include <string>
#include <system_error>

namespace echo::format {

namespace detail {

inline std::string digits_of(double value, std::chars_format how, int precision) {
    std::array<char, 512> text{}; // the largest number has 309 digits before its point
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, how, precision);
    return end.ec == std::errc{} ? std::string(text.data(), end.ptr) : std::string();
}

} // namespace detail

/// `12.30` with two decimals, as by `%.2f`.
inline std::string decimal(double value, int decimals) {
    return detail::digits_of(value, std::chars_format::fixed, decimals);
}

/// `5`, `0.25`: at most six significant digits and no zeros behind them, as by `%g`.
inline std::string shortest(double value) { return detail::digits_of(value, std::chars_format::general, 6); }

/// `1.230`, `1234.`: as many significant digits as asked for, zeros included, as by `%#.4g`.
inline std::string significant(double value, int digits) {
    const std::string text = detail::digits_of(value, std::chars_format::scientific, digits - 1);
    const auto e = text.find('e');
    if (e == std::string::npos) return text; // not finite
    int exponent = 0;
    std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
    if (exponent < -4 || exponent >= digits) return text;
    const std::string fixed = decimal(value, digits - 1 - exponent);
    return fixed.find('.') == std::string::npos ? fixed + '.' : fixed;
}

} // namespace echo::format
