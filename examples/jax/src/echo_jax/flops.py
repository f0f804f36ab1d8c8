"""Counts the floating-point operations of a compiled program. Time is not known without a device: they stand for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from echo_jax.hlo import DEEPEST, Instruction, Program

CHEAP = frozenset(
    "add subtract multiply divide maximum minimum negate abs compare select and or xor not power exponential tanh log "
    "logistic rsqrt sqrt sine cosine exponential-minus-one log-plus-one erf floor ceil sign clamp".split()
)


def flops(program: Program) -> float:
    """Floating-point operations of one run: 2 for each multiplication and addition of a product, 1 for each element of
    an elementwise operation. The body of a loop counts as often as the compiler knows that it runs, else once.
    """
    times = _runs(program)
    return sum(times.get(at.computation, 1) * _operations(program, at) for at in program.instructions.values())


def _runs(program: Program) -> dict[str, int]:
    """How often each computation runs, through loops in loops. Those of reductions count nothing: their elements do."""
    found: dict[str, int] = {}

    def runs(computation: str, left: int) -> int:
        caller = program.instructions.get(program.callers.get(computation, ""))
        if computation in found or caller is None or left == 0:
            return found.get(computation, 1)
        own = 1
        if caller.opcode == "while":
            own = _iterations(program, caller)
        elif caller.attribute("to_apply") == computation and caller.opcode != "call":
            own = 0
        found[computation] = own * runs(caller.computation, left - 1)
        return found[computation]

    return {computation: runs(computation, DEEPEST) for computation in program.roots}


def _iterations(program: Program, loop: Instruction) -> int:
    """As the compiler says; where it does not, as for TPUs, as the loop counts: up by one, while below a constant."""
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes):
        return int(known[1])
    test = program.instructions.get(program.roots.get(loop.attribute("condition") or "", ""))
    if test is None or test.opcode != "compare" or test.attribute("direction") != "LT":
        return 1
    counter, end = program.instructions.get(test.operands[0]), _constant(program, test.operands[1])
    start = program.instructions.get(loop.operands[0])
    after = program.instructions.get(program.roots.get(loop.attribute("body") or "", ""))
    if counter is None or counter.opcode != "get-tuple-element" or end is None or start is None or after is None:
        return 1
    at = int(counter.attribute("index") or 0)
    begin = _constant(program, start.operands[at]) if start.opcode == "tuple" else None
    added = program.instructions.get(after.operands[at]) if after.opcode == "tuple" else None
    steps = None
    if added is not None and added.opcode == "add":
        steps = next((told for each in added.operands if (told := _constant(program, each)) is not None), None)
    return max(1, -(-(end - (begin or 0)) // (steps or 1)))


def _constant(program: Program, name: str) -> int | None:
    """The integer that an instruction stands for, where it does."""
    for _ in range(DEEPEST):
        at = program.instructions.get(name)
        if at is None or at.opcode not in ("constant", "copy", "bitcast"):
            return None
        if at.opcode == "constant":
            found = re.match(r"-?\d+(?=\))", at.attributes)
            return int(found[0]) if found else None
        name = at.operands[0]
    return None


def extents(shape: str) -> list[int]:
    """Of an array's shape such as `f32[2,3]{1,0}`."""
    found = re.match(r"\w+\[([\d,<=]*)\]", shape)
    return [int(part.removeprefix("<=")) for part in found[1].split(",") if part] if found else []


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _operations(program: Program, at: Instruction) -> int:
    elements = _product(extents(at.shape))
    if at.opcode in CHEAP:
        return elements
    if at.opcode == "reduce" and at.operands:
        return _product(extents(program.instructions[at.operands[0]].shape))
    if at.opcode not in ("dot", "convolution") or len(at.operands) < 2:
        return 0
    left, right = (extents(program.instructions[name].shape) for name in at.operands[:2])
    if at.opcode == "convolution":
        return _convolution(at, left, right)
    summed = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", at.attributes)
    return 2 * elements * _product([left[int(axis)] for axis in summed[1].split(",") if axis] if summed else [])


def _convolution(at: Instruction, left: list[int], right: list[int]) -> int:
    """Without the products with padding and with holes of a dilation, as XLA counts."""
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", at.attributes)
    if labels is None:
        return 0
    window = re.search(r"window=\{([^}]*)\}", at.attributes)
    told = dict(part.split("=") for part in window[1].split()) if window else {}
    out = extents(at.shape)
    result = 2 * right[labels[2].index("i")] * out[labels[3].index("f")] * left[labels[1].index("b")]
    groups = re.search(r"batch_group_count=(\d+)", at.attributes)
    result //= int(groups[1]) if groups else 1
    for axis in range(len(labels[1]) - 2):
        n, k, o = (shape[names.index(str(axis))] for shape, names in zip((left, right, out), labels.groups()))
        stride, holes, kernel_holes = (
            int(told[key].split("x")[axis]) if key in told else 1 for key in ("stride", "lhs_dilate", "rhs_dilate")
        )
        before = int(told["pad"].split("x")[axis].partition("_")[0]) if "pad" in told else 0
        at_input = np.arange(o)[:, None] * stride + np.arange(k)[None, :] * kernel_holes - before
        inside = (at_input >= 0) & (at_input <= (n - 1) * holes) & (at_input % holes == 0)
        result *= int(inside.sum())
    return result
