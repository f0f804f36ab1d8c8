"""What was decided for a graph whose compiled halves another process finds in Inductor's cache: kept in a file beside
that cache, so that `reports` tells of it there too. Nothing is decided by these files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import fx

from echo_torch import say
from echo_torch.partition import reports
from echo_torch.report import Live, Report
from echo_torch.say import log

KEPT = (
    "default_peak",
    "peak",
    "default_kept",
    "kept",
    "overhead",
    "recomputed",
    "nodes",
    "reason",
    "is_needless",
    "where",
    "time_us",
    "kernel",
    "libraries",
)
CACHED = "its compiled halves come from Inductor's cache, by the decision of an earlier process"


def key_of(graph: fx.GraphModule, inputs: Sequence[Any], asked: Callable[[], object]) -> str | None:
    """Names a graph of TorchDynamo's with its inputs' sizes, and what is asked for. To be called before the graph is
    compiled, which changes it. None: it has no name, so nothing of it is kept.
    """
    try:
        described = [_described(value) for value in inputs]
        text = repr((graph.print_readable(False), described, asked(), torch.__version__))
    except Exception as fault:  # what cannot be named is compiled all the same
        log.debug("echo: a graph has no name", exc_info=fault)
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def keep(key: str | None, report: Report | None) -> None:
    """Keeps what became of a graph; None: it has no backward half. Without a file nothing is lost but a line of a
    table.
    """
    if key is None:
        return
    told = None
    if report is not None:
        told = {name: getattr(report, name) for name in KEPT} | {"live": [asdict(each) for each in report.live]}
    with contextlib.suppress(OSError, TypeError):
        file = _file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as written:
            json.dump(told, written)
        os.replace(written.name, file)


def recall(key: str | None) -> None:
    """Adds a report of a graph that was not partitioned, since its halves were known, if it has a backward one."""
    report = Report(cached=True, notes=[CACHED])
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        told = json.loads(_file(key or "").read_text())
        if told is None:
            return
        live = [Live(**each) for each in told["live"]]
        for name in KEPT:
            setattr(report, name, told[name])
        report.live = live
    if report.default_peak is None and report.reason is None:
        report.reason, report.is_needless = CACHED + ", of which nothing is known", True
    reports.add(report)
    say.begin(report)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{tuple(value.shape)} {value.dtype} {value.device} {value.requires_grad}"


def _file(key: str) -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "echo" / f"{key}.json"
