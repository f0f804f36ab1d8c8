"""The page of a compiled step for a browser: its memory over the step, by the code that draws it for `echo-plan`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from echo_jax.assignment import Allocation, Assignment, Value
from echo_jax.hlo import Program


def write(page: str, folder: str | os.PathLike[str]) -> Path:
    """FOLDER/index.html, whole or not at all. OSError: it cannot be written."""
    target = Path(folder, "index.html")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def require() -> None:
    """ImportError: the package was built without the library that draws the page's charts."""
    from echo_jax import _core  # type: ignore[attr-defined, unused-ignore]

    if not _core.can_draw:
        raise ImportError(
            "the report cannot be drawn: echo_jax was built without uPlot, the library of its charts; "
            "install the package anew where pip can download (pip install --force-reinstall --no-cache-dir)"
        )


def graph_of(program: Program, memory: Assignment) -> Any:
    """A node for each instruction in the compiler's order; its outputs are the temporary buffers that begin there, and
    the instruction at its end has it as an input.
    """
    from echo_jax import _core  # type: ignore[attr-defined, unused-ignore]

    count = len(memory.steps)
    buffers = [each for allocation in memory.temporary() for each in _buffers(allocation)]
    begins: list[list[Value]] = [[] for _ in range(count)]
    ends: list[list[Value]] = [[] for _ in range(count)]
    for each in buffers:
        begins[min(each.first, count - 1)].append(each)
        if min(each.last, count - 1) > each.first:
            ends[min(each.last, count - 1)].append(each)
    graph, made = _core.Graph(), dict[int, tuple[int, int]]()
    for at, name in enumerate(memory.steps):
        origin = program.origin(name)
        graph.add(
            name=f"{name} at {origin.source}" if origin.source else name,
            op=origin.op or "none",
            layer=origin.module,
            phase="forward",
            kind="light",
            rerun="pure",
            inputs=[made[id(each)] for each in ends[at]],
            outputs=[(each.bytes, None, None) for each in begins[at]],
            control=[],
            flops=0.0,
            workspace=0,
            time_us=None,
            keep=False,
            writes=[],
            over=None,
        )
        made.update((id(each), (at, k)) for k, each in enumerate(begins[at]))
    return graph


def _buffers(allocation: Allocation) -> list[Value]:
    """Values at one place whose lives overlap, such as those of a loop and of its body, are one buffer. One that is
    written over by the instruction that reads it last ends before that instruction.
    """
    found: list[Value] = []
    for each in sorted(allocation.values, key=lambda each: (each.offset, each.first, -each.last)):
        before = found[-1] if found else None
        if before is None or before.offset != each.offset or each.first > before.last:
            found.append(each)
        elif each.first == before.last > before.first:
            found[-1:] = [dataclasses.replace(before, last=each.first - 1), each]
        else:
            last, size = max(before.last, each.last), max(before.bytes, each.bytes)
            found[-1] = dataclasses.replace(before, last=last, bytes=size)
    return found
