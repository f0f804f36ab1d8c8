// SPDX-License-Identifier: BSL-1.0
/// @file
/// Strategies as they are written on a command line.
#pragma once

#include "command_line/usage_error.hpp"

#include <echo/analysis/plan/plan.hpp>

#include <fmt/format.h>

#include <string_view>

namespace echo::format {

/// Errors: `usage_error`.
inline strategy parse_strategy(std::string_view named) {
    for (const strategy how : {strategy::baseline, strategy::mirror, strategy::echo, strategy::echo_printed,
                               strategy::min_cut, strategy::budget})
        if (name_of(how) == named) return how;
    throw usage_error(
        fmt::format("--strategy {} is none of baseline, mirror, echo, echo_printed, min_cut, budget", named));
}

} // namespace echo::format
