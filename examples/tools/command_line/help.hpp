// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the help pages of all programs here have in common.
#pragma once

#include <string_view>

namespace echo::format {

/// The end of OPTIONS and the start of EXIT STATUS.
inline constexpr std::string_view common_help = R"(    --completion bash|zsh|fish
        Print what completes these options in that shell.
    --help, -h
        Print this page.
    --version
        Print the version.

EXIT STATUS
    0  success
    1  bad input: a file cannot be read, written or understood; one line on
       standard error says where and what to do
    2  bad usage
)";

} // namespace echo::format
