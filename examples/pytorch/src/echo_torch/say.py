"""What Echo says while it works: by `logging.getLogger("echo_torch")`, and by warnings for what a user can change.

INFO has one line for each step that was compiled, and what takes longer than two seconds. It is shown on a terminal
where a program has set up no logging of its own. DEBUG also has what there was nothing to gain from.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from echo_torch.report import Report

log = logging.getLogger("echo_torch")
SILENT_SECONDS = 2.0  # before anything is said of what takes long
LOGGED_EVERY_SECONDS = 10.0  # where no terminal shows it
TOO_LONG = "planning took longer than it may: allow it more time by seconds="


class EchoWarning(UserWarning):
    """PyTorch's default partition is used, or a budget is not met; the text says why, and what to do."""


def size(count: int) -> str:
    """So many bytes, as text."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def took_too_long(fault: Exception) -> bool:
    """Whether the planner gave up because its time was over."""
    return isinstance(fault, RuntimeError) and "took longer" in str(fault)


def fault_of_ours(fault: Exception) -> str:
    """A fault that nobody expects, and what to do."""
    return (
        f"a fault of Echo's own ({type(fault).__name__}): please report what "
        "logging.getLogger('echo_torch') says of it at DEBUG"
    )


@functools.cache
def warn_once(text: str) -> None:
    warnings.warn(text, EchoWarning, stacklevel=2)


class _Terminal(logging.StreamHandler[Any]):
    """Writes to the terminal as long as the program has no handler of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)


@functools.cache
def show_on_terminal() -> None:
    """Shows INFO on a terminal where the program has set up no logging; of several ranks the first one's."""
    is_first_rank = os.environ.get("RANK", "0") == "0"
    if is_first_rank and _is_terminal() and log.level == logging.NOTSET and not log.hasHandlers():
        log.setLevel(logging.INFO)
        log.addHandler(_Terminal(sys.stderr))


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class Busy:
    """Says what goes on, and how far it is, from the second second on."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self.begun = self.said = time.monotonic()
        self.over = threading.Event()

    def __str__(self) -> str:
        counted = "" if self.total is None else f" {self.done:,} of {self.total:,}"
        return f"echo: {self.what}{counted}, {time.monotonic() - self.begun:.0f} s"

    def watch(self) -> None:
        """Runs in a thread of its own until it is over."""
        shows = _is_terminal() and any(isinstance(handler, _Terminal) for handler in log.handlers)
        wait = SILENT_SECONDS
        while not self.over.wait(wait):
            wait = 0.5 if shows else LOGGED_EVERY_SECONDS
            if shows:
                print(f"\r{self}\033[K", end="", file=sys.stderr, flush=True)
            else:
                log.info("%s", self)
        if shows and wait != SILENT_SECONDS:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def busy(what: str, total: int | None = None) -> Iterator[Busy]:
    """While it is open, `what` is said to go on; count its parts by `done`."""
    state = Busy(what, total)
    if not log.isEnabledFor(logging.INFO):
        yield state
        return
    thread = threading.Thread(target=state.watch, name="echo_torch.busy", daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.over.set()
        thread.join()


def summary(reports: Sequence[Report]) -> str:
    """One line on the graphs of a step."""
    planned = [report for report in reports if report.reason is None]
    parts = [f"echo: {len(planned)} of {len(reports)} graphs planned"]
    peaks = [(report.default_peak, report.peak) for report in planned if report.kept is None]
    kept = [(report.default_kept, report.kept) for report in planned if report.kept is not None]
    parts += [f"activations {_less(peaks)}"] if peaks else []
    parts += [f"what waits for the backward pass {_less(kept)}"] if kept else []
    parts += [_time(planned)] if planned else []
    if away := sum(report.offloaded_bytes for report in planned):
        parts.append(f"{size(away)} wait in the host's memory")
    replaced = sum(report.checkpoints for report in planned)
    if replaced:
        parts.append(f"{replaced} checkpointed regions planned anew")
    line = ", ".join(parts)
    seconds, measured = sum(r.seconds.get("measuring", 0.0) for r in reports), sum(r.measured for r in reports)
    return line + (f"; {seconds:.0f} s measuring {measured:,} operators, once" if measured else "")


def _less(sizes: Sequence[tuple[int | None, int | None]]) -> str:
    """Bytes by PyTorch's default partition and by Echo's plan, added up."""
    before, after = (sum(size or 0 for size in column) for column in zip(*sizes, strict=True))
    ratio = f"{before / after:.2f}x" if after else "to nothing"
    return f"{before / 1e6:,.1f} -> {after / 1e6:,.1f} MB ({ratio})"


def _time(planned: Sequence[Report]) -> str:
    whole = sum(report.time_us * (1 + report.default_overhead) for report in planned)
    more = sum(report.time_us * (1 + report.overhead) for report in planned)
    return f"{100 * (more / whole - 1):+.0f} % time" if whole else "time not known"


_untold: list[Report] = []  # reports of a step that is being compiled


def begin(report: Report) -> None:
    """A graph of a step is compiled."""
    _untold.append(report)


def tell() -> None:
    """All graphs of a step are compiled, since a backward half runs: says what became of them."""
    reports, _untold[:] = list(_untold), []
    if reports:
        show_on_terminal()
        level = logging.INFO if any(report.reason is None for report in reports) else logging.DEBUG
        log.log(level, "%s", summary(reports))
        for pattern in set.intersection(*(set(report.unmatched) for report in reports)):
            near = next(filter(None, (report.unmatched[pattern] for report in reports)), "")
            hint = f": did you mean {near!r}?" if near else ""
            warn_once(f"Echo: keep={pattern!r} names no module{hint}")


def forget() -> None:
    """Says nothing of what is being compiled."""
    _untold.clear()
