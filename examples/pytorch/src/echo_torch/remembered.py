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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from echo_torch import say
from echo_torch.partition import reports
from echo_torch.report import Live, Report
from echo_torch.say import log
from echo_torch.where import function_of

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
OF_OTHER_SIZES = "its halves were compiled for other sizes, whose figures these are"


@dataclass(frozen=True)
class Name:
    """Of a graph, with what is asked for."""

    key: str  # with the sizes of its inputs
    function: str  # without


_of_function = dict[str, Report]()  # the last one of this process


def name_of(graph: fx.GraphModule, inputs: Sequence[Any], asked: Callable[[], object]) -> Name | None:
    """The name of a graph of TorchDynamo's. To be called before the graph is compiled, which changes it. None: it has
    none, so nothing of it is kept.
    """
    try:
        described, wanted = [_described(value) for value in inputs], (asked(), torch.__version__)
        text = repr((graph.print_readable(False), described, wanted))
        return Name(hashlib.sha256(text.encode()).hexdigest(), repr((function_of(graph.graph.nodes), wanted)))
    except Exception as fault:  # what cannot be named is compiled all the same
        log.debug("echo: a graph has no name", exc_info=fault)
        return None


def keep(name: Name | None, report: Report | None) -> None:
    """Keeps what became of a graph; None: it has no backward half. Without a file nothing is lost but a line of a
    table.
    """
    if name is None:
        return
    told = None
    if report is not None:
        _of_function[name.function] = report
        told = {kept: getattr(report, kept) for kept in KEPT} | {"live": [asdict(each) for each in report.live]}
    with contextlib.suppress(OSError, TypeError):
        file = _file(name.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as written:
            json.dump(told, written)
        os.replace(written.name, file)


def recall(name: Name | None) -> None:
    """Adds a report of a graph that was not partitioned, since its halves were known, if it has a backward one."""
    report = Report(cached=True, notes=[CACHED])
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        told = json.loads(_file(name.key if name else "").read_text())
        if told is None:
            return
        live = [Live(**each) for each in told["live"]]
        for kept in KEPT:
            setattr(report, kept, told[kept])
        report.live = live
    known = _of_function.get(name.function) if name else None
    if report.default_peak is None and report.reason is None and known is not None:
        report = replace(known, cached=True, notes=[OF_OTHER_SIZES], seconds={}, measured=0)
    if report.default_peak is None and report.reason is None:
        report.reason, report.is_needless = CACHED + ", of which nothing is known", True
    reports.add(report)
    say.begin(report)


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    lies = tuple(value.shape), value.stride() if value.layout == torch.strided else None
    return f"{lies} {value.dtype} {value.device} {value.requires_grad}"


def _file(key: str) -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "echo" / f"{key}.json"
