// SPDX-License-Identifier: BSL-1.0
/// @file
/// `refuse_comma`: for numbers as some countries write them.
#pragma once

#include "command_line/usage_error.hpp"

#include <fmt/format.h>

#include <string_view>

namespace echo::format {

/// Errors: `usage_error` if a comma stands in `text`, which is a number, with or without a unit.
inline void refuse_comma(std::string_view option, std::string_view text) {
    if (text.find(',') != std::string_view::npos)
        throw usage_error(
            fmt::format("{} {}: a number has a decimal point and no commas, as in 0.5", option, text));
}

} // namespace echo::format
