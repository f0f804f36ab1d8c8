// SPDX-License-Identifier: BSL-1.0
/// @file
/// `print` and `print_error`: what a program says, on standard output and on standard error.
#pragma once

#include "command_line/file_error.hpp"
#include "command_line/one_line.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace echo::format {

/// Errors: `file_error` if standard output does not take all of it.
inline void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw file_error({}, "standard output", "cannot be written");
}

/// One line of some hundred characters on standard error, whatever stands in the message.
inline void print_error(std::string_view program, std::string_view message) {
    fmt::print(stderr, "{}\n", short_line(fmt::format("{}: {}", program, message)));
}

} // namespace echo::format
