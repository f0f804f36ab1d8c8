// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sanitizers make every step dear, and what they look for is on every path: fewer rounds are enough for them.
#pragma once

#include <cstddef>

namespace support {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// Rounds of a test that draws what it looks at, and what it is to find in them.
constexpr std::size_t rounds(std::size_t n) { return sanitized ? n / 5 : n; }

} // namespace support
