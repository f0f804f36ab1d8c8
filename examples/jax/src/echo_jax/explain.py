"""What fills the memory of a compiled step at its peak, and which line of code makes it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from echo_jax import assignment, pages
from echo_jax.amounts import megabytes
from echo_jax.compiling import Compiled, Sizes, compile_step
from echo_jax.hlo import Origin, Program

ROWS = 16  # buffers that a table lists
GROUPS = ("module", "role", "op", "source")


@dataclass(frozen=True)
class Buffer:
    """A value that is live at the peak."""

    bytes: int  # that it occupies alone; what shares them with a younger value has none
    name: str  # the instruction that makes it, and the part of its result
    shape: str
    op: str  # primitive of JAX
    module: str  # path of modules and scopes
    role: str  # forward, recomputed, backward or other
    source: str  # file:line (function)
    steps: tuple[int, int]  # from the step that makes it to the last that reads it


@dataclass(frozen=True)
class Explanation:
    """The memory of one compiled step, in bytes of one device."""

    name: str
    platform: str
    sizes: Sizes
    flops: float
    at: Buffer  # the largest value that the instruction at the peak makes; its name is the instruction
    step: int  # at which the peak is reached
    steps: int  # of all
    live_bytes: int  # temporary values at the peak
    live: list[Buffer]  # the largest first
    other_spaces: dict[int, int]  # temporary bytes in other memories of the device, by XLA's number of it
    compiled: tuple[Program, assignment.Assignment] = field(repr=False, compare=False)  # what it was read from
    refusal: str = ""  # what the compiler says where the step needs more memory than the device has

    @property
    def unused_bytes(self) -> int:
        """Bytes of the temporary memory that hold nothing at the peak: gaps between buffers."""
        return self.sizes.temp - self.live_bytes

    def by(self, group: str) -> dict[str, int]:
        """Live bytes at the peak by `module`, `role`, `op` or `source`, the largest first."""
        if group not in GROUPS:
            raise ValueError(f"group is '{group}'; write one of {', '.join(GROUPS)}")
        sums: dict[str, int] = {}
        for buffer in self.live:
            key = getattr(buffer, group) or "(no name)"
            sums[key] = sums.get(key, 0) + buffer.bytes
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def as_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        own = dataclasses.replace(self, compiled=None)  # type: ignore[arg-type]
        return {
            **{key: value for key, value in asdict(own).items() if key != "compiled"},
            "unused_bytes": self.unused_bytes,
            "by": {group: self.by(group) for group in GROUPS},
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    def report(self, folder: str | os.PathLike[str]) -> Path:
        """Writes FOLDER/index.html, a page for a browser: the memory over the step, and its largest values.

        Errors: ImportError, where the package was built without the library of the page's charts; OSError.
        """
        pages.require()
        graph = pages.graph_of(*self.compiled)
        return pages.write(graph.program_page(f"{self.name} on {self.platform}"), folder)

    def table(self, rows: int = ROWS) -> str:
        """A table for people, with so many rows of buffers."""
        sizes = self.sizes
        lines = [
            f"{self.name} on {self.platform}: {megabytes(sizes.total)} MB = "
            f"{megabytes(sizes.arguments)} MB arguments + {megabytes(sizes.outputs - sizes.aliased)} MB outputs + "
            f"{megabytes(sizes.temp)} MB temporary",
            *([f"it does not fit: {self.refusal}"] if self.refusal else []),
            f"peak at instruction {self.step} of {self.steps}, {self.at.name} ({_described(self.at)}): "
            f"{megabytes(self.live_bytes)} MB live, {megabytes(self.unused_bytes)} MB between buffers",
            "",
        ]
        alike = _alike(self.live)
        lines += _columns([("MB", "values", "role", "op", "module", "source")] + [cells for _, cells in alike[:rows]])
        if rest := sum(size for size, _ in alike[rows:]):
            lines.append(f"{megabytes(rest):>9}  in {len(alike) - rows} smaller rows")
        for group in ("role", "module"):
            sums = list(self.by(group).items())[:rows]
            lines += ["", *_columns([("MB", f"by {group}")] + [(megabytes(size), name) for name, size in sums])]
        return "\n".join(lines)

    __str__ = table


def explain(
    step: Callable[..., Any],
    *args: Any,
    topology: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles `step` for these arguments and tells what is live at the peak of its temporary memory.

    Nothing runs. `step` is a function or what jax.jit makes of it, and donation is taken from the latter; arguments are
    arrays or jax.ShapeDtypeStruct. `topology` is the name of a TPU that need not be there, such as "v5e:2x2" (needs
    libtpu). `compiler_options` are those of jax.jit.

    Errors: Declined, where the step does not trace or compile, or the compiler writes what is not known here.
    """
    compiled = compile_step(step, args, kwargs, topology=topology, compiler_options=compiler_options)
    return explained(compiled)


def explained(compiled: Compiled) -> Explanation:
    """The same of a step that is compiled already."""
    program, memory = compiled.program, compiled.memory
    if program is None or memory is None:
        raise ValueError("the step was compiled without the compiler's dump")
    at, total, live = assignment.peak(memory.temporary(), len(memory.steps))
    spaces: dict[int, int] = {}
    for each in memory.allocations:
        if each.kind == "temp" and each.space:
            spaces[each.space] = spaces.get(each.space, 0) + each.bytes
    return Explanation(
        compiled.name,
        compiled.platform,
        compiled.sizes,
        compiled.flops,
        _at(program, memory.steps[at], at),
        at,
        len(memory.steps),
        total,
        [_buffer(program, value, size) for value, size in live],
        spaces,
        (program, memory),
        compiled.refusal,
    )


def _at(program: Program, name: str, at: int) -> Buffer:
    made, origin = program.instructions.get(name), program.origin(name)
    shape = made.shape if made else ""
    return Buffer(0, name, shape, origin.op, origin.module, origin.role, origin.source, (at, at))


def _buffer(program: Program, value: assignment.Value, size: int) -> Buffer:
    origin: Origin = program.origin(value.instruction, value.index)
    part = "{" + ",".join(map(str, value.index)) + "}" if value.index else ""
    return Buffer(
        size,
        value.instruction + part,
        value.shape,
        origin.op,
        origin.module,
        origin.role,
        origin.source,
        (value.first, value.last),
    )


def compare(a: Explanation, b: Explanation, rows: int = ROWS) -> str:
    """A table of two steps side by side: sizes, flops, and live bytes at the peak by role and by module."""
    figures = [("temporary", a.sizes.temp, b.sizes.temp), ("live at the peak", a.live_bytes, b.live_bytes)]
    figures += [("arguments", a.sizes.arguments, b.sizes.arguments), ("outputs", a.sizes.outputs, b.sizes.outputs)]
    lines = [("MB", f"{a.name} on {a.platform}", f"{b.name} on {b.platform}", "difference")]
    lines += [(name, megabytes(x), megabytes(y), f"{(y - x) / 1e6:+,.1f}") for name, x, y in figures]
    change = f"{100 * (b.flops / a.flops - 1):+.1f} %" if a.flops else ""
    lines.append(("flops", f"{a.flops:.3g}", f"{b.flops:.3g}", change))
    for group in ("role", "module"):
        ours, theirs = a.by(group), b.by(group)
        names = sorted(ours.keys() | theirs.keys(), key=lambda n: (-abs(ours.get(n, 0) - theirs.get(n, 0)), n))
        for name in names[:rows]:
            x, y = ours.get(name, 0), theirs.get(name, 0)
            lines.append((f"{group} {name}", megabytes(x), megabytes(y), f"{(y - x) / 1e6:+,.1f}"))
    return "\n".join(_columns(lines, first_left=True))


def short(shape: str) -> str:
    """A shape without its layout."""
    return shape.partition("{")[0] if not shape.startswith("(") else "tuple"


def _described(buffer: Buffer) -> str:
    where = " in ".join(part for part in (buffer.op, buffer.module) if part)
    return ", ".join(part for part in (where, buffer.role, buffer.source) if part)


def _alike(live: list[Buffer]) -> list[tuple[int, tuple[str, ...]]]:
    """Rows of a table, the largest first: bytes and cells of all values of one shape that one line of code makes."""
    groups: dict[tuple[str, ...], list[Buffer]] = {}
    for buffer in live:
        if buffer.bytes:
            key = (short(buffer.shape), buffer.role, buffer.op, re.sub(r"\d+", "*", buffer.module), buffer.source)
            groups.setdefault(key, []).append(buffer)
    rows = []
    for (shape, role, op, module, source), values in groups.items():
        size = sum(value.bytes for value in values)
        modules = {value.module for value in values}
        count = f"{len(values)} x {shape}" if len(values) > 1 else shape
        rows.append((size, (megabytes(size), count, role, op, modules.pop() if len(modules) == 1 else module, source)))
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def _columns(rows: Sequence[tuple[str, ...]], first_left: bool = False) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if (at > 0) != first_left else cell.rjust(max(width, 0 if first_left else 9))
            for at, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
