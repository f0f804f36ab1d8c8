"""Random programs of PyTorch's, trained by Echo and by PyTorch's default partition.

    python programs.py [--first SEED] [--count N] [--all | --moves | --inductor]

Each draws operators of many kinds, among them transpositions, views, writes in place, random numbers,
statistics, operators of a user's own and checkpoints, and lets each read what others made. Some programs
have batches of several sizes; and with some the caller writes into an input, or into a result, between
the forward and the backward pass. Losses, gradients, buffers and results must be the same bits, whatever
is asked of the plan; under Inductor, whose kernels change with what they fuse, they differ by rounding alone.
What differs is printed, one line for each, and so is why a graph was left to PyTorch. A program takes some
seconds, under Inductor a minute; `test_programs.py` and `test_inductor.py` train a few.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import unittest.mock
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from other_memory import other_memory
from random_program import Module, Program
from support import default_backend
from torch import Tensor

import echo_torch
from echo_torch import reuse

ASKED = (
    {"strategy": "min_cut"},
    {"budget": 0.5},
    {"budget": 0.05},
    {"max_overhead": 0.0},
    {"max_overhead": "100%"},
)
# With moves to the host's memory, for which the CPU counts as a device of its own.
MOVES = (
    {"offload": "25GB/s", "max_overhead": 0.0},
    {"offload": "25GB/s", "budget": 0.05},
    {"offload": "1GB/s", "budget": 0.3},
    {"offload": "100MB/s", "max_overhead": "100%"},
)
ROUNDING = 1e-5  # of a value's norm: how far kernels that fuse otherwise may be apart


def inputs_of(program: Program, step: int) -> tuple[Tensor, Tensor]:
    rows = program.shape[0] + (5 * step if program.batches else 0)
    shape = (rows, *program.shape[1:])
    x, given = torch.randn(shape, requires_grad=program.seed % 2 == 0), torch.randn(shape)
    if program.batches == "marked":
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(given, 0)
    return x, given


def train(program: Program, backend: Any, steps: int = 2, options: dict[str, Any] | None = None) -> list[Tensor]:
    """What some steps give: results, gradients, buffers."""
    torch._dynamo.reset()
    module = Module(program)
    compiled = torch.compile(module, backend=backend, options=options)
    found: list[Tensor] = []
    for step in range(steps + 1 if program.batches else steps):
        torch.manual_seed(program.seed + 7 + step)
        x, given = inputs_of(program, step)
        results = compiled(x, given)
        found += [value.detach().clone() for value in results]
        loss = results[0]
        if program.seed % 3 == 0:
            loss = loss + sum(value.sum() * 0.01 for value in results[1:])
        if program.written == "given":
            given.mul_(0.5).add_(1.0)
        elif program.written == "result" and program.returns_more:
            results[1].detach().zero_()
        loss.backward()
        found += [p.grad for p in (x, *module.parameters()) if p.grad is not None]
        found += [buffer.clone() for buffer in module.buffers()]
        module.zero_grad(set_to_none=True)
    return found


def expected_of(program: Program) -> list[Tensor] | str:
    """What PyTorch's default partition gives, or why it does not train the program."""
    try:
        return train(program, default_backend())
    except RuntimeError as refused:  # it does not compile, or has no gradient
        return " ".join(str(refused).splitlines()[:2])


def faults(program: Program, expected: list[Tensor], asked: tuple[dict[str, Any], ...] = ASKED) -> Iterator[str]:
    """What goes wrong when Echo trains the program."""
    for options in asked:
        before = len(echo_torch.reports())
        try:
            with unittest.mock.patch.multiple(reuse, LEAST_BYTES=1, EVERYWHERE=True):
                found = train(program, echo_torch.eager_backend(measure=False, **options))
        except Exception as fault:
            told = str(fault).splitlines()[0][:160]
            yield f"{program.seed} {options}: does not train: {type(fault).__name__}: {told}"
            continue
        for report in echo_torch.reports()[before:]:
            if report.reason and not report.is_needless:
                yield f"{program.seed} {options}: left to PyTorch: {report.reason}"
        differ = [
            position
            for position, (one, other) in enumerate(zip(expected, found, strict=True))
            if not torch.equal(one.nan_to_num(), other.nan_to_num())
        ]
        if differ:
            yield f"{program.seed} {options}: of {len(found)} values these differ: {differ}"


def faults_under_inductor(program: Program) -> Iterator[str]:
    """What goes wrong when Echo trains the program under Inductor."""
    try:
        expected = train(program, "inductor")
    except Exception as refused:
        yield f"{program.seed}: not trained by Inductor: {' '.join(str(refused).splitlines()[:2])[:120]}"
        return
    before = len(echo_torch.reports())
    partitioner = echo_torch.partitioner(measure=False, max_overhead="100%")
    try:
        found = train(program, "inductor", options={"custom_partitioner_fn": partitioner})
    except Exception as fault:
        yield f"{program.seed}: does not train: {type(fault).__name__}: {str(fault).splitlines()[0][:160]}"
        return
    for report in echo_torch.reports()[before:]:
        if report.reason and not report.is_needless:
            yield f"{program.seed}: left to Inductor: {report.reason}"
    for position, (one, other) in enumerate(zip(expected, found, strict=True)):
        off = (one.double() - other.double()).nan_to_num().norm() / one.double().nan_to_num().norm().clamp_min(1e-30)
        if off > ROUNDING:
            yield f"{program.seed}: value {position} of {len(found)} differs by {off:.1e}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    arguments.add_argument("--count", type=int, default=100, help="how many programs")
    arguments.add_argument("--all", action="store_true", help="ask for every plan, not for one that is drawn")
    arguments.add_argument("--inductor", action="store_true", help="under Inductor, beside its default")
    arguments.add_argument("--moves", action="store_true", help="with every plan that moves values to the host")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    trained = found = 0
    for seed in range(asked.first, asked.first + asked.count):
        program = Program(seed)
        if asked.inductor:
            for fault in faults_under_inductor(program):
                print(fault, flush=True)
                found += "not trained by" not in fault
            trained += 1
            print(f"{seed}: done", flush=True)
            continue
        expected = expected_of(program)
        if isinstance(expected, str):
            print(f"{seed}: not trained by PyTorch: {expected[:120]}", flush=True)
            continue
        trained += 1
        ways = MOVES if asked.moves else ASKED if asked.all else (program.draw.choice(ASKED),)
        with other_memory() if asked.moves else contextlib.nullcontext() as memory:
            for fault in faults(program, expected, ways):
                print(fault, flush=True)
                found += 1
        print(f"{seed}: trained" + (f", {memory.copies} copies left" if memory else ""), flush=True)
    print(f"{trained} of {asked.count} programs trained, {found} faults")
    return 1 if found or not trained else 0


if __name__ == "__main__":
    sys.exit(main())
