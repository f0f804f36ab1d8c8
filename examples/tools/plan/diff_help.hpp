// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan diff --help` prints.
#pragma once

#include "command_line/help.hpp"
#include "plan/help.hpp"

#include <string>
#include <string_view>

namespace echo::format {

inline std::string diff_help_text() {
    constexpr std::string_view head = R"(NAME
    echo-plan diff - what changed from one plan to another

SYNOPSIS
    echo-plan diff A B [--graph GRAPH] [--fail-above PART] [--report DIR]
              [--json] [--strategy NAME] [--budget BYTES|PART]
              [--max-overhead PART] [--keep PATTERN]... [--fuse] [--no-encode]
              [--offload RATE [--host-budget BYTES]]
              [--dim NAME=VALUE]... [--shape VALUE=EXTENTS]...
              [--first-backward NAME]
              [--max-bytes BYTES] [--quiet]

DESCRIPTION
    Compares peak, arena, resident bytes, stash, recomputation, the time of a
    step, and bytes by layer, op and kind. A and B are training graphs, which
    are planned alike by the options; or files that echo-plan --emit-plan wrote
    of one graph, which --graph names. Without it, what such files state is
    compared: neither the time of a step nor layers. One of the three may be -,
    which is standard input.

OPTIONS
    --graph GRAPH
        The graph that the plans A and B are of.
    --fail-above PART
        Fail if the peak, the arena, the resident bytes or the time of a step
        grew by more than this from A to B: 2%, or 0.02. For a model's own
        checks: keep the graph of the last release, and compare with it.
    --report DIR
        Write DIR/index.html with both curves, and both plans' values.
    --json
        Print one JSON object.
)";
    constexpr std::string_view end =
        R"(    4  a figure grew by more than --fail-above: one line on standard error names
       it

EXAMPLES
    echo-plan diff release.json.gz model.json.gz --fail-above 2%
        Fail where a change of the model costs memory or time.
    echo-plan diff default.json half.json --graph resnet50.json.gz
        What a budget costs: two plans of one graph.
)";
    return std::string(head).append(planning_help).append(common_help).append(end);
}

} // namespace echo::format
