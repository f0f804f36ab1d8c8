# SPDX-License-Identifier: BSL-1.0
"""Runs one training script in this process: measuring.py peaks NAME BACKEND [FILE] | measuring.py turns NAME BACKEND

`peaks` prints, as JSON, digests of what the script returns, the peak of each step by the CPU allocator's own count, and what
Echo reports of its graphs; FILE takes what the script returns. `turns` waits for a line before each step and prints the
step's processor time after it, so that two processes can take turns. BACKEND "eager" compiles nothing. Inductor draws eager
mode's random numbers where its name ends in "+random".
"""
from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "pytorch"))

import torch  # noqa: E402
from all_scripts import SCRIPTS  # noqa: E402
from measure import digest, peak_of, profiled  # noqa: E402
from shared import Watch  # noqa: E402

LONGER = 4  # times as many epochs are trained where time is measured


class Compiling(Watch):
    """Knows of each step whether a graph was compiled in it."""

    def __init__(self) -> None:
        self.compiled: list[bool] = []

    def begin(self) -> None:
        self.graphs = self._graphs()

    def end(self) -> None:
        self.compiled.append(self._graphs() != self.graphs)

    @staticmethod
    def _graphs() -> int:
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


class Peaks(Compiling):
    """Counts what the allocator hands out in each step, beyond what was there when it began."""

    def __init__(self) -> None:
        super().__init__()
        self.peaks: list[int] = []
        self.graphs_run: list[int] = []  # in the backward pass of each step
        self.stack = contextlib.ExitStack()

    def begin(self) -> None:
        super().begin()
        # Not the first step, in which most is compiled: Echo cannot measure scratch memory while a profiler runs.
        self.profile = self.stack.enter_context(profiled()) if self.compiled else None

    def end(self) -> None:
        self.stack.close()
        super().end()
        self.peaks.append(peak_of(self.profile) if self.profile else 0)
        events = self.profile.profiler.kineto_results.events() if self.profile else []
        self.graphs_run.append([event.name() for event in events].count("CompiledFunctionBackward"))


class Turns(Compiling):
    """Waits for its turn before each step and tells how long it took."""

    def __init__(self, told: Any) -> None:
        super().__init__()
        self.told = told
        self.line = "ready"

    def epochs(self, usual: int) -> int:
        return usual * LONGER

    def begin(self) -> None:
        print(self.line, file=self.told, flush=True)
        sys.stdin.readline()
        super().begin()
        self.since = time.process_time()

    def end(self) -> None:
        seconds = time.process_time() - self.since
        super().end()
        self.line = f"{seconds} {int(self.compiled[-1])}"


def reports() -> list[Any]:
    import echo_torch

    return list(echo_torch.reports())


def told(report: Any) -> dict[str, Any]:
    keys = ("nodes", "default_peak", "best_peak", "slowdown", "time_us", "reason", "is_needless")
    return {key: getattr(report, key) for key in keys}


def main() -> None:
    kind, name, backend, *files = sys.argv[1:]
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the script prints is no result
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    backend, _, own = backend.partition("+")
    if backend in ("inductor", "echo"):
        torch._inductor.config.fallback_random = own == "random"
        torch.compile(torch.square)(torch.zeros(2))  # what a process does once
    watch = Peaks() if kind == "peaks" else Turns(result)
    found = SCRIPTS[name](None if backend == "eager" else backend, watch)
    if isinstance(watch, Peaks):
        made = {"digests": [digest(value) for value in found], "peaks": watch.peaks, "compiled": watch.compiled,
                "graphs_run": watch.graphs_run, "reports": [told(report) for report in reports()]}
        print(json.dumps(made), file=result)
        for file in files:
            torch.save(found, file)
    else:
        print(watch.line, file=result)


if __name__ == "__main__":
    main()
