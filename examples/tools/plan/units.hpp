// SPDX-License-Identifier: BSL-1.0
/// @file
/// Figures of a report for people.
#pragma once

#include "plan/decimal.hpp"

#include <echo/analysis/plan/plan.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace echo::format {

/// `512 B`, `1.50 KiB`, `5.14 GiB`.
inline std::string show_bytes(std::uint64_t bytes) {
    constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return std::to_string(bytes) + " B";
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
    return decimal(value, value < 10 ? 2 : value < 100 ? 1 : 0) + " " + std::string(units[unit]);
}

/// `2.04x`: how many times smaller; `-` where nothing is left to compare with.
inline std::string show_ratio(std::uint64_t before, std::uint64_t after) {
    if (after == 0) return "-";
    return decimal(static_cast<double>(before) / static_cast<double>(after), 2) + "x";
}

/// `0.493` of the whole; `-` where that is nothing.
inline std::string show_part(std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return "-";
    return decimal(static_cast<double>(part) / static_cast<double>(whole), 3);
}

/// How far the peak is above its bound, in percent of the bound; `-` where that is 0.
inline std::string show_gap(const plan_report& r) {
    if (r.lower_bound_bytes == 0) return "-";
    const auto above = static_cast<double>(r.peak_bytes - r.lower_bound_bytes);
    return decimal(100 * above / static_cast<double>(r.lower_bound_bytes), 1);
}

} // namespace echo::format
