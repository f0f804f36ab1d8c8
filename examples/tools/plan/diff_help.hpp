// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan diff --help` prints.
#pragma once

#include "command_line/help.hpp"

#include <string>
#include <string_view>

namespace echo::format {

inline std::string diff_help_text() {
    constexpr std::string_view head = R"(NAME
    echo-plan diff - what changed from one plan to another

SYNOPSIS
    echo-plan diff A B [--fail-above PERCENT] [--report DIR] [--json]
              [--strategy NAME] [--budget BYTES|RATIO] [--max-overhead RATIO]
              [--keep PATTERN]... [--fuse] [--no-encode] [--dim NAME=VALUE]...
              [--first-backward NAME] [--max-bytes BYTES]

DESCRIPTION
    Compares peak, arena, resident bytes, stash, recomputation and the time of
    a step. A and B are training graphs, which are planned alike by the options
    of echo-plan; then bytes are compared by layer, op and kind as well. Or
    they are files that echo-plan --emit-plan wrote, whose reports are compared.

OPTIONS
    --fail-above PERCENT
        Fail if the peak, the arena, the resident bytes or the time of a step
        grew by more than this from A to B: 2%, or 0.02. For a model's own
        checks: keep the graph of the last release, and compare with it.
    --report DIR
        Write DIR/index.html with both curves; for graphs only.
    --json
        Print one JSON object.
    The others say how to plan; see echo-plan --help.
)";
    constexpr std::string_view end =
        R"(    4  a figure grew by more than --fail-above: one line on standard error names
       it

EXAMPLES
    echo-plan diff release.json.gz model.json.gz --fail-above 2%
    echo-plan diff old-plan.json new-plan.json
)";
    return std::string(head).append(common_help).append(end);
}

} // namespace echo::format
