"""The partition function: PyTorch's own partition is made first, and stays where Echo has nothing better."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from echo_torch import costs, hooks
from echo_torch.agree import Agreement
from echo_torch.graph import Needless, Unknown, gathers
from echo_torch.halves import Builder, Halves
from echo_torch.host import Host
from echo_torch.steps import HalfPeaks, halves_of

STRATEGIES = ("budget", "min_cut", "echo", "echo_printed", "mirror", "baseline")
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class EchoWarning(UserWarning):
    """PyTorch's own partition is used, or a budget is not met; the text says why."""


class BudgetError(RuntimeError):
    """With `strict=True`: the budget cannot be met."""


@dataclass(frozen=True)
class Options:
    """What a user may ask for; every default is the recommended choice.

    `budget`: what the peak above parameters and inputs should not exceed: bytes, "8GiB", or a ratio (0 to 1) of the
    peak of PyTorch's default partition. Without it the least peak is taken whose recomputation takes at most
    `max_overhead` of what a step's operators take, beyond what the default partition recomputes. `keep`: patterns of
    module paths whose values are not made again. `strict`: a budget that cannot be met is an error. `measure`: measure
    what operators cost on this device. `seconds`: how long planning one graph may take.
    """

    budget: int | float | str | None = None
    max_overhead: float = 0.07
    strategy: str = "budget"
    keep: tuple[str, ...] = ()
    strict: bool = False
    measure: bool = True
    seconds: float = 120.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", (self.keep,) if isinstance(self.keep, str) else tuple(self.keep))
        self.bytes_of(1)
        if not self.seconds > 0:
            raise ValueError(f"seconds {self.seconds} is no time to plan in: try 120")
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy '{self.strategy}' is none of {', '.join(STRATEGIES)}")
        if not 0 <= self.max_overhead < float("inf"):
            raise ValueError(f"max_overhead {self.max_overhead} is no part of a step: try 0.05")

    def bytes_of(self, default_peak: int) -> int | None:
        """The budget in bytes. ValueError: it is none."""
        budget = self.budget
        if isinstance(budget, str):
            found = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]i?)?B?\s*", budget)
            if not found:
                raise ValueError(f"budget '{budget}' is no size: give bytes, '8GiB', or a ratio such as 0.5")
            budget = int(float(found[1]) * UNITS[found[2] or ""])
        if budget is not None and not 0 < budget < float("inf"):
            raise ValueError(f"budget {self.budget} is no size above 0: give bytes, '8GiB' or 0.5")
        if isinstance(budget, float):
            return int(budget * default_peak) if budget <= 1 else int(budget)
        return budget


@dataclass
class Report:
    """What became of one graph. Bytes are a step's peak above parameters and inputs, replayed."""

    default_peak: int | None = None
    peak: int | None = None
    bound: int | None = None
    overhead: float = 0.0  # part of a step's time that runs again take; that of the default partition likewise
    default_overhead: float = 0.0
    recomputed: int = 0
    nodes: int = 0
    default_halves: HalfPeaks | None = None  # of PyTorch's default partition, by half
    halves: HalfPeaks | None = None  # of the plan
    cached: bool = False
    reason: str | None = None  # why PyTorch's own partition is used
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of PyTorch's partitioner, measuring, planning, building


reports: list[Report] = []  # of this process, in the order of compilation
_plans: dict[str, Any] = {}


@functools.cache
def warn_once(text: str) -> None:
    warnings.warn(text, EchoWarning, stacklevel=2)


class Watch:
    """Tells where the seconds of a report went."""

    def __init__(self, report: Report) -> None:
        self.report, self.since = report, time.perf_counter()

    def lap(self, name: str) -> None:
        before, self.since = self.since, time.perf_counter()
        self.report.seconds[name] = self.since - before


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within it Python looks for no cycles. Reading and building make many objects and drop few, and each search for
    cycles would walk through all that tracing has left.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def default_partition(joint: fx.GraphModule, inputs: Any, **more: Any) -> Halves:
    """PyTorch's own halves. It cleans the joint graph up, and marks what is gathered to be kept: that mark alone is
    taken off again, where it was not the user's.
    """
    marked = {node.name for node in joint.graph.nodes if "recompute" in node.meta}
    with hooks.functorch_config.patch(activation_memory_budget=1.0):
        halves = hooks.default_partitioner(joint, inputs, **more)
    for node in joint.graph.nodes:
        if gathers(node) and node.name not in marked:
            node.meta.pop("recompute", None)
    return halves


def partition(
    joint: fx.GraphModule,
    joint_inputs: Any,
    *,
    options: Options,
    num_fwd_outputs: int,
    inductor: bool = False,
    distrust: str | None = None,
    **more: Any,
) -> Halves:
    """A `partition_fn` of AOTAutograd: the forward and the backward half of a joint graph."""
    report = Report()
    reports.append(report)
    watch = Watch(report)
    default = default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
    watch.lap("pytorch")
    halves = digest = ranks = None
    needless = False
    try:
        ranks = Agreement()
        if distrust:
            raise Unknown(distrust)
        traced = inductor or hooks.dynamo_config.compiled_autograd
        with uncollected():
            host = Host(joint, num_fwd_outputs, traced=traced, keep=options.keep)
        watch.lap("reading")
        plan, digest = plan_for(host, default, options, report, watch, ranks)
        with uncollected():
            halves = Builder(host, plan.steps).build()
        watch.lap("building")
    except BudgetError:
        _agree(ranks, None)
        raise
    except Exception as fault:  # a fault of ours never stops training
        report.reason, needless = said(fault), isinstance(fault, Needless)
    if not _agree(ranks, digest if halves else None) and report.reason is None:
        report.reason = "the ranks compile different graphs, or not all of them have a plan in time"
    if report.reason is None and halves is not None:
        return halves
    limit = options.bytes_of(report.default_peak) if report.default_peak else None
    fits = needless or (limit is not None and report.default_peak <= limit)
    if options.strict and options.budget is not None and not fits:
        raise BudgetError(f"the budget is not met by PyTorch's own partition: {report.reason}")
    if not fits:
        warn_once(f"Echo leaves a graph to PyTorch's own partition: {report.reason}")
    return default


def said(fault: Exception) -> str:
    """Why there is no plan: what is not known, or a fault of ours with its kind."""
    return str(fault) if isinstance(fault, Unknown) else f"{type(fault).__name__}: {fault}"


def _agree(ranks: Agreement | None, digest: str | None) -> bool:
    """What the ranks settle; a fault on the way is a no, and stops nobody's training."""
    try:
        return ranks is not None and ranks.on(digest)
    except Exception:
        return False


def plan_for(
    host: Host, default: Halves, options: Options, report: Report, watch: Watch, ranks: Agreement
) -> tuple[Any, str]:
    """The plan of a host and the hash of all it depends on. Unknown: nothing below the default partition's replayed
    peak was found.
    """
    report.nodes = len(host.calls)
    order = host.order_of(default)
    if options.measure:
        costs.fill(host, ranks.share)
    watch.lap("measuring")
    with uncollected():
        facts = host.facts(costs.alignment_of(host))
        graph = host.core(facts)
        report.default_peak, report.default_overhead, _ = graph.replay(order, writes_over=False)
        report.default_halves = halves_of(graph, host.calls, host.tangents, order, plan=False)
        key = host.digest(facts, order, options)
    report.cached = key in _plans
    if not report.cached:
        budget = options.bytes_of(report.default_peak)
        if budget is not None and report.default_peak <= budget:
            raise Needless("it fits the budget by PyTorch's own partition")
        # What the default partition makes again is no overhead of ours.
        allowed = options.max_overhead + report.default_overhead
        try:
            _plans[key] = graph.plan(options.strategy, budget, allowed, options.seconds)
        except RuntimeError as fault:  # such as too little time: it will not do better next time
            _plans[key] = Unknown(str(fault))
    plan = _plans[key]
    if isinstance(plan, Unknown):
        raise plan
    watch.lap("planning")
    report.halves = halves_of(graph, host.calls, host.tangents, [call for call, *_ in plan.steps], plan=True)
    report.peak, report.bound = plan.peak_bytes, plan.lower_bound_bytes
    report.overhead, report.recomputed, report.notes = plan.overhead, plan.recomputed_nodes, plan.notes
    _check_budget(options, report)
    if report.peak >= report.default_peak:
        is_least = report.bound >= report.default_peak
        raise Unknown(
            f"its default needs {report.default_peak / 1e6:.1f} MB, "
            f"and Echo found nothing below {report.peak / 1e6:.1f} MB"
            + (": no plan of this kind needs less" if is_least else "")
        )
    return plan, key


def _check_budget(options: Options, report: Report) -> None:
    budget = options.bytes_of(report.default_peak)
    if budget is None or report.peak <= budget:
        return
    text = (
        f"a budget of {budget / 1e6:.1f} MB cannot be met: the least peak found is "
        f"{report.peak / 1e6:.1f} MB, and none lies below {report.bound / 1e6:.1f} MB"
    )
    if options.strict:
        raise BudgetError(text)
    warn_once("Echo: " + text)
