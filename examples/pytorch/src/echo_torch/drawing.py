"""The page of a plan for a browser, by the same code that draws it for the program `echo-plan`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echo_torch.judge import Kernel


def require() -> None:
    """ImportError: the package was built without the library that draws the page's charts."""
    from echo_torch._core import can_draw

    if not can_draw:
        raise ImportError(
            "report= cannot be drawn: echo_torch was built without uPlot, the library of its charts; "
            "install the package anew where pip can download (pip install --force-reinstall --no-cache-dir)"
        )


def graph_of(kernels: Sequence[Kernel]) -> Any:
    """A node for each kernel. Its outputs are the storages that begin by it; those that end by it are its inputs."""
    from echo_torch._core import Graph

    graph = Graph()
    for at, kernel in enumerate(kernels):
        name = kernel.name or "copies"
        module = max(kernel.begins, key=lambda live: live.bytes).module if kernel.begins else ""
        graph.add(
            name=f"{name} ({at})",
            op=re.sub(r"_\d+$", "", name),
            layer=module,
            phase=kernel.phase,
            kind="heavy" if kernel.runs_alone else "light",
            rerun="never",
            inputs=kernel.ends,
            outputs=[(live.bytes, None, None) for live in kernel.begins],
            control=[],
            flops=0.0,
            workspace=kernel.scratch,
            time_us=kernel.microseconds,
            keep=False,
            writes=[],
            over=None,
        )
    return graph


def write(page: str, folder: str | Path) -> None:
    """FOLDER/index.html, whole or not at all. OSError: the folder cannot be made or written."""
    target = Path(folder, "index.html")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
