// SPDX-License-Identifier: BSL-1.0
/// @file
/// The version of Echo, for the preprocessor and for code. CMakeLists.txt reads the three numbers from here.
#pragma once

#include <echo/config.hpp>

#include <compare>

/// Grows when code that compiled does not any more: docs/versions.md.
#define ECHO_VERSION_MAJOR 0
/// Grows when something is added, or when plans differ.
#define ECHO_VERSION_MINOR 1
/// Grows when a fault is mended.
#define ECHO_VERSION_PATCH 0

namespace echo {

/// Three numbers that compare as versions do.
struct version_number {
    int major, minor, patch; ///< As in MAJOR.MINOR.PATCH.
    friend constexpr auto operator<=>(const version_number&, const version_number&) = default;
};

/// The version of these headers.
inline constexpr version_number version{ECHO_VERSION_MAJOR, ECHO_VERSION_MINOR, ECHO_VERSION_PATCH};

} // namespace echo
