"""The halves that run under Inductor: several plans are lowered as Inductor would, judged by the code that it
generates, and held against Inductor's default, which is a candidate like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from echo_torch import costs, reuse, say
from echo_torch.agree import Agreement
from echo_torch.graph import Needless, Unknown
from echo_torch.halves import Builder, Halves
from echo_torch.host import Host
from echo_torch.judge import Judged
from echo_torch.lowered import Step
from echo_torch.options import BudgetError, Options
from echo_torch.report import Report, Watch
from echo_torch.say import log

TRIES = 3  # each corrects what became of the last one: fused, what runs again takes less time, and other memory
WELL_USED = 0.8  # a part of a budget, or of the time that is asked for, with which no other plan is tried
MOST_STEP = 2.5  # times the overhead of the last plan, for the next one
Asked = tuple[int | None, float]  # a budget in bytes, and the most overhead, of operators that run one by one


@dataclass
class Candidate:
    """A plan, and what it takes under Inductor."""

    asked: Asked
    judged: Judged
    halves: Halves | None = None  # on the rank that judged it


class Chooser:
    """Chooses the halves of one graph."""

    def __init__(self, host: Host, default: Halves, step: Step, options: Options, report: Report) -> None:
        self.host, self.default, self.step, self.options, self.report = host, default, step, options, report

    def choose(self, watch: Watch, ranks: Agreement) -> tuple[Halves, str]:
        """The halves and the hash of all that the choice depends on. Needless: Inductor's default is as good."""
        report, host = self.report, self.host
        report.nodes = len(host.calls)
        order = host.order_of(self.default)
        if self.options.measure:
            report.costs = costs.fill(host, ranks.share)
            report.measured, report.notes = report.costs.new, report.costs.notes
        watch.lap("measuring")
        facts = host.facts(costs.alignment_of(host))
        self.graph = host.core(facts)
        self.unfused, self.recomputed, _ = self.graph.replay(order, writes_over=False)
        found: list[Candidate] = []
        told = ranks.share(lambda: self._decide(found), "choice")
        watch.lap("judging")
        report.default_peak = told["default"]
        if told["reason"] is not None:
            raise (Needless if told["is_needless"] else Unknown)(told["reason"])
        asked = tuple(told["asked"])
        halves = next((each.halves for each in found if each.asked == asked), None)
        if halves is None:  # another rank has judged it
            halves = Builder(host, self._planned(asked).steps).build()
        watch.lap("building")
        self._report(told)
        digest = host.digest(facts, order, self.options, host.is_dynamic, reuse.EVERYWHERE)
        return halves, f"{digest} {asked}"

    def _decide(self, found: list[Candidate]) -> dict[str, Any]:
        """What is chosen, as JSON has it, so that all ranks choose the same. `found` takes what was judged."""
        default, known = Judged(), list[Any]()
        try:
            with say.busy("lowering candidates"):
                default = self.step.judge(self.default)
                limit = self.options.bytes_of(default.peak)
                for asked in self._asked(default, limit, found):
                    try:
                        plan = self._planned(asked)
                        if plan.steps in known:  # it was judged already
                            break
                        known.append(plan.steps)
                        halves = Builder(self.host, plan.steps).build()
                        found.append(Candidate(asked, self.step.judge(halves), halves))
                    except Exception as fault:  # the next candidate may do
                        log.debug("echo: a candidate is out", exc_info=fault)
            return self._chosen(default, limit, found)
        except Exception as fault:
            log.debug("echo: no candidate", exc_info=fault)
            text = str(fault) if isinstance(fault, Unknown) else f"Inductor cannot lower it ({type(fault).__name__})"
            return {"reason": text, "is_needless": isinstance(fault, Needless), "default": default.peak or None}

    def _asked(self, default: Judged, limit: int | None, found: list[Candidate]) -> Iterator[Asked]:
        """What to plan next, by what was found so far."""
        if limit is None:
            most, price = self.options.most_overhead, 1.0
            for _ in range(TRIES):
                before = len(found)
                yield None, self.recomputed + price * most
                if len(found) == before:
                    return
                overhead = found[-1].judged.microseconds / default.microseconds - 1
                if WELL_USED * most <= overhead <= most:
                    return
                price *= WELL_USED * most / max(overhead, most / MOST_STEP)
            return
        if default.peak <= limit:
            raise Needless("it fits the budget by Inductor's own partition")
        budget = limit * self.unfused / default.peak
        for _ in range(TRIES):
            before = len(found)
            yield int(budget), self.options.most_overhead
            if len(found) == before:
                return
            reached = found[-1].judged.peak
            if WELL_USED * limit <= reached <= limit:
                return
            budget *= limit / reached

    def _is_in_time(self, each: Candidate, default: Judged) -> bool:
        return each.judged.microseconds <= default.microseconds * (1 + self.options.most_overhead)

    def _planned(self, asked: Asked) -> Any:
        return self.graph.plan(self.options.strategy, *asked, self.options.seconds, reuse.EVERYWHERE)

    def _chosen(self, default: Judged, limit: int | None, found: list[Candidate]) -> dict[str, Any]:
        """The least time within the budget, or the least peak within the time that is asked for."""
        if not found:
            raise Unknown("Inductor lowers no plan of it")
        least = min(found, key=lambda each: each.judged.peak)
        if limit is None:
            in_time = [each for each in found if self._is_in_time(each, default)]
            best = min(in_time, key=lambda each: each.judged.peak, default=None)
        else:
            fitting = [each for each in found if each.judged.peak <= limit]
            best = min(fitting, key=lambda each: each.judged.microseconds, default=least)
        if best is None or best.judged.peak >= default.peak:
            raise Needless(
                f"Inductor's default needs {default.peak / 1e6:.1f} MB, and Echo found nothing below within the time "
                f"that is asked for: {least.judged.peak / 1e6:.1f} MB"
            )
        return {
            "reason": None,
            "asked": best.asked,
            "default": default.peak,
            "peak": best.judged.peak,
            "times": [default.microseconds, best.judged.microseconds],
            "notes": best.judged.notes,
        }

    def _report(self, told: dict[str, Any]) -> None:
        report = self.report
        report.peak = told["peak"]
        before, after = told["times"]
        report.time_us, report.overhead = before, after / before - 1 if before else 0.0
        report.notes += [note for note in told["notes"] if note not in report.notes]
        limit = self.options.bytes_of(told["default"])
        if limit is not None and told["peak"] > limit:
            text = (
                f"a budget of {limit / 1e6:.1f} MB cannot be met under Inductor: the least peak found is "
                f"{told['peak'] / 1e6:.1f} MB"
            )
            if self.options.strict:
                raise BudgetError(text)
            say.warn_once("Echo: " + text)
