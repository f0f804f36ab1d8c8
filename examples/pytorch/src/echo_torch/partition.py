"""The partition function: PyTorch's own partition is made first, and stays where Echo has nothing better."""

from __future__ import annotations

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import fx

from echo_torch import between, costs, hooks, reuse, say
from echo_torch.agree import Agreement
from echo_torch.chosen import Chooser
from echo_torch.defaults import checkpoints_of, lent_inputs
from echo_torch.graph import Needless, Unknown, gathers, number
from echo_torch.halves import Builder, Halves
from echo_torch.host import Host
from echo_torch.link import link_of
from echo_torch.lowered import Step
from echo_torch.options import BudgetError, OptionError, Options
from echo_torch.report import Report, Reports, Watch
from echo_torch.say import TOO_LONG, EchoWarning, fault_of_ours, log, size, took_too_long, warn_once
from echo_torch.steps import HalfPeaks, halves_of
from echo_torch.where import function_of

__all__ = ["BudgetError", "EchoWarning", "Options", "Report", "partition", "reports", "warn_once"]
MOST_PLANS = 256  # that a process keeps, those that were used last
LARGER = 2  # times a size that a plan was made for: from there on it is made anew

reports = Reports()
_plans: OrderedDict[str, Any] = OrderedDict()


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
    halves: Halves = hooks.default_partitioner(joint, inputs, **more)
    for node in joint.graph.nodes:
        if gathers(node) and node.name not in marked:
            node.meta.pop("recompute", None)
    return halves


def partition(joint: fx.GraphModule, joint_inputs: Any, **more: Any) -> Halves:
    """A `partition_fn` of AOTAutograd: the forward and the backward half of a joint graph. What becomes of it is one of
    the `reports`. Arguments: as `halves_of_joint`.
    """
    report = Report()
    reports.add(report)
    say.begin(report)
    halves = halves_of_joint(report, joint, joint_inputs, **more)
    report.ran.clear()  # of thousands of reports that would be much
    return halves


def halves_of_joint(
    report: Report,
    joint: fx.GraphModule,
    joint_inputs: Any,
    *,
    options: Options,
    num_fwd_outputs: int,
    lowered_as: Callable[..., Step] | None = None,
    distrust: str | None = None,
    names: Sequence[str] = (),
    **more: Any,
) -> Halves:
    """The forward and the backward half of a joint graph; the report takes what became of it. `names`: how the user's
    code calls its inputs. `lowered_as`: what says how a compiler lowers halves; else operators run one by one.
    """
    watch = Watch(report)
    default = default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more)
    watch.lap("pytorch")
    halves = digest = ranks = None
    try:
        report.where = function_of(joint.graph.nodes)
        ranks = Agreement()
        if distrust:
            raise Unknown(distrust)
        traced = lowered_as is not None or hooks.dynamo_config.compiled_autograd
        static = static_inputs(joint, joint_inputs, more)
        lent = lent_inputs(joint, default[1], static)
        with uncollected():
            host = Host(
                joint,
                num_fwd_outputs,
                traced=traced,
                keep=options.keep,
                replaces=_replaces(joint, options),
                lent=lent,
                names=names,
            )
        report.unmatched = host.unmatched
        watch.lap("reading")
        if lowered_as is None:
            plan, digest = plan_for(host, default, options, report, watch, ranks, static)
            with uncollected():
                halves = Builder(host, plan.steps).build()
            watch.lap("building")
        else:
            step = lowered_as(joint, joint_inputs, num_fwd_outputs, more)
            halves, digest = Chooser(host, default, step, options, report, static).choose(watch, ranks)
    except (BudgetError, OptionError) as refused:
        agreed(ranks, None)
        report.reason = str(refused)
        say.forget()
        raise
    except Exception as fault:  # a fault of ours never stops training
        report.reason, report.is_needless = said(fault), isinstance(fault, Needless)
    if not agreed(ranks, digest if halves else None) and report.reason is None:
        report.reason = "the ranks compile different graphs, or not all of them have a plan in time"
    if report.reason is None and halves is not None:
        return halves
    _left(report, options)
    return default


def _left(report: Report, options: Options) -> None:
    """Says that a graph is left to PyTorch. BudgetError: that is not what was asked for."""
    default = report.default_peak or 0
    limit = options.bytes_of(default) if default else None
    fits = report.is_needless or (limit is not None and default <= limit)
    if options.strict and options.budget is not None and not fits:
        raise BudgetError(f"the budget is not met by PyTorch's own partition: {report.reason}")
    text = f"Echo leaves a graph to PyTorch's own partition: {report.reason}"
    if fits:
        log.debug("echo: %s: %s", report.where or "a graph", text)
    else:
        warn_once(text)


def _replaces(joint: fx.GraphModule, options: Options) -> bool:
    """Whether regions that the model marks by `torch.utils.checkpoint` are planned. Needless: they are to stay."""
    if options.checkpoints == "keep" and checkpoints_of(joint):
        raise Needless("it has checkpoints of yours, and checkpoints='keep'")
    return options.checkpoints == "replace"


def static_inputs(joint: fx.GraphModule, joint_inputs: Any, more: dict[str, Any]) -> Collection[int]:
    """The places of the parameters and buffers among the inputs: by AOTAutograd's own list, else by what it says of
    each.
    """
    places = set(more.get("static_lifetime_input_indices") or ())
    for at, node in enumerate(joint.graph.find_nodes(op="placeholder")):
        description = node.meta.get("desc")
        if any(getattr(description, kind, bool)() for kind in ("is_param", "is_buffer")):
            places.add(at)
    values = joint_inputs[0] if joint_inputs else ()
    places |= {at for at, value in enumerate(values) if isinstance(value, torch.nn.Parameter)}
    return places


def said(fault: Exception) -> str:
    """Why there is no plan: what is not known, or a fault of ours."""
    if isinstance(fault, Unknown):
        return str(fault)
    if isinstance(fault, dist.DistError):
        return "the first rank does not compile this graph, or not in time"
    log.debug("echo: a fault of its own", exc_info=fault)
    if took_too_long(fault):
        return TOO_LONG
    return fault_of_ours(fault)


def agreed(ranks: Agreement | None, digest: str | None) -> bool:
    """What the ranks settle; a fault on the way is a no, and stops nobody's training."""
    try:
        return ranks is not None and ranks.on(digest)
    except Exception:
        return False


def plan_for(
    host: Host,
    default: Halves,
    options: Options,
    report: Report,
    watch: Watch,
    ranks: Agreement,
    static: Collection[int] | None = None,
    only_plans: bool = False,
) -> tuple[Any, str]:
    """The plan of a host and the hash of all it depends on. `static`: the places of parameters and buffers among the
    inputs; None: the graph is a whole step. `only_plans`: it will not be carried out. Unknown: nothing better than the
    default partition was found.
    """
    report.nodes = len(host.calls)
    order = host.order_of(default)
    if options.measure:
        report.costs = costs.fill(host, ranks.share)
        report.measured, report.notes = report.costs.new, report.costs.notes
    report.link, said_of_link = link_of(host, options, ranks.share, only_plans)
    report.notes = report.notes + said_of_link
    watch.lap("measuring")
    with uncollected():
        facts = host.facts(costs.alignment_of(host))
        graph = host.core(facts)
        default_peak, report.default_overhead, _ = graph.replay(order, writes_over=False)
        report.time_us = sum(call.time_us or 0.0 for call in host.calls)
    report.default_peak = default_peak
    report.checkpoints = checkpoints_of(host.joint) if host.replaces else 0
    if options.is_in_bytes and host.is_dynamic:
        report.notes += _plan_larger_anew(host)
    report.default_halves = halves_of(graph, host.calls, host.tangents, order)
    wanted = _Wanted(host, facts, graph, order, options, report, default_peak)
    if static is not None and not options.is_in_bytes and report.default_halves is not None:
        wanted.is_inner, wanted.others_follow = between.is_inner(host, static), between.others_follow(host)
        wanted.alike = between.alike(host, static) if wanted.is_inner else between.Alike()
        wanted.default_kept = report.default_halves.kept
    key = wanted.key
    plan = _plan(key, wanted)
    watch.lap("planning")
    report.halves = wanted.halves(plan)
    report.take(plan)
    report.peak, *_ = graph.replay(plan)
    if report.peak != plan.peak_bytes:  # it was made for what waits between its halves
        report.bound = None
    _check(wanted, report.peak, report.halves.kept if report.halves else 0)
    return plan, key


@dataclass
class _Wanted:
    """What a plan is sought for."""

    host: Host
    facts: list[dict[str, Any]]
    graph: Any
    order: list[int]  # of the default
    options: Options
    report: Report
    default_peak: int
    default_kept: int = 0  # between its halves
    is_inner: bool = False  # what waits between the halves is to be least: see `between.py`
    alike: between.Alike = between.Alike()
    others_follow: bool = False  # no more may wait there than by default

    @property
    def key(self) -> str:
        of = self.order, self.options, self.host.is_dynamic, reuse.EVERYWHERE, self.report.link
        return self.host.digest(self.facts, *of, self.is_inner, self.alike, self.others_follow)

    def halves(self, plan: Any) -> HalfPeaks | None:
        """The peaks of both halves of a plan, and what waits between them."""
        return halves_of(self.graph, self.host.calls, self.host.tangents, [call for call, *_ in plan.steps], plan)

    def kept(self, plan: Any) -> int:
        """The bytes that wait between the halves of a plan."""
        halves = self.halves(plan)
        return halves.kept if halves else 0

    def over(self, peak: int, kept: int) -> int:
        """The bytes that such a plan needs at its peak beyond what it may."""
        return peak - self.default_peak - self.alike.above(self.default_kept, kept)

    def plan(self) -> Any:
        """The plan that is best. Needless: the default is."""
        if self.is_inner:
            return self._least_kept()
        budget = self.options.bytes_of(self.default_peak)
        plan = self._least(self.graph, self.default_peak, budget)
        halves = self.halves(plan)
        if not self.others_follow or halves is None or halves.kept <= self.default_kept:
            return plan
        # With so many bytes added, what keeps more between its halves than the default has too high a peak.
        far = between.FAR_ABOVE * self.default_peak
        waiting = self._with(far).replay(self.order, writes_over=False)[0] - far
        extra = max(min(self.default_peak, budget or self.default_peak) - waiting, 0)
        return self._least(self._with(extra), self.default_peak, budget)

    def _with(self, extra: int) -> Any:
        """The graph with so many bytes added where the backward half begins."""
        return self.host.core(between.with_bytes(self.facts, self.host.calls, extra))

    def _least_kept(self) -> Any:
        """The plan that keeps least between its halves, of those that need no more at their peak than the default."""
        extra, budget = between.FAR_ABOVE * self.default_peak, self.options.bytes_of(self.default_kept)
        for _ in range(1 + between.LOWER_PEAKS):
            view = self._with(extra)
            peak, *_ = view.replay(self.order, writes_over=False)
            plan = self._least(view, peak, None if budget is None else peak - self.default_kept + budget)
            over = self.over(self.graph.replay(plan)[0], self.kept(plan))
            if over <= 0:
                break
            extra = between.fewer(extra, self.default_peak, plan.peak_bytes - extra, over)
        return plan

    def _least(self, graph: Any, default: int, budget: int | None) -> Any:
        """The least peak within the time that recomputation may take, or the least time within the budget.

        Where the model marks checkpoints, memory matters more to the user than time: the plan needs at most what they
        lead to, and where that leaves a choice, takes the least time.
        """
        options, report = self.options, self.report

        def plan(budget: int | None, allowed: float) -> Any:
            return graph.plan(options.strategy, budget, allowed, options.seconds, reuse.EVERYWHERE, report.link)

        if report.checkpoints:
            found = plan(None, options.most_overhead) if budget is None else None
            return found if found and found.peak_bytes <= default else plan(min(default, budget or default), 0.0)
        if budget is not None and default <= budget:
            if not self.host.is_dynamic:
                raise Needless("it fits the budget by PyTorch's own partition")
            budget = None  # larger sizes will come
        # What the default partition recomputes is no overhead of ours.
        return plan(budget, options.most_overhead + report.default_overhead)


def _plan(key: str, wanted: _Wanted) -> Any:
    """The plan of that key, sought where it is not known. Unknown: there is none."""
    wanted.report.cached = key in _plans
    if not wanted.report.cached:
        try:
            with say.busy(f"planning a graph of {wanted.report.nodes:,} operators"):
                _plans[key] = wanted.plan()
        except Needless:
            raise
        except RuntimeError as fault:  # it will not do better next time
            log.debug("echo: no plan", exc_info=fault)
            if not took_too_long(fault):
                raise
            _plans[key] = Unknown(TOO_LONG)
        while len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    _plans.move_to_end(key)
    if isinstance(_plans[key], Unknown):
        raise _plans[key]
    return _plans[key]


def _check(wanted: _Wanted, peak: int, kept: int) -> None:
    """Says that a budget is not met by a plan which needs `peak` bytes, `kept` of them between its halves. BudgetError:
    it has to be. Needless: the default partition is as good: it needs as much and, beside checkpoints, no more time.
    """
    report, bound = wanted.report, wanted.report.bound
    needs, what, default, found = "needs", "peak", wanted.default_peak, peak
    if wanted.is_inner:
        needs, what, default, found = "keeps", "that is kept between the halves", wanted.default_kept, kept
        report.default_kept, report.kept = default, found
    check_budget(wanted.options, default, found, bound, what)
    is_faster = bool(report.checkpoints) and report.overhead < report.default_overhead
    is_above = wanted.over(peak, kept) > 0 or (wanted.others_follow and kept > wanted.default_kept)
    if is_above or found > default or (found == default and not is_faster):
        raise Needless(
            f"its default {needs} {size(default)}, and Echo found nothing below {size(found)}"
            + (": no plan of this kind needs less" if bound is not None and bound >= default else "")
        )


def _plan_larger_anew(host: Host) -> list[str]:
    """Lets TorchDynamo compile again where a size is more than twice what this plan is made for, by a guard: a budget
    in bytes is one for all sizes. Its limit of recompilations stands; then a note says so.
    """
    now = hooks.compile_id() if hooks.compile_id else None
    if now is None or now.frame_compile_id + 2 >= hooks.dynamo_config.recompile_limit:
        return ["larger sizes run by this plan: torch._dynamo.config.recompile_limit allows no other"]
    for node in host.placeholders:
        extent = node.meta.get("val")
        if isinstance(extent, torch.SymInt):
            bool(extent <= LARGER * max(number(extent), 1))
    return []


def check_budget(options: Options, default: int, found: int, bound: int | None, what: str = "peak") -> None:
    """Says that a budget is not met. BudgetError: it has to be. `default`, `found` and `bound` are bytes of `what`."""
    budget = options.bytes_of(default)
    if budget is None or found <= budget:
        return
    text = f"a budget of {size(budget)} cannot be met: the least {what} found is {size(found)}"
    text += f", and none lies below {size(bound)}" if bound is not None else ""
    if options.strict:
        raise BudgetError(text)
    warn_once("Echo: " + text)
