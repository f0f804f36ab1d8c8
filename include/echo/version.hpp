// SPDX-License-Identifier: BSL-1.0
/// @file
/// The version of Echo, for the preprocessor and for code. CMakeLists.txt reads the three numbers from here.
#pragma once

#include <compare>

#define ECHO_VERSION_MAJOR 0
#define ECHO_VERSION_MINOR 1
#define ECHO_VERSION_PATCH 0

namespace echo {

struct version_number {
    int major, minor, patch;
    friend constexpr auto operator<=>(const version_number&, const version_number&) = default;
};

inline constexpr version_number version{ECHO_VERSION_MAJOR, ECHO_VERSION_MINOR, ECHO_VERSION_PATCH};

} // namespace echo
