"""A training step as a whole: which part of its time and of what it keeps lies in graphs of Echo's, and its peak with
all that lives beside them.
"""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

MUCH = 0.1  # of a step's time or of what it keeps: from here on what lies outside is worth a warning
BADLY = 1.5  # times what the graphs took: costs that add up to more are measured again
LITTLE = 1e6  # bytes: nobody runs out of memory by less


class HalfPeaks(NamedTuple):
    """Bytes of one graph above its inputs, replayed."""

    forward: int  # peak of the forward half
    kept: int  # from the forward half for the backward half
    backward: int  # peak of the backward half, with the gradients that it is handed
    end: int  # left when the backward half ends: gradients and outputs


@dataclass(frozen=True)
class Outside:
    """A part of the model that no graph of Echo's holds, or a place at which a step falls into several graphs."""

    module: str  # "encoder (TransformerEncoder)"; empty: no parameter stands there
    reason: str
    where: str = ""  # file and line of the user's code
    cure: str | None = None
    parameters: int = 0  # numbers that are trained there

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        head = f"{self.module} is in no graph: " if self.module else ""
        return f"{head}{self.reason}{place}" + (f"; {self.cure}" if self.cure else "")


@dataclass
class Step:
    """One step, from its first compiled graph to the end of its backward pass. Bytes."""

    graphs: int
    planned: int  # graphs that run by a plan of Echo's
    seconds: float = 0.0  # of processor time, or of the device's; the optimizer's are not among them
    inside_time: float = 0.0  # part of them that the graphs take
    planned_seconds: float = 0.0  # that the graphs should take, by the costs of their operators
    outside: list[Outside] = field(default_factory=list)
    saved_inside: int = 0  # that its graphs keep for their backward halves
    saved_outside: int = 0  # that autograd keeps beside them
    gradients: int = 0  # of parameters, there when the step begins: gradients are accumulated
    copies: int = 0  # the largest copy of a gradient that autograd makes when it accumulates it
    default_peak: int | None = None  # the largest of the graphs' peaks, by PyTorch's default partition
    peak: int | None = None
    default_in_all: int | None = None  # with all that lives beside the graph that runs
    peak_in_all: int | None = None
    exact: bool = True  # the allocator was asked, and nothing runs behind the last graph but sums

    @property
    def outside_time(self) -> float:
        return 1.0 - self.inside_time

    @property
    def saved_part_outside(self) -> float:
        return self.saved_outside / ((self.saved_inside + self.saved_outside) or 1)

    @property
    def needs_a_word(self) -> bool:
        """Whether the user should know, and can do something about it: what lies outside is much of the step, or breaks
        leave graphs in which nothing can be planned.
        """
        trained = self.outside_time > MUCH and any(part.parameters for part in self.outside)
        beside = self.saved_outside > LITTLE and (trained or self.saved_part_outside > MUCH)
        cut = self.saved_inside > LITTLE and self.graphs > 1 and not self.planned
        return bool(self.outside) and (beside or cut)

    @property
    def contradicts_costs(self) -> bool:
        """Whether the graphs took so much less than the sum of their operators that these were measured badly, as on a
        machine that had other work.
        """
        return self.planned_seconds > BADLY * self.inside_time * self.seconds

    def take(self, other: Step) -> None:
        """Joins what was seen when the same graphs ran once more: the quicker run, and the larger need."""
        if other.seconds < self.seconds:
            self.seconds, self.inside_time = other.seconds, other.inside_time
        if (other.peak_in_all or 0) > (self.peak_in_all or 0):
            self.default_in_all, self.peak_in_all, self.exact = other.default_in_all, other.peak_in_all, other.exact
        self.gradients, self.copies = max(self.gradients, other.gradients), max(self.copies, other.copies)

    def __str__(self) -> str:
        said = []
        if self.default_peak is not None and self.peak is not None:
            said.append(f"{_mb(self.default_peak)} -> {_mb(self.peak)} MB of activations")
        if self.default_in_all is not None and self.peak_in_all is not None:
            about = "" if self.exact else "about "
            said.append(f"{about}{_mb(self.default_in_all)} -> {_mb(self.peak_in_all)} MB in all")
        said.append(f"{self.planned} of {self.graphs} graph{'s' * (self.graphs > 1)} planned")
        if self.outside:
            said.append(
                f"{100 * self.outside_time:.0f} % of the step's time and {_mb(self.saved_outside)} of "
                f"{_mb(self.saved_inside + self.saved_outside)} MB kept for the backward pass are outside of them"
            )
        return ", ".join(said)

    def table(self) -> str:
        """The same with a line for every part that is outside."""
        return "\n".join([str(self), *(f"  {part}" for part in self.outside)])


def halves_of(
    core: Any, calls: Sequence[Any], handed: Sequence[Any], order: Sequence[int], plan: Any = None
) -> HalfPeaks | None:
    """The peaks of both halves of a graph whose calls run in that order, that of a plan if there is one; `handed` are
    the nodes of the gradients that its backward half gets. None: there is no telling.
    """
    try:
        boundary = next(at for at, call in enumerate(order) if calls[call].phase == "backward")
        given = [at for at, call in enumerate(calls) if call.node in handed]
        return HalfPeaks(*core.halves(list(order) if plan is None else plan, boundary, given))
    except (AttributeError, RuntimeError, StopIteration, TypeError):  # an extension that is older
        return None


def _mb(amount: int) -> str:
    return f"{amount / 1e6:,.0f}" if amount >= 10e6 else f"{amount / 1e6:.1f}"


# ---- Peaks with all that lives beside a graph


class Edge(NamedTuple):
    """A half begins: its graph, the bytes there then above those at the step's begin (None: not counted), and those of
    the gradients that it is handed.
    """

    graph: int
    forward: bool
    there: int | None
    handed: int = 0


Peaks = Sequence[HalfPeaks]  # by graph


def peak_in_all(edges: Iterable[Edge], runs: Peaks, other: Peaks, gradients: int, copies: int) -> int:
    """The largest sum of what a half needs and of what lives beside it. `runs` are the peaks of the graphs as they run;
    `other` those for which it is asked. `gradients` live from the step's begin on.

    What was counted at an edge, less what the graphs that run keep there, is what others hold: it is the same whatever
    the partition. Where nothing was counted, that is what the halves before have left.
    """
    open_graphs: Counter[int] = Counter()
    peak = left = 0
    for graph, forward, there, handed in edges:
        kept = sum(runs[g].kept * n for g, n in open_graphs.items())
        beside = gradients + (left if there is None else there - handed - kept)
        if not forward:
            open_graphs[graph] -= 1
        beside += sum(other[g].kept * n for g, n in open_graphs.items())
        peak = max(peak, beside + (other[graph].forward if forward else other[graph].backward))
        if forward:
            open_graphs[graph] += 1
        else:
            left += 0 if gradients else other[graph].end
            peak = max(peak, beside + other[graph].end + copies)
    return peak


class _Malloc(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def _c_library() -> Callable[[], int] | None:
    """The bytes that this process holds of the C library's allocator; None: it does not say, or another serves."""
    try:
        told = ctypes.CDLL(None).mallinfo2
        told.restype = _Malloc

        def there() -> int:
            now = told()
            return int(now.uordblks + now.hblkhd)

        before = there()
        probe = torch.empty(1 << 20, dtype=torch.uint8, device="cpu")
        counts = (1 << 20) <= there() - before < (1 << 21)
        del probe
        return there if counts else None
    except (AttributeError, OSError, TypeError):
        return None


_malloc = functools.cache(_c_library)


def bytes_there(device: torch.device) -> int | None:
    """What the device's allocator has handed out; None: it does not say."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    return there() if device.type == "cpu" and (there := _malloc()) is not None else None
