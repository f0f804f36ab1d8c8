// SPDX-License-Identifier: BSL-1.0
/// @file
/// Text as gzip in base64: how a page carries its data.
#pragma once

#include <string>
#include <string_view>

namespace echo::report {

/// The same bytes for the same text. Errors: `std::bad_alloc`.
std::string pack(std::string_view text);

} // namespace echo::report
