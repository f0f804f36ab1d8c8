"""The halves that run under Inductor: several plans are lowered as Inductor would, judged by the code that it
generates, and held against Inductor's default, which is a candidate like any other.
"""

from __future__ import annotations

import hashlib
import math
import traceback
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from echo_torch import between, costs, reuse, say
from echo_torch.agree import Agreement
from echo_torch.apart import keep_apart
from echo_torch.defaults import checkpoints_of
from echo_torch.graph import Call, Needless, Unknown, device_of
from echo_torch.halves import Builder, Halves
from echo_torch.host import Host
from echo_torch.judge import Judged, Kernel
from echo_torch.lowered import Step
from echo_torch.options import BudgetError, Options, part_of
from echo_torch.report import Live, Report, Watch
from echo_torch.say import TOO_LONG, fault_of_ours, log, size, took_too_long

TRIES = 3  # plans that are lowered; one more where none of them keeps to what is asked for
WELL_USED = 0.8  # a part of a budget, or of the time that is asked for, with which no other plan is tried
AIM = 0.9  # such a part that another plan is asked for: what it takes is not known before it is lowered
MODERATE = part_of("max_overhead", Options.max_overhead)
LEAST_GAIN = 0.98  # of the default, or of a plan to be bettered: what needs more is not worth its time
MOST_ASKED = 8  # plans of the view that did best: those that come again take little time
MOST_STEP = 2.5  # times what the last plan was asked for, for the next one
LOWERINGS = 10  # times as long as for a plan the ranks wait for one that lowers several
# What may run again: every operator, or only what Inductor fuses. A convolution in the backward half lets Inductor lay
# that half's tensors out otherwise.
EVERY, FUSED = range(2)


@dataclass(frozen=True)
class Asked:
    """What a plan is asked for."""

    view: int
    part: float  # of the budget, or of the time, that the user asks for
    # Bytes that the planner adds where the backward half begins: the larger, the less the plan keeps there.
    between: int
    after: Candidate | None = None  # that is to be bettered
    moderate: bool = False  # no budget, and no more time than who asks for nothing allows


@dataclass(eq=False)
class Candidate:
    """A plan, and what it takes under Inductor."""

    asked: Asked
    plan: Any
    halves: Halves
    judged: Judged


@dataclass
class View:
    """A graph as it is planned, and what its default partition takes by the planner's replay."""

    graph: Any
    peak: int
    recomputed: float
    time_us: float  # of a step, by what the planner is told


class Chooser:
    """Chooses the halves of one graph."""

    def __init__(
        self, host: Host, default: Halves, step: Step, options: Options, report: Report, static: Collection[int]
    ) -> None:
        self.host, self.default, self.step, self.options, self.report = host, default, step, options, report
        calls = (call for call in host.calls if call.phase != "input")
        self.device = next(map(device_of, (call.node for call in calls)), torch.device("cpu"))
        self.is_inner = not options.is_in_bytes and between.is_inner(host, static)
        self.others_follow = between.others_follow(host)
        self.alike = between.alike(host, static) if self.is_inner else between.Alike()
        self.asked = dict[Asked, Candidate | None]()  # and what became of it, in order
        self.ran = list[list[Kernel]]()  # of the default, and of what is chosen
        self.marked = host.replaces and checkpoints_of(host.joint) > 0

    def choose(self, watch: Watch, ranks: Agreement) -> tuple[Halves, str]:
        """The halves and the hash of all that the choice depends on. Needless: Inductor's default is as good."""
        report, host = self.report, self.host
        report.nodes = len(host.calls)
        self.order = host.order_of(self.default)
        if self.step.card is not None:
            self.step.card.fill(host)
        elif self.options.measure:
            report.costs = costs.fill(host, ranks.share)
            report.measured, report.notes = report.costs.new, report.costs.notes
        watch.lap("measuring")
        self.facts = host.facts(costs.alignment_of(host))
        found: list[Candidate] = []
        told = ranks.share(lambda: self._decide(found), "choice", LOWERINGS)
        report.ran = self.ran
        watch.lap("judging")
        report.default_peak, report.tried = told["default"], [(peak, part) for peak, part in told["tried"]]
        if told["reason"] is not None:
            raise (Needless if told["is_needless"] else Unknown)(told["reason"])
        steps = [
            (call, kind, [(step, output) for step, output in reads], over) for call, kind, reads, over in told["steps"]
        ]
        halves = next((each.halves for each in found if each.plan.steps == steps), None)
        if halves is None:  # another rank has judged it
            halves = self._built(steps)
        watch.lap("building")
        self._report(told)
        digest = host.digest(self.facts, self.order, self.options, host.is_dynamic, reuse.EVERYWHERE)
        return halves, hashlib.sha256(f"{digest} {steps}".encode()).hexdigest()

    def _decide(self, found: list[Candidate]) -> dict[str, Any]:
        """What is chosen, as JSON has it, so that all ranks choose the same. `found` takes what was judged."""
        default, limit = Judged(), None
        try:
            with say.busy("lowering candidates"):
                default = self._judged(self.default, self.order)
                self.ran.append(default.ran)
                self.report.libraries = sorted(default.operators)
                limit = self.options.bytes_of(self._needs(default))
                if self.marked:  # least time, in no more memory than the user's marks lead to
                    limit = min(self._needs(default), limit or self._needs(default))
                elif limit is not None and self._needs(default) <= limit:
                    raise Needless("it fits the budget by Inductor's own partition")
                self.limit, self.judged_default, self.views = limit, default, dict[tuple[int, int], View]()
                out: Unknown = Needless(f"no plan promises less than Inductor's default, {size(default.peak)}")
                for asked in self._asked(found):
                    try:
                        self._try(asked, found)
                    except Exception as fault:  # the next candidate may do
                        log.debug("echo: a candidate is out", exc_info=fault)
                        out = fault if isinstance(fault, Unknown) else Unknown(_said(fault))
                if not found:
                    raise out
            return self._chosen(found) | {"tried": self._figures(found)}
        except Exception as fault:
            log.debug("echo: no candidate", exc_info=fault)
            text = str(fault) if isinstance(fault, Unknown) else _why_not_judged(fault)
            fits = limit is None or self._needs(default) <= limit
            return {
                "reason": text,
                "is_needless": fits and isinstance(fault, Needless),
                "default": default.peak or None,
                "tried": self._figures(found),
            }

    def _try(self, asked: Asked, found: list[Candidate]) -> None:
        """Plans, lowers and judges, unless the plan is known. Needless: it keeps more than the default does between
        its halves, where other graphs of the step may run; or it makes that least, and needs more at its peak.
        """
        options, default = self.options, self.judged_default
        view = self._view(asked.view, asked.between)
        plan = view.graph.plan(options.strategy, *self._limits(asked), options.seconds, reuse.EVERYWHERE)
        same = next((each for each in self.asked.values() if each and each.plan.steps == plan.steps), None)
        if same is not None or not self._promises(plan, view, asked):
            self.asked[asked] = same
            return
        halves = self._built(plan.steps)
        made = Candidate(asked, plan, halves, self._judged(halves, [call for call, *_ in plan.steps]))
        self.asked[asked] = made
        judged = made.judged
        if self.others_follow and judged.kept > default.kept:
            kept = f"{size(judged.kept)} between its halves, and Inductor's default {size(default.kept)}"
            raise Needless(f"the plan keeps {kept}")
        if self.is_inner and self._over(judged) > 0:
            peak = f"{size(judged.peak)} at its peak, and Inductor's default {size(default.peak)}"
            raise Needless(f"the plan needs {peak}")
        found.append(made)

    def _built(self, steps: Any) -> Halves:
        halves = Builder(self.host, steps).build()
        for half in halves:
            keep_apart(half)
        return halves

    def _promises(self, plan: Any, view: View, asked: Asked) -> bool:
        """Whether a plan is worth a lowering, for what it promises beside the default, or beside the plan that it is to
        better. It always is where that one misses what is asked for, or where there is a budget.
        """
        last, extra = asked.after, asked.between
        if self.limit is not None or asked.moderate or (last is not None and self._used(last) > 1):
            return True
        most = view.peak if last is None else extra + LEAST_GAIN * (last.plan.peak_bytes - extra)
        return bool(plan.peak_bytes < most)

    def _needs(self, judged: Judged) -> int:
        """What is to be least: the bytes at the peak, or those that wait while other parts of the step run."""
        return judged.kept if self.is_inner else judged.peak

    def _over(self, judged: Judged) -> int:
        """The bytes that a part with others before and behind it needs at its peak beyond what it may."""
        default = self.judged_default
        return judged.peak - default.peak - self.alike.above(default.kept, judged.kept)

    def _judged(self, halves: Halves, order: Sequence[int]) -> Judged:
        """What halves take that run these calls. Kernels compute what each operator in them does, fused or not."""
        judged, calls, moving = self.step.judge(halves), self.host.calls, self.step.prices.moving_on(self.device)
        fused = [calls[index] for index in order if not _runs_alone(calls[index], judged)]
        judged.arithmetic_us = sum(costs.arithmetic_us(call, calls, moving) for call in fused)
        return judged

    # ---- What to plan

    def _view(self, kind: int, extra: int) -> View:
        """The graph in which this may run again, and so many bytes are added where the backward half begins."""
        if (kind, extra) not in self.views:
            host, default = self.host, self.judged_default
            facts = self._told(default)
            if kind == FUSED:
                facts = [
                    told | {"rerun": "never"} if _runs_alone(call, default) else told
                    for call, told in zip(host.calls, facts, strict=True)
                ]
            graph = host.core(between.with_bytes(facts, host.calls, extra))
            time_us = sum(told["time_us"] or 0.0 for told in facts)
            peak, recomputed, _ = graph.replay(self.order, writes_over=False)
            self.views[kind, extra] = View(graph, peak, recomputed, time_us)
        return self.views[kind, extra]

    def _told(self, default: Judged) -> list[dict[str, Any]]:
        """What the planner is told of each call. What is fused with what reads it moves no bytes of its own, wherever
        it runs again.
        """
        if self.step.card is None and not self.options.measure:
            return self.facts  # times of a device that is not this one, whose arithmetic is not known
        calls, moving = self.host.calls, self.step.prices.moving_on(self.device)
        return [
            told | {"time_us": costs.arithmetic_us(call, calls, moving)}
            if _is_pointwise(call) and not _runs_alone(call, default)
            else told
            for call, told in zip(calls, self.facts, strict=True)
        ]

    def _asked(self, found: list[Candidate]) -> Iterator[Asked]:
        """What to plan next."""
        views = yield from self._of_views(found)
        yield from self._bettered(found, views)
        best = min(found, key=self._rank, default=None)
        may_be_much = self.limit is not None or self.options.most_overhead > MODERATE
        if may_be_much and (best is None or self._overhead(best) > MODERATE):  # so much that runs again may fuse badly
            yield Asked(EVERY, 1.0, self._first_between(EVERY), moderate=True)

    def _of_views(self, found: list[Candidate]) -> Generator[Asked, None, int]:
        """Each view until a plan of it may run. The result: how many views."""
        default = self.judged_default
        views, convolves = 0, any("convolution" in name for name in default.operators)
        for kind in (EVERY, FUSED):
            if views and not convolves and any(self._needs(each.judged) < self._needs(default) for each in found):
                break  # what runs alone may run again without harm
            views += 1
            asked = first = Asked(kind, 1.0, self._first_between(kind))
            yield asked
            for _ in range(between.LOWER_PEAKS):
                made = self.asked.get(asked)
                if made is None or any(made is each for each in found):
                    break
                asked = replace(asked, between=self._better_between(asked, made))
                if asked in self.asked:
                    break
                yield asked
            if self.is_inner and self.limit is not None and self.asked.get(first) is not None:
                for _ in range(between.LOWER_PEAKS):
                    if any(each.asked.view == kind for each in found):
                        break
                    first = replace(first, part=first.part * WELL_USED)  # who keeps less may need less, too
                    yield first
        return views

    def _bettered(self, found: list[Candidate], views: int) -> Iterator[Asked]:
        """The view that did best again, with more or less asked of it by how far its plans were from what is wanted."""
        lowered = self._lowered() - views
        for _ in range(MOST_ASKED):
            best, before, tries = min(found, key=self._rank, default=None), len(found), self._lowered() - lowered
            if best is None or tries > TRIES or WELL_USED <= self._used(best) <= 1:
                return
            if tries == TRIES and self._used(best) < 1:
                return
            yield replace(best.asked, part=self._part(best.asked), after=best)
            if len(found) == before and self._used(best) <= 1:
                return

    def _lowered(self) -> int:
        """How many plans were lowered: one that came again was not."""
        return len({id(made) for made in self.asked.values() if made is not None})

    def _first_between(self, kind: int) -> int:
        """The bytes that are added where the backward half begins, in the first plan of a view."""
        if self.is_inner:
            return between.FAR_ABOVE * self.judged_default.peak
        return self._no_more_between(kind) if self.marked and self.others_follow else 0

    def _no_more_between(self, kind: int) -> int:
        """The bytes with which a plan that keeps more between its halves than the default has a higher peak, too."""
        far = between.FAR_ABOVE * self.judged_default.peak
        waiting = self._view(kind, far).peak - far
        return max(self._view(kind, 0).peak - waiting, 0)

    def _better_between(self, asked: Asked, out: Candidate) -> int:
        """The bytes to add where the backward half begins, after a plan that keeps more there than the default, or
        needs more at its peak.
        """
        if not self.is_inner:
            return self._no_more_between(asked.view)
        if out.asked is not asked:  # the same plan again: by the replay its peak is none of the default's
            return asked.between // 2
        over, kept = self._over(out.judged), out.plan.peak_bytes - out.asked.between
        return between.fewer(asked.between, self._view(asked.view, 0).peak, kept, over)

    def _limits(self, asked: Asked) -> tuple[int | None, float]:
        """The bytes and the part of a step that the planner is given."""
        view, overhead = self._view(asked.view, asked.between), self.options.most_overhead
        default = self.judged_default
        if self.limit is None or asked.moderate:
            beside = default.microseconds / view.time_us if view.time_us else 1.0  # else no operator was timed
            return None, view.recomputed + (MODERATE if asked.moderate else asked.part * overhead) * beside
        part = asked.part * self.limit / self._needs(default)
        return asked.between + int(part * (view.peak - asked.between)), overhead

    def _part(self, asked: Asked) -> float:
        """The part to ask for next: the one that gives a plan which takes `AIM` of what is asked for, by the plans that
        took a little less and a little more.
        """
        alike = [each for each in self.asked if (each.view, each.between) == (asked.view, asked.between)]
        used = {each.part: self._used(made) for each in alike if (made := self.asked[each]) is not None}
        less = max(((u, part) for part, u in used.items() if u <= 1), default=(0.0, 0.0))
        more = min(((u, part) for part, u in used.items() if u > 1), default=None)
        if more is None:
            return less[1] * min(AIM / max(less[0], 1e-9), MOST_STEP)
        if self.limit is not None and less[1] == 0.0 and any(part < asked.part for part in used):
            return self._part_near(asked.part, used)
        if self.limit is None and less[1] == 0.0:
            return self._lower_part(used)
        return less[1] + (AIM - less[0]) * (more[1] - less[1]) / (more[0] - less[0])

    def _lower_part(self, used: dict[float, float]) -> float:
        """Where no plan keeps to the time: the part at which the line through the two that come nearest does. What is
        asked for falls by half at most, and where the same plan came again by that much.
        """
        (part, least), *others = sorted(used.items(), key=lambda each: (each[1], each[0]))
        if not others:
            return part * AIM / least
        above, more = others[0]
        steep = (more - least) / (above - part) if above != part else 0.0
        return max(part - (least - AIM) / steep if steep > 0 else 0.0, part / 2)

    def _part_near(self, best: float, used: dict[float, float]) -> float:
        """Where no plan keeps to the budget, and one that was asked for less takes no less than the best: a part in the
        wider gap beside the best. Recomputation that fuses badly takes memory itself.
        """
        assert self.limit is not None
        below = max(part for part in used if part < best)
        above = min((part for part in used if part > best), default=self._needs(self.judged_default) / self.limit)
        is_same = used[below] == used[best]  # then so is all between them
        return math.sqrt(best * (above if is_same or above / best > best / below else below))

    def _overhead(self, each: Candidate) -> float:
        before = self.judged_default.microseconds
        return each.judged.microseconds / before - 1 if before else 0.0

    def _used(self, each: Candidate) -> float:
        """The part of what was asked for that it takes: of the budget, or of the time."""
        if self.limit is not None:
            return self._needs(each.judged) / self.limit
        return self._overhead(each) / (self.options.most_overhead or 1e-9)

    def _rank(self, each: Candidate) -> tuple[bool, float]:
        """The least is the best: the least time within the budget, or the least memory within the time asked for; else
        what comes nearest.
        """
        needs, overhead, misses = self._needs(each.judged), self._overhead(each), self._used(each) > 1
        return misses, (overhead if (self.limit is None) == misses else needs)

    # ---- What is chosen

    def _chosen(self, found: list[Candidate]) -> dict[str, Any]:
        best, default = min(found, key=self._rank), self.judged_default
        needs, default_needs = self._needs(best.judged), self._needs(default)
        in_time = self.limit is not None or self._used(best) <= 1
        is_faster = self._overhead(best) < 0
        pays = needs < (default_needs if self.limit is not None or is_faster else LEAST_GAIN * default_needs)
        if not in_time or not (pays or (self.marked and is_faster and needs == default_needs)):
            least, within = min(self._needs(each.judged) for each in found), " within the time that is asked for"
            raise Needless(
                f"Inductor's default {'keeps' if self.is_inner else 'needs'} {size(default_needs)}, and Echo "
                f"found nothing below{within if self.limit is None else ''}: {size(least)}"
            )
        self.ran.append(best.judged.ran)
        return {
            "reason": None,
            "steps": best.plan.steps,
            "recomputed": best.plan.recomputed_nodes,
            "default": default.peak,
            "peak": best.judged.peak,
            "kept": [default.kept, best.judged.kept] if self.is_inner else [None, None],
            "times": [default.microseconds, best.judged.microseconds],
            "notes": best.judged.notes,
            "kernel": best.judged.at,
            "live": [astuple(each) for each in best.judged.live],
        }

    def _figures(self, found: list[Candidate]) -> list[tuple[int, float]]:
        return [(each.judged.peak, self._overhead(each)) for each in found]

    def _report(self, told: dict[str, Any]) -> None:
        report = self.report
        report.peak, report.kernel, report.recomputed = told["peak"], told["kernel"], told["recomputed"]
        report.live = [Live(*each) for each in told["live"]]
        before, after = told["times"]
        report.time_us, report.overhead = before, after / before - 1 if before else 0.0
        report.notes += [note for note in told["notes"] if note not in report.notes]
        report.default_kept, report.kept = told["kept"]
        default, found = told["kept"] if self.is_inner else (told["default"], told["peak"])
        limit = self.options.bytes_of(default)
        if limit is not None and found > limit:
            what = "that is kept between the halves" if self.is_inner else "peak found"
            text = f"a budget of {size(limit)} cannot be met under Inductor: the least {what} is {size(found)}"
            if self.options.strict:
                raise BudgetError(text)
            say.warn_once("Echo: " + text)


def _said(fault: Exception) -> str:
    """Why there is no candidate."""
    return TOO_LONG if took_too_long(fault) else "Inductor lowers no plan of it"


def _why_not_judged(fault: Exception) -> str:
    """Why Inductor's default is not judged."""
    frames = traceback.extract_tb(fault.__traceback__)
    if any("_inductor" in Path(frame.filename).parts for frame in frames):
        return f"Inductor cannot lower it ({type(fault).__name__})"
    return fault_of_ours(fault)


def _runs_alone(call: Call, judged: Judged) -> bool:
    """Whether Inductor fuses it with nothing."""
    return call.kind == "heavy" or str(getattr(call.node.target, "overloadpacket", "")) in judged.operators


def _is_pointwise(call: Call) -> bool:
    """Whether it computes each element by itself, so that Inductor fuses it with what reads it."""
    return torch.Tag.pointwise in getattr(call.node.target, "tags", ())
