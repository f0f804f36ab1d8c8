// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the environment asks for: ECHO_BUDGET, ECHO_MAX_OVERHEAD, ECHO_REPORT.
#pragma once

#include <echo/error.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace echo_ggml {

struct settings {
    std::optional<std::uint64_t> budget{}; ///< bytes of the compute buffer
    std::optional<double> ratio{};         ///< the same, as a part of what the graph takes unchanged
    double max_overhead = 0.05;            ///< without a budget: recomputation, as a part of a step's time
    std::string report{};                  ///< file; JSON if it ends in .json, a page if in .html, else text
};

namespace detail {

struct number {
    double value;
    std::string_view unit;
};
inline number number_of(const char* name, const char* text) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || !std::isfinite(value) || value < 0)
        throw echo::error({}, name, "'" + std::string(text) + "' is no number of 0 or more",
                          "give 512MiB, 0.6 or 60% as a budget, 0.05 as an overhead");
    return {value, end};
}

inline double bytes_of_unit(std::string_view unit) {
    constexpr struct {
        std::string_view name;
        double bytes;
    } units[] = {{"", 1},     {"B", 1},      {"KB", 1e3},      {"MB", 1e6},
                 {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824.0}};
    for (const auto& u : units)
        if (u.name == unit) return u.bytes;
    return 0;
}

} // namespace detail

/// Errors: a value that is none. `get` is `std::getenv` or what stands in for it.
template <class Get>
settings read_settings(const Get& get) {
    settings s;
    const auto given = [&](const char* name) -> const char* {
        const char* const text = get(name);
        return text && *text ? text : nullptr;
    };
    if (const char* const text = given("ECHO_BUDGET")) {
        const auto [value, unit] = detail::number_of("ECHO_BUDGET", text);
        const double scale = detail::bytes_of_unit(unit);
        const bool percent = unit == "%", part = unit.empty() && value <= 1;
        if (!percent && (scale == 0 || value * scale > 1e18))
            throw echo::error({}, "ECHO_BUDGET", "'" + std::string(text) + "' has no unit that is known",
                              "give bytes, 512MiB, 2.5GB, 0.6 or 60%");
        if (percent || part)
            s.ratio = percent ? value / 100 : value;
        else
            s.budget = static_cast<std::uint64_t>(value * scale);
    }
    if (const char* const text = given("ECHO_MAX_OVERHEAD")) {
        const auto [value, unit] = detail::number_of("ECHO_MAX_OVERHEAD", text);
        if (!unit.empty() && unit != "%")
            throw echo::error({}, "ECHO_MAX_OVERHEAD",
                              "'" + std::string(text) + "' is no part of a step's time", "give 0.05 or 5%");
        s.max_overhead = unit.empty() ? value : value / 100;
    }
    if (const char* const text = given("ECHO_REPORT")) s.report = text;
    return s;
}

} // namespace echo_ggml
