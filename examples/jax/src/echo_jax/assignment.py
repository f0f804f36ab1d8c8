"""The compiler's own decisions about memory: which buffer holds which values at which offset, and when each lives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(.*):$")
VALUE = re.compile(r"^ value: <\d+ ([^\s{]+)(?:\{([\d, ]*)\})?(?: \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")
STEP = re.compile(r"^    (\d+):(\S+)$")
RANGE = re.compile(r"^    ([^\s{]+)\{([\d, ]*)\}:(\d+)-(\d+)$")
Key = tuple[str, tuple[int, ...]]  # the instruction that defines a value, and the part of its result


@dataclass(frozen=True)
class Value:
    """A value in a buffer, and the steps between which it lives, both included."""

    instruction: str
    index: tuple[int, ...]
    bytes: int
    offset: int
    shape: str
    first: int
    last: int


@dataclass
class Allocation:
    """A block of memory that the compiler asks for."""

    bytes: int
    kind: str  # temp, parameter, output, constant, thread-local
    space: int  # 0 is the device's main memory
    is_result: bool = False  # also of a parameter that a result takes over
    values: list[Value] = field(default_factory=list)


@dataclass
class Assignment:
    """All blocks, and the order in which instructions run, bodies of loops at their loop."""

    allocations: list[Allocation]
    steps: list[str]

    def temporary(self) -> list[Allocation]:
        return [each for each in self.allocations if each.kind == "temp" and each.space == 0]

    def temp_bytes(self) -> int:
        return sum(each.bytes for each in self.temporary())


def parse(buffers: str, ranges: str) -> Assignment:
    """From the two texts that XLA dumps. Errors: ValueError where they are not what is known here."""
    steps, lives = _lives(ranges)
    lines = buffers.splitlines()
    if not lines or lines[0] != "BufferAssignment:" or not steps:
        raise ValueError("the compiler's dump holds no buffer assignment")
    allocations: list[Allocation] = []
    for line in lines[1:]:
        if found := ALLOCATION.match(line):
            flags = found[3]
            allocations.append(Allocation(int(found[2]), _kind(flags), _space(flags), "maybe-live-out" in flags))
        elif found := VALUE.match(line):
            index = _index(found[2])
            live = lives.get((found[1], index))
            if live is not None and allocations:
                allocations[-1].values.append(
                    Value(found[1], index, int(found[3]), int(found[4]), found[5], *live),
                )
        elif line.startswith((" value", "allocation")):
            raise ValueError(f"the compiler's buffer assignment has a line that is not known here: {line[:80]}")
        elif not line:
            break
    return Assignment(allocations, steps)


def _kind(flags: str) -> str:
    if "thread-local" in flags:
        return "thread-local"
    if "constant" in flags:
        return "constant"
    if "parameter" in flags:
        return "parameter"
    return "output" if "maybe-live-out" in flags else "temp"


def _space(flags: str) -> int:
    found = re.search(r"\bcolor (\d+)", flags)
    return int(found[1]) if found else 0


def _index(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text else ()


def _lives(ranges: str) -> tuple[list[str], dict[Key, tuple[int, int]]]:
    steps: list[str] = []
    lives: dict[Key, tuple[int, int]] = {}
    for line in ranges.splitlines():
        if line.startswith("  Live ranges at"):
            break
        if found := RANGE.match(line):
            lives[found[1], _index(found[2])] = (int(found[3]), int(found[4]))
        elif found := STEP.match(line):
            steps.append(found[2])
    return steps, lives


def occupied(values: Iterable[Value], at: int) -> list[tuple[Value, int]]:
    """Values that live at that step, with the bytes that each occupies. Bytes that several share, since one is written
    over the other, count for the youngest.
    """
    taken: list[tuple[int, int]] = []
    found = []
    for value in sorted((v for v in values if v.first <= at <= v.last), key=lambda v: (-v.first, v.offset)):
        free = _free(taken, value.offset, value.offset + value.bytes)
        if own := sum(end - begin for begin, end in free):
            taken += free
            found.append((value, own))
    return found


def _free(taken: list[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of [begin, end) that nothing has taken."""
    free = [(begin, end)]
    for low, high in taken:
        free = [part for a, b in free for part in ((a, min(b, low)), (max(a, high), b)) if part[0] < part[1]]
    return free


def peak(allocations: list[Allocation], steps: int) -> tuple[int, int, list[tuple[Value, int]]]:
    """The first step with the most occupied bytes, these bytes, and what occupies them, the largest first."""
    bound = [0] * (steps + 2)
    for allocation in allocations:
        for value in allocation.values:
            bound[value.first] += value.bytes
            bound[min(value.last, steps) + 1] -= value.bytes
    for at in range(1, steps + 1):
        bound[at] += bound[at - 1]
    best, most, live = 0, -1, list[tuple[Value, int]]()
    for at in sorted(range(steps), key=lambda at: (-bound[at], at)):
        if bound[at] < most:
            break
        here = [each for allocation in allocations for each in occupied(allocation.values, at)]
        total = sum(size for _, size in here)
        if total > most or (total == most and at < best):
            best, most, live = at, total, here
    return best, max(most, 0), sorted(live, key=lambda each: (-each[1], each[0].instruction, each[0].index))
