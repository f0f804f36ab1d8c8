// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the exit status of `echo-train` says, and the one line of an error.
#pragma once

#include "command_line/print.hpp"

#include <string>
#include <string_view>

namespace train {

enum status : int { success = 0, bad_input = 1, bad_usage = 2, budget_unmet = 3 };

inline status complain(std::string_view about, std::string_view message, status as = bad_input) {
    echo::format::print_error("echo-train", std::string(about) + std::string(message));
    return as;
}

} // namespace train
