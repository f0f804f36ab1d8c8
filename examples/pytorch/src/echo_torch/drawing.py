"""The page of a plan for a browser, by the same code that draws it for the program `echo-plan`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def require() -> None:
    """ImportError: the package was built without the library that draws the page's charts."""
    from echo_torch._core import can_draw

    if not can_draw:
        raise ImportError(
            "report= cannot be drawn: echo_torch was built without uPlot, the library of its charts; "
            "install the package anew where pip can download (pip install --force-reinstall --no-cache-dir)"
        )


def draw(graph: Any, plan: Any, order: Sequence[int], name: str, folder: str | Path) -> None:
    """Writes FOLDER/index.html: PyTorch's partition, which runs nodes in that `order`, beside the plan; None: there is
    none, and that partition stays. OSError: the folder cannot be made or written.
    """
    page = graph.page(name, order, plan)
    target = Path(folder, "index.html")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
