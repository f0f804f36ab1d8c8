// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan --help` prints.
#pragma once

#include "command_line/help.hpp"

#include <string>
#include <string_view>

namespace echo::format {

/// The options that say how to plan; `echo-plan diff` has them as well.
inline constexpr std::string_view planning_help = R"(    --strategy NAME
        baseline      change nothing
        mirror        recompute all that is cheap
        echo          the pass of the Echo paper, with its edge cases repaired
        echo_printed  the same as the paper prints it
        min_cut       the exact choice by minimum cuts
        budget        the least peak within --max-overhead, or the least
                      recomputation within --budget; compute-heavy ops may be
                      recomputed too (default)
    --budget BYTES|PART
        What the peak should not exceed: bytes (8589934592, 1e9, 512MiB, 1.5GB),
        or a part of the peak without Echo (0.5, 50%). A graph that fits is left
        as it is. The strategies other than budget are only measured by it.
    --max-overhead PART
        Recompute for at most this part of a step's time (default 5%, which is
        also 0.05), and need as little memory as that allows.
    --keep PATTERN
        Never recompute the nodes whose name or layer matches, where * stands
        for any characters and ? for one. May be given several times.
    --fuse
        The engine can recompute a light op inside the light ops that read it,
        without time or memory of its own: mark such steps in the plan. The
        plan is never worse than without.
    --dim NAME=VALUE
        The extent of a symbolic dimension of an ONNX model; of one without a
        name, with TENSOR:AXIS for NAME. May be given several times.
    --shape VALUE=EXTENTS
        The shape of a value of an ONNX model that nothing else tells, such as
        y=4x8, y=scalar or, with its type, y=float32:4x8. May be given several
        times.
    --first-backward NAME
        The node or value of an ONNX model where its gradient begins: all
        nodes from there on are backward. Without it, ops and values named as
        gradients (ConvGrad, w_grad) are, and what is computed from them.
    --no-encode
        Keep every value in full: no encoding in one bit per element.
    --offload RATE
        Values may wait in the host's memory for their next reader: RATE, such
        as 25GB/s, is how fast copies travel each way, beside the computation.
        What the step waits for them counts as recomputation does. Only with
        --strategy budget.
    --host-budget BYTES
        Take no more than this of the host's memory for them.
    --quiet
        Show no progress. It is shown on standard error, only where that is a
        terminal, of what takes longer than a second.
    --max-bytes BYTES
        Read no more than this of a graph's file, unpacked. Without it, 1GiB,
        and no file that unpacks to 64 MiB and to 100 times its own size:
        nothing that was made to fill the memory.
)";

inline std::string help_text() {
    constexpr std::string_view head = R"(NAME
    echo-plan - shrink the memory that a training graph needs

SYNOPSIS
    echo-plan GRAPH [--strategy NAME] [--budget BYTES|PART]
              [--max-overhead PART] [--keep PATTERN]... [--fuse] [--no-encode]
              [--offload RATE [--host-budget BYTES]]
              [--dim NAME=VALUE]... [--shape VALUE=EXTENTS]...
              [--first-backward NAME]
              [--max-bytes BYTES] [--quiet] [--json] [--plan FILE]
              [--emit-plan FILE] [--emit-onnx FILE] [--dot FILE] [--trace FILE]
              [--memory-snapshot FILE] [--report DIR]
              [--compare | --pareto | --knee]
    echo-plan diff A B [--graph GRAPH] [--fail-above PART] ...
    echo-plan --help | diff --help | --version

DESCRIPTION
    Reads a training graph, decides which feature maps to stash, which to
    recompute, which to encode in one bit per element and, if asked, which to
    move to the host's memory for a while, lays the tensors
    that remain out in one arena, checks the result with a replay that shares
    no code with the planner, and prints what it achieves. No plan needs more
    memory than the graph does without it.

    GRAPH is a file of the format echo-graph/1: .json, or .json.gz for a
    compressed one; or an ONNX model, .onnx or .onnx.gz, where the program was
    built with ONNX; or -, which is any of them from standard input. A model
    without gradients is left as it is, and its arena is laid out.

    A FILE that is written may be -, which is standard output; then nothing
    else is printed there.

OPTIONS
)";
    constexpr std::string_view files = R"(    --json
        Print the report as one JSON object and nothing else. With --compare,
        an array of reports, each with its strategy.
    --plan FILE
        Make no plan, but read one of the format echo-plan/1, made for this
        graph by whatever program, and judge, show and draw it. Its schedule
        is what counts; its arena is laid out anew.
    --emit-plan FILE
        Write the plan, of the format echo-plan/1. Compressed if FILE ends in
        .gz. The file is written whole or not at all.
    --emit-onnx FILE
        Write the ONNX model as planned: its nodes in the plan's order, and
        those that run again as further nodes. Written whole or not at all.
    --dot FILE
        Write the graph and the plan for Graphviz.
    --trace FILE
        Write what runs when and what is live then, without Echo and with it,
        for Perfetto (https://ui.perfetto.dev). Compressed if FILE ends in .gz.
    --memory-snapshot FILE
        Write the planned step as a memory snapshot of PyTorch, for its viewer
        (https://pytorch.org/memory_viz): every tensor at its place.
    --compare
        Print one row for every strategy, the default first. The files are
        still those of --strategy.
    --pareto
        Print the front of peak against recomputation, and no plan. With
        --json, one object.
    --knee
        Print what 1, 2, 5 and 10 % of a step's time would buy, a line each:
        the least peak, its part of the peak without Echo, what it takes, and
        the gap to the bound within that time. With --json, one object.
    --report DIR
        Write DIR/index.html, a report for a browser, whole in one file: memory
        over the step without Echo and with it, the arena, the front, and why
        the largest values stay. DIR is made if it is not there.
)";
    constexpr std::string_view end =
        R"(    3  a budget cannot be met: one line on standard error gives the certified
       bound, the best that was reached and what stands in the way; what is
       printed and written is the best plan

EXAMPLES
    echo-plan resnet50.json.gz
        What can be saved for at most 5 % of a step's time.
    echo-plan resnet50.json.gz --knee
        Whether less time, or more, would buy much.
    echo-plan resnet50.json.gz --report resnet50
        Look at it: open resnet50/index.html.
    echo-plan diff last-release.json.gz resnet50.json.gz --fail-above 2%
        Fail where a change of the model costs memory or time.
    echo-plan - --dot - < resnet50.json.gz | dot -Tsvg > resnet50.svg
        Draw the graph and its plan.
    echo-plan resnet50.json.gz --compare
        All strategies side by side.
    echo-plan resnet50.json.gz --budget 8GiB --emit-plan plan.json
        Make it fit, at the least cost.
    echo-plan nmt.json.gz --strategy echo --emit-plan plan.json
        A plan for an engine to carry out.
    echo-plan nmt.json.gz --json | python3 -m json.tool
        Figures for another program.
)";
    return std::string(head).append(planning_help).append(files).append(common_help).append(end);
}

} // namespace echo::format
