"""Tries plans of a step, and takes the best one, as the compiler itself has judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from echo_jax import kernels, loops, stock, tracing
from echo_jax.amounts import megabytes
from echo_jax.calls import Declined, shaped
from echo_jax.compiling import Compiled, compile_step, device_of, place_of
from echo_jax.kernels import Kernels
from echo_jax.recipes import Recipe, with_loops
from echo_jax.tracing import Evaluate, Traced

TRIES = 4  # plans that are compiled, the first one up to twice
ASKS = 8  # prices that are planned for, of which some lead to the same plan
SECONDS = 120.0  # for one plan
WELL_USED = 0.8  # a part of what is asked for with which no other plan is tried
LOOP_TRIES = 3  # choices of what loops keep that are compiled, where a budget is asked for
NEAR = 1.1  # times what a plan promised, with which no other way to run it is tried
STEPS = 2.0  # between one price and the next
WORTH = 0.01  # a part of the memory; a plan that saves less is none
NO_FIT = ", which does not fit the device"


@dataclass(frozen=True)
class Asked:
    """What the user asks for."""

    budget: int | None  # bytes in all, arguments and results included
    max_overhead: float
    topology: str | None
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A plan, and what the compiler says of it."""

    how: str  # loops, plan, or the name of a policy of JAX
    temp: int  # bytes
    flops: float
    again: int  # kernels that run again
    recipe: Recipe = field(repr=False)
    asked: float = 0.0  # overhead that the planner was asked for
    fits: bool = True  # the device's memory
    promised: float = 0.0  # temporary bytes, by the planner's count

    @property
    def is_as_promised(self) -> bool:
        return self.temp <= NEAR * self.promised


Ask = Callable[[int | None, float], Candidate | None]  # a budget of the graph or a price; none where nothing runs again


@dataclass(frozen=True)
class View:
    """The step as `recipe` changes it, from which plans go on."""

    traced: Traced
    recipe: Recipe
    compiled: Compiled


@dataclass
class Decision:
    """What became of a step for arguments of these shapes."""

    name: str
    platform: str
    before: int = 0  # temporary bytes as the compiler states
    after: int = 0
    flops: float = 0.0  # operations of the step as it is
    overhead: float = 0.0  # operations added, as a part
    kernels: int = 0
    again: int = 0
    tried: list[Candidate] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # candidates that were not compiled, and why
    fitted: bool = True  # the step as it was, the device's memory
    warning: str = ""  # the budget is not kept
    reason: str = ""  # why the step runs as it was; empty where it was rewritten
    cached: bool = False  # read from disk

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name} on {self.platform} runs as it was: {self.reason}"
        return (
            f"{self.name} on {self.platform}: {megabytes(self.before)}{'' if self.fitted else ' (did not fit)'} -> "
            f"{megabytes(self.after)} MB of temporary "
            f"memory, {100 * self.overhead:+.1f} % operations; {self.again} of {self.kernels} kernels run again"
        )

    def table(self) -> str:
        """What the compiler says of each candidate, the least first, and what was not compiled."""
        rows = [f"{'MB':>10}  {'operations':>10}  candidate", f"{megabytes(self.before):>10}  {'':>10}  as it was"]
        rows[1] += "" if self.fitted else NO_FIT
        for each in sorted(self.tried, key=lambda each: (each.temp, each.flops)):
            more = f"{100 * (each.flops / self.flops - 1):+.1f} %"
            rows.append(f"{megabytes(each.temp):>10}  {more:>10}  {each.how}" + ("" if each.fits else NO_FIT))
        return "\n".join([*rows, *self.left_out])


class Search:
    """One search; `before` is the step as the user has it, and `decision` takes what is found. Declined: the step has
    no backward pass, or does not compile.
    """

    def __init__(
        self, traced: Traced, leaves: Sequence[Any], asked: Asked, decision: Decision, before: Compiled
    ) -> None:
        place = place_of(asked.topology, leaves)
        if not traced.backward:
            raise Declined(
                "its backward pass lies within a loop or a call: rewrite the function of gradients there"
                if tracing.is_inside(traced)
                else "it has no backward pass: give a function of gradients, as jax.value_and_grad(loss)"
            )
        self.traced, self.asked, self.decision = traced, asked, decision
        self.platform = device_of(leaves, asked.topology).platform
        self.flat = [shaped(leaf, place) for leaf in leaves]
        sizes, self.before = before.sizes, before
        if not before.flops:
            raise Declined("no operation of it is counted")
        decision.before = decision.after = sizes.temp
        decision.flops = before.flops
        self.most = before.flops * (1 + asked.max_overhead)
        budget = before.capacity if asked.budget is None else asked.budget
        self.limit = None if budget is None else budget - (sizes.total - sizes.temp)
        decision.fitted = not before.refusal

    def best(self) -> Recipe | None:
        """None: the step as it is is as good; `decision` says why."""
        if self.limit is not None and self.before.sizes.temp <= self.limit and not self.before.refusal:
            self.decision.reason = "it fits the budget"
            return None
        own = self._compiled("in order", Recipe(), tracing.scoped(self.traced))
        if own is None:
            raise Declined(self.decision.left_out[-1])
        for view in self._views(own):
            view = self._loops(view)
            graph = kernels.read(view.traced, view.compiled)
            self.decision.kernels = sum(node.root >= 0 for node in graph.nodes)
            core = graph.core()
            self._plans(core, graph, view)
            self._policies(core, graph, view)
        self._other_way()
        return self._best()

    def _views(self, own: Compiled) -> Iterator[View]:
        """Without the user's regions of jax.checkpoint, since a plan of all may need less; as it is where none does."""
        opened, recipe = tracing.opened(self.traced), Recipe(is_open=True)
        if opened is not None:
            found = self._compiled("without jax.checkpoint", recipe, tracing.scoped(opened))
            if found is not None:
                yield View(opened, recipe, found)
        best = self._least()
        if best is None or not self._keeps(best) or best.recipe == Recipe():
            yield View(self.traced, Recipe(), own)

    def _compiled(self, how: str, recipe: Recipe, run: Evaluate, again: int = 0, **told: float) -> Compiled | None:
        """Compiles a candidate and notes it, with what else is told of it; None where the compiler refuses it."""
        try:
            found = self._judged(run)
        except Declined as why:
            self.decision.left_out.append(f"{how} is left out: {why}")
            return None
        made = Candidate(how, found.sizes.temp, found.flops, again, recipe, fits=not found.refusal, **told)
        self.decision.tried.append(made)
        return found

    def _judged(self, run: Evaluate) -> Compiled:
        options = {**self.traced.options, **self.asked.options}
        jitted = self.traced.jitted(run, self.asked.topology is not None)
        return compile_step(jitted, tuple(self.flat), {}, topology=self.asked.topology, compiler_options=options)

    def _loops(self, view: View) -> View:
        """With loops that keep less, if there are any and that is better."""
        front, best = loops.front(view.traced), view
        for chosen in self._choices(front, view):
            looped, recipe = with_loops(view.traced, chosen), replace(view.recipe, loops=chosen)
            found = self._compiled("loops", recipe, tracing.scoped(looped))
            is_cheap = found is not None and (self.limit is not None or found.flops <= self.most)
            if found is not None and is_cheap and found.sizes.temp < best.compiled.sizes.temp:
                best = View(looped, recipe, found)
        return best

    def _choices(self, front: Sequence[loops.Choice], view: View) -> Iterator[loops.Chosen]:
        """What to try of these, by what the compiler said of the last one: the least bytes within the operations that
        are asked for, or the fewest operations within the budget.
        """
        temp, tried, known = view.compiled.sizes.temp, self.decision.tried, list[loops.Choice]()
        before = front[-1].bytes  # as it is
        part = 1 / view.compiled.program.partitions if view.compiled.program else 1.0  # of the bytes on one device
        times = float(self.traced.times)  # operations of the whole step, of one counted
        allowed = max(0.0, self.most - view.compiled.flops)
        for _ in range(LOOP_TRIES):
            if self.limit is None:
                cheap = [each for each in front[:-1] if times * each.flops <= allowed]
                chosen = (cheap or front[-2:])[0]
            else:
                most = before - (temp - self.limit) / part
                chosen = next((each for each in reversed(front) if each.bytes <= most), front[0])
            count = len(tried)
            if not chosen.chosen or chosen in known:
                return
            known.append(chosen)
            yield chosen.chosen
            if len(tried) == count or tried[-1].temp >= temp:
                return
            found, added = tried[-1], tried[-1].flops - view.compiled.flops
            if self.limit is None and WELL_USED * allowed <= added <= allowed:
                return
            if self.limit is not None and found.fits and WELL_USED * self.limit <= found.temp <= self.limit:
                return
            part = (temp - found.temp) / (before - chosen.bytes)
            times = max(0.0, added) / chosen.flops if chosen.flops else times

    def _plans(self, core: Any, graph: Kernels, view: View) -> None:
        """Plans of the library's planner. The first one shows which way to hold back what runs again suits them."""
        known = list[tuple[Any, Candidate | None]]()
        ways = {is_limited: [True, False] for is_limited in (True, False)}  # by whether bytes are asked for

        def ask(budget: int | None, price: float) -> Candidate | None:
            plan = core.plan("budget", budget, price, SECONDS, True)
            if plan.recomputed_nodes == 0:
                return None
            for steps, found in known:
                if steps == plan.steps:
                    return found
            steps = [(node, kind == "recompute", reads) for node, kind, reads, _ in plan.steps]
            promised = view.compiled.sizes.temp * plan.peak_bytes / plan.baseline_peak_bytes
            tries = [view.recipe.of(graph, steps, way) for way in ways[budget is not None]]
            found = self._try("plan", graph, tries, promised, price)
            if found is not None:
                ways[budget is not None] = [found.recipe.waits_for_all]
            known.append((plan.steps, found))
            return found

        if self.limit is None:
            self._by_price(ask, view.compiled)
        elif view.compiled.sizes.temp > self.limit:
            count = core.plan("baseline", None, 0.0, SECONDS, True).peak_bytes
            if not self._by_budget(ask, count * self.limit / view.compiled.sizes.temp):
                self._by_price(ask, view.compiled)  # the least may cost little

    def _try(
        self, how: str, graph: Kernels, recipes: Sequence[Recipe], promised: float, price: float = 0.0
    ) -> Candidate | None:
        """Compiles these ways to hold back what runs again, until one keeps what was promised. The result: the least,
        or none where the compiler refuses all.
        """
        begin = len(self.decision.tried)
        for each in recipes:
            run, again = each.applied(self.traced, self.platform), graph.again(each.steps)
            made = self._compiled(how, each, run, again, asked=price, promised=promised)
            if made is not None and self.decision.tried[-1].is_as_promised:
                break
        return min(self.decision.tried[begin:], key=lambda each: each.temp, default=None)

    def _other_way(self) -> None:
        """The best plan, held back the other way."""
        best = self._least()
        if best is None or not best.recipe.steps:
            return
        other = replace(best.recipe, waits_for_all=not best.recipe.waits_for_all)
        if all(each.recipe != other for each in self.decision.tried):
            run = other.applied(self.traced, self.platform)
            self._compiled(best.how, other, run, best.again, asked=best.asked, promised=best.promised)

    def _policies(self, core: Any, graph: Kernels, view: View) -> None:
        """JAX's own policies, where the planner's count says that one could be the best."""
        most = self.before.flops * (1 + NEAR * self.asked.max_overhead)
        before, base = core.replay(list(range(len(graph.nodes))), True)[0], view.compiled
        known = dict[tuple[int, ...], str]()
        for name in stock.NAMES:
            runs = stock.order(graph, name)
            if len(runs) == len(graph.nodes):
                continue  # nothing runs again
            if (same := known.setdefault(tuple(runs), name)) != name:
                self.decision.left_out.append(f"{name} is not compiled: it runs the same kernels again as {same}")
                continue
            temp = base.sizes.temp * core.replay(runs, True)[0] / max(1, before)
            flops = base.flops + self.traced.times * stock.operations_added(graph, runs)
            best = self._least()
            if self.limit is None:
                is_good = flops <= most and temp <= NEAR * (best.temp if best else self.before.sizes.temp)
            else:
                is_kept = best is not None and self._keeps(best)
                is_good = temp <= NEAR * self.limit and not (best is not None and is_kept and flops >= best.flops)
            if is_good:
                steps = stock.steps(graph, runs)
                tries = [view.recipe.of(graph, steps, way) for way in (True, False)]
                as_users_do = [Recipe(policy=name)] if self.traced.under is not None else []
                self._try(name, graph, [*as_users_do, *tries], temp)
            else:
                more = 100 * (flops / self.before.flops - 1)
                told = f"{name} is not compiled: some {megabytes(temp)} MB and {more:+.1f} % operations, by count"
                self.decision.left_out.append(told)

    def _by_budget(self, ask: Ask, budget: float) -> bool:
        """Asks for budgets of the graph's bytes, by what the compiler said of the last plan: whether one keeps to the
        budget that is asked for.
        """
        assert self.limit is not None
        tried = list[Candidate]()
        for _ in range(TRIES):
            found = ask(max(0, int(budget)), 1.0)
            if found is None or any(each is found for each in tried):
                break
            tried.append(found)
            if WELL_USED * self.limit <= found.temp <= self.limit:
                break
            budget *= self.limit / max(1, found.temp)
        return any(each.temp <= self.limit for each in tried)

    def _by_price(self, ask: Ask, base: Compiled) -> None:
        """Asks for prices towards what may be added, in proportion to what the compiler counted for the last plan; and
        for half of one that added enough, but needs more memory than it promised: the compiler may follow a smaller
        plan.
        """
        allowed, tried = max(0.0, self.most - base.flops), list[Candidate]()
        price, low, high = allowed / base.flops, 0.0, math.inf
        for _ in range(ASKS):
            found = ask(None, price)
            added = 0.0 if found is None else found.flops - base.flops
            is_used = WELL_USED * allowed <= added <= allowed
            if price == 0 or (found is not None and is_used and found.is_as_promised):
                return
            if found is not None and all(each is not found for each in tried):
                tried.append(found)
                if len(tried) == TRIES:
                    return
            low, high = (low, price) if is_used or added > allowed else (price, high)
            wanted = price * (1 + WELL_USED) / 2 * allowed / added if added > 0 else math.inf
            between = price * STEPS if high == math.inf else (low + high) / 2
            price = wanted if not is_used and low < wanted < min(high, price * STEPS) else between

    def _least(self) -> Candidate | None:
        """The best candidate so far."""
        before = self.before.sizes.temp
        lower = [each for each in self.decision.tried if each.temp < before]
        if self.limit is None:
            lower = [each for each in lower if self._keeps(each) and each.temp <= (1 - WORTH) * before]
            return min(lower, key=lambda each: (each.temp, each.flops), default=None)
        least = min(lower, key=lambda each: (each.temp, each.flops), default=None)
        fitting = [each for each in lower if self._keeps(each)]
        return min(fitting, key=lambda each: (each.flops, each.temp), default=least)

    def _keeps(self, candidate: Candidate) -> bool:
        """Whether it keeps to what is asked for."""
        if self.limit is None:
            return candidate.flops <= self.most
        return candidate.fits and candidate.temp <= self.limit

    def _best(self) -> Recipe | None:
        best, decision, own = self._least(), self.decision, self.before.sizes.temp
        if self.limit is not None and (best is None or not self._keeps(best)):
            found = best.temp if best else own
            limited = "device" if self.asked.budget is None else "budget"
            least = f"the least found is {megabytes(found)} MB"
            decision.warning = f"the {limited} leaves {megabytes(max(0, self.limit))} MB for temporary memory; {least}"
            if self.limit < 0:
                decision.warning = f"arguments and results alone exceed the {limited}; of temporary memory {least}"
        if best is None:
            flops = self.before.flops
            plans = [each for each in decision.tried if each.recipe != Recipe()]
            tried = ", ".join(f"{megabytes(x.temp)} MB at {100 * (x.flops / flops - 1):+.1f} %" for x in plans)
            decision.reason = f"the compiler needs {megabytes(own)} MB for it, and "
            decision.reason += f"less for no plan within the limit ({tried})" if tried else "no plan was found"
            return None
        if not best.fits and not decision.warning:
            decision.warning = "the least that was found does not fit the device"
        decision.after, decision.overhead, decision.again = best.temp, best.flops / self.before.flops - 1, best.again
        return best.recipe
