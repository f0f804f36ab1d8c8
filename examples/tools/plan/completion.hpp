// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-plan --completion SHELL`: the options of `echo-plan GRAPH`, and those of `echo-plan diff`.
#pragma once

#include "command_line/completion.hpp"
#include "plan/diff.hpp"
#include "plan/options.hpp"

#include <string>
#include <string_view>

namespace echo::format {

/// Errors: `usage_error` for an unknown shell.
inline std::string complete_plan(std::string_view shell) {
    constexpr std::string_view name = "echo-plan";
    options one;
    diff_options two;
    std::string above;
    CLI::App app, diff;
    const planning_options of_one(app, one), of_two(diff, two.planning);
    add_options(app, one);
    add_options(diff, two, above);
    add_common(app, name);
    add_common(diff, name);
    return completion(name, options_of(app, help_text()),
                      {{.name = "diff",
                        .meaning = "what changed from one plan to another",
                        .options = options_of(diff, diff_help_text())}},
                      shell);
}

} // namespace echo::format
