"""What became of the graphs that were compiled: for a person as a table, for a program as objects."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from echo_torch.steps import HalfPeaks, Step

MOST_REPORTS = 4096  # that a process keeps, the newest
MOST_STEPS = 64
MOST_NAME = 60  # characters of a kernel's name in a table


@dataclass(frozen=True)
class Live:
    """A storage that is there at the peak."""

    bytes: int
    buffer: str  # as the generated code calls it; "(scratch)" is what an operator takes while it runs
    origin: str  # the kernel or operator that makes it, whose name tells what is fused in it
    module: str  # the path of the module that it belongs to; empty: not known


@dataclass
class Report:
    """What became of one graph. Bytes are the peak of a step above parameters and inputs, replayed exactly."""

    default_peak: int | None = None  # by PyTorch's default partition
    peak: int | None = None  # by Echo's plan
    bound: int | None = None  # no plan of this kind needs less
    overhead: float = 0.0  # part of a step's time that recomputation and waits take; that of the default likewise
    default_overhead: float = 0.0
    recomputed: int = 0  # operators
    link: Any = None  # to the host's memory, as it was planned with: see `link.Link`
    offloaded: int = 0  # values that wait in the host's memory, and their bytes
    offloaded_bytes: int = 0
    host_bytes: int = 0  # that are taken there at most at a time
    stall: float = 0.0  # part of a step's time that it waits for copies to the host and back
    nodes: int = 0
    default_halves: HalfPeaks | None = None  # of PyTorch's default partition, by half
    halves: HalfPeaks | None = None  # of the plan
    cached: bool = False  # the plan was known from the same graph
    reason: str | None = None  # why PyTorch's default partition runs
    is_needless: bool = False  # it runs because there is nothing to gain, not because of a fault
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of PyTorch's partitioner, measuring, planning, building
    where: str = ""  # the function that was compiled, and where it stands
    time_us: float = 0.0  # of one step's operators, without recomputation
    measured: int = 0  # operators that were timed for this graph
    costs: Any = field(default=None, repr=False)  # those of its operators: see `costs.Filled`
    checkpoints: int = 0  # regions of `torch.utils.checkpoint` that were planned like all else
    kernel: str = ""  # under Inductor: the kernel that runs at the peak, and what is there then, the largest first
    live: list[Live] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)  # under Inductor: operators that run by themselves
    # Of a graph before which other parts of the step run: bytes that wait between its halves, by PyTorch's default
    # partition and by Echo's plan, which makes them least.
    default_kept: int | None = None
    kept: int | None = None
    unmatched: dict[str, str] = field(default_factory=dict)  # patterns of `keep` without a module, and the nearest path
    # Of an estimate under Inductor: the kernels of its default, and of the plan where that runs: see `judge.Kernel`.
    ran: list[list[Any]] = field(default_factory=list, repr=False)
    tried: list[tuple[int, float]] = field(default_factory=list)  # under Inductor: peak and overhead of each plan

    def take(self, plan: Any) -> None:
        """Takes over the figures of a plan."""
        self.peak, self.bound, self.recomputed = plan.peak_bytes, plan.lower_bound_bytes, plan.recomputed_nodes
        self.overhead, self.stall = plan.overhead + plan.stall, plan.stall
        self.offloaded, self.offloaded_bytes = plan.offloaded_values, plan.offloaded_bytes
        self.host_bytes, self.notes = plan.host_bytes, self.notes + plan.notes
        if self.offloaded:
            part = f", for which a step waits {100 * self.stall:.1f} % of its time" if self.stall else ""
            self.notes.append(
                f"{self.offloaded:,} values of {self.offloaded_bytes / 1e6:,.1f} MB wait in the host's memory, which "
                f"takes {self.host_bytes / 1e6:,.1f} MB there at most{part}"
            )

    @property
    def slowdown(self) -> float:
        """Time of a step beside that of PyTorch's default partition, as planned: 1.05 is 5 % more."""
        return (1 + self.overhead) / (1 + self.default_overhead) if self.reason is None else 1.0

    def at_peak(self) -> str:
        """A table of what is there at the peak, as Inductor's code names it."""
        if not self.live:
            return "what lives at the peak is known under Inductor alone"
        rows = [("MB", "module", "made by", "buffer")]
        rows += [(f"{each.bytes / 1e6:,.2f}", each.module or "-", _cut(each.origin), each.buffer) for each in self.live]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{mb:>{widths[0]}}  {module:{widths[1]}}  {of:{widths[2]}}  {name}" for mb, module, of, name in rows]
        return "\n".join([f"the peak is at {self.kernel or 'a gradient, which autograd copies'}", *lines])

    @property
    def best_peak(self) -> int | None:
        """The peak of what runs: Echo's plan, or PyTorch's default partition."""
        return self.peak if self.reason is None else self.default_peak


class Reports(list[Report]):
    """The reports of this process in the order of compilation, the newest of them, and the `steps` that were seen
    whole. `print` shows both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: deque[Step] = deque(maxlen=MOST_STEPS)

    def add(self, report: Report) -> None:
        """Takes one more; the oldest goes where there are too many."""
        self.append(report)
        del self[:-MOST_REPORTS]

    def __str__(self) -> str:
        if not self:
            return "no graph was compiled for training yet"
        rows: list[tuple[str, ...]] = [
            ("graph", "operators", "default MB", "Echo MB", "ratio", "time", "recomputed", "")
        ]
        rows += [_row(report) for report in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(_aligned(k, cell, widths[k]) for k, cell in enumerate(row)).rstrip() for row in rows]
        return "\n".join([*lines, *(f"a whole step: {step.table()}" for step in self.steps)])


def _cut(name: str) -> str:
    return name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + "…"


def _aligned(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column in (0, 7) else cell.rjust(width)


def _row(report: Report) -> tuple[str, ...]:
    def mb(amount: int | None) -> str:
        return "-" if amount is None else f"{amount / 1e6:,.1f}"

    name, nodes = report.where or "-", f"{report.nodes:,}"
    if report.reason is not None or not report.peak or not report.default_peak:
        return name, nodes, mb(report.default_peak), "-", "-", "-", "-", f"PyTorch's default: {report.reason}"
    ratio, more = f"{report.default_peak / report.peak:.2f}x", f"{report.slowdown:.2f}x"
    notes = [*report.notes]
    if report.kept is not None:
        notes.append(f"keeps {mb(report.default_kept)} -> {mb(report.kept)} MB between its halves")
    return (
        name,
        nodes,
        mb(report.default_peak),
        mb(report.peak),
        ratio,
        more,
        f"{report.recomputed:,}",
        "; ".join(notes),
    )


class Watch:
    """Tells where the seconds of a report went."""

    def __init__(self, report: Report) -> None:
        self.report, self.since = report, time.perf_counter()

    def lap(self, name: str) -> None:
        before, self.since = self.since, time.perf_counter()
        self.report.seconds[name] = self.since - before
