// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-train --help` prints.
#pragma once

#include "command_line/help.hpp"

#include <string>
#include <string_view>

namespace train {

inline std::string help_text() {
    constexpr std::string_view head = R"(NAME
    echo-train - train one of the paper's models, with and without Echo

SYNOPSIS
    echo-train MODEL [--preset NAME] [--strategy NAME] [--budget BYTES|PART]
               [--max-overhead PART] [--baseline paper|modern] [--batch N]
               [--steps N] [--rate RATE] [--seed N] [--threads N] [--data FILE]
               [--evaluate N] [--profile | --json] [--offload [DIR]]
               [--device cpu|cuda] [--tf32] [--dry-run]
    echo-train --help | --version

DESCRIPTION
    Builds the training graph of a model, plans what to stash, to recompute
    and to encode, and trains in one arena of exactly the planned size, on the
    CPU or on a CUDA device. Whatever the strategy and the budget, the losses,
    gradients and parameters have the same bits.

    MODEL is one of
        nmt          translation by LSTMs with attention
        ds2          DeepSpeech2, speech recognition
        transformer  translation by attention alone
        resnet       image classification

    It learns a generated task: sentences to reverse, sounds to write down,
    shapes to name.

OPTIONS
    --preset NAME
        tiny   under a second a step (default)
        small  at least 2 GB of feature maps
        paper  the sizes of the Echo paper
        best   the largest model of the paper (nmt only)
    --strategy NAME
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
        or a part of the peak without Echo (0.5, 50%). Nothing is trained if it
        does.
    --max-overhead PART
        Recompute for at most this part of a step's time (default 5%, which is
        also 0.05), and need as little memory as that allows.
    --offload [DIR]
        On the CPU: values may wait in a file in DIR, or in the folder that
        TMPDIR names, while nothing reads them. Three steps and the file are
        timed first, and the plan goes by that: other plans from run to run,
        the same bits. What a step waits for the file counts as recomputation
        does. Goes with --strategy budget.
    --baseline paper|modern
        What a framework would do: paper has activations keep their inputs as
        well, and the strategies baseline and mirror place tensors in NNVM's
        pool; modern (default) does neither.
    --batch N
        Samples in a step (default: the preset's).
    --steps N
        Steps to train (default 100).
    --rate RATE
        The learning rate (default: the model's).
    --seed N
        Of parameters, dropout and data (default 1). The same seed and number
        of threads give the same bits.
    --threads N
        Threads to compute on (default: one per core).
    --data FILE
        Train on lines SOURCE<TAB>TARGET of words between spaces (nmt and
        transformer).
    --evaluate N
        Measure how good the model is after the first step and every N steps,
        and not only at the end: on samples it was not trained on (of --data:
        on its lines), without dropout.
    --device cpu|cuda
        Where to train (default cpu). On cuda tensors begin at multiples of 256
        bytes, and from the second step on a step is run as CUDA graphs.
    --tf32
        On cuda: products and convolutions may round to TF32, which is faster
        and gives other bits.
    --dry-run
        On cuda, without a device: train nothing, and print what a step would
        call, a line each: STEP KIND OP NODE: CALLS | in RANGES | out RANGES |
        scratch RANGE. A range is OFFSET+BYTES in the arena, or [NAME]+BYTES of
        what stays from step to step; a kernel's name has the number of warps'
        tiles behind it. cuDNN's scratch memory, which only a device can say,
        counts as none.
    --profile
        Print the time and the bytes of each layer.
    --json
        Print one JSON object per step and nothing else: step, loss, loss_hex
        (the same, exactly), arena_bytes, step_ms, device, and on cuda
        driver_bytes: what the driver says was taken of the device's memory, the
        context not counted.
)";
    constexpr std::string_view end =
        R"(    3  a budget cannot be met: one line on standard error gives the certified
       bound, the best that was reached and what stands in the way; nothing is
       trained

EXAMPLES
    echo-train nmt --steps 2000 --evaluate 500
        See it learn to reverse sentences.
    echo-train nmt --strategy baseline --steps 2000 --evaluate 500
        The same without Echo: the same losses, more memory.
    echo-train resnet --preset small --budget 0.5 --steps 5 --profile
        In half the memory, and where the time goes.
    echo-train transformer --preset small --offload /scratch --steps 5
        With a disk beside the memory, as far as that is fast enough.
    echo-train ds2 --json --steps 20
        Figures for another program.
)";
    return std::string(head).append(echo::format::common_help).append(end);
}

} // namespace train
