"""A step that computes the same and needs less memory, as the compiler itself has judged."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from echo_jax import kernels, loops, tracing
from echo_jax.amounts import bytes_of_budget, part_of
from echo_jax.compiling import Compiled, Declined, compile_step, device_of, first_line, shaped
from echo_jax.rewriting import rewritten
from echo_jax.tracing import Evaluate, Traced

log = logging.getLogger("echo_jax")
TRIES = 4  # plans that are compiled, once or twice
SECONDS = 120.0  # for one plan
WELL_USED = 0.8  # a part of what is asked for with which no other plan is tried
LOOP_PRICES = (0.01, 0.1, 1.0)  # operations that loops may add, where a budget is asked for
NEAR = 1.1  # times what a plan promised, with which no other way to run it is tried
STEPS = 2.0  # between one price and the next


@dataclass(frozen=True)
class Candidate:
    """A plan, and what the compiler says of it."""

    temp: int  # bytes
    flops: float
    again: int  # kernels that run again
    asked: float  # overhead that the planner was asked for, or 0
    run: Evaluate = field(repr=False)


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
    reason: str = ""  # why the step runs as it was; empty where it was rewritten

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name} on {self.platform} runs as it was: {self.reason}"
        return (
            f"{self.name} on {self.platform}: {self.before / 1e6:.1f} -> {self.after / 1e6:.1f} MB of temporary "
            f"memory, {100 * self.overhead:+.1f} % operations; {self.again} of {self.kernels} kernels run again"
        )


Result = tuple[Any, Evaluate, Any]  # the step jitted, as it is traced, and the tree of its results


class Remat:
    """A step with the same arguments and results. `decisions` tells what became of it, for each set of shapes."""

    def __init__(self, step: Callable[..., Any], asked: Asked) -> None:
        self.step, self.asked = step, asked
        self.decisions: list[Decision] = []
        self.known: dict[Any, tuple[Decision, Result | None]] = {}  # by the types of arguments
        functools.update_wrapper(self, step, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        found = self._known(args, kwargs)[1]
        if found is None:
            return self.step(*args, **kwargs)
        jitted, plain, out_tree = found
        run = plain if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) else jitted
        return jax.tree.unflatten(out_tree, run(*leaves))

    def decide(self, *args: Any, **kwargs: Any) -> Decision:
        """What becomes of the step for such arguments, arrays or shapes. Nothing runs."""
        return self._known(args, kwargs)[0]

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As that of jax.jit."""
        found = self._known(args, kwargs)[1]
        if found is not None:
            return found[0].lower(*jax.tree.leaves((args, kwargs)))
        jitted: Any = self.step if hasattr(self.step, "lower") else jax.jit(self.step)
        return jitted.lower(*args, **kwargs)

    def _known(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Decision, Result | None]:
        leaves, tree = jax.tree.flatten((args, kwargs))
        try:
            key: Any = (tree, tuple(_type_of(leaf) for leaf in leaves))
        except TypeError as fault:  # a leaf is no array
            key = (tree, tuple(type(leaf) for leaf in leaves))
            if key not in self.known:
                self.known[key] = self._declined(f"an argument is no array: {first_line(fault)}"), None
        if key not in self.known:
            self.known[key] = self._decided(args, kwargs)
        return self.known[key]

    def _declined(self, reason: str) -> Decision:
        decision = Decision(_name_of(self.step), self.asked.topology or jax.default_backend(), reason=reason)
        self.decisions.append(decision)
        log.warning("echo: %s", decision)
        return decision

    def _decided(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Decision, Result | None]:
        decision = Decision(_name_of(self.step), self.asked.topology or jax.default_backend())
        self.decisions.append(decision)
        result = None
        try:
            shapes = jax.tree.map(shaped, (args, dict(kwargs)))
            traced = tracing.trace(self.step, *shapes)
            best = _chosen(traced, jax.tree.leaves(shapes), self.asked, decision)
            if best is not None:
                options = {**traced.options, **self.asked.options}
                jitted = jax.jit(best.run, donate_argnums=traced.donated, compiler_options=options or None)
                result = (jitted, best.run, traced.out_tree)
        except Declined as why:
            decision.reason = str(why)
        except Exception as fault:  # a fault of ours never stops a training
            log.debug("echo: the step is not planned", exc_info=fault)
            decision.reason = f"Echo failed ({first_line(fault)}); please report it"
        log.log(logging.INFO if result or decision.before else logging.WARNING, "echo: %s", decision)
        return decision, result


def _name_of(step: Callable[..., Any]) -> str:
    return str(getattr(step, "__name__", "step"))


@dataclass(frozen=True)
class Asked:
    """What the user asks for."""

    budget: int | None  # bytes in all, arguments and results included
    max_overhead: float
    topology: str | None
    options: Mapping[str, Any]


def remat(
    step: Callable[..., Any],
    *,
    budget: str | float | None = None,
    max_overhead: str | float = 0.05,
    topology: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> Remat:
    """A step that computes the same and needs less temporary memory.

    `step` is a function that computes gradients, such as jax.value_and_grad(loss) or a whole training step, or what
    jax.jit makes of it; donation and compiler options are taken from the latter. When it is first called with arguments
    of new shapes, several plans are compiled, for `topology` if there is one, and the least one is taken:

    - without a budget, the least temporary memory with at most `max_overhead` (0.05, "5%") more operations;
    - with a budget ("8GiB", 8e9: arguments, results and temporary memory of one device), the fewest operations within
      it, else the least memory and a warning.

    Where the compiler finds none below the step itself, or Echo cannot plan it, the step runs as it was, and a line of
    the logger "echo_jax" says why.

    Errors: ValueError, where an amount cannot be read.
    """
    limit = None if budget is None else bytes_of_budget(budget)
    return Remat(step, Asked(limit, part_of(max_overhead, "max_overhead"), topology, dict(compiler_options or {})))


def _type_of(leaf: Any) -> Any:
    aval, shape = jax.typeof(leaf), shaped(leaf)
    return aval.shape, aval.dtype, bool(getattr(aval, "weak_type", False)), getattr(shape, "sharding", None)


def _chosen(traced: Traced, leaves: Sequence[Any], asked: Asked, decision: Decision) -> Candidate | None:
    """The best candidate; none where the step is as good. `decision` takes what was found."""
    place = None if asked.topology is None else device_of(asked.topology)
    platform = "tpu" if place is not None else jax.default_backend()
    if not traced.backward:
        raise Declined("it has no backward pass: give a function that computes gradients, as jax.value_and_grad(loss)")
    flat = [shaped(leaf, place) for leaf in leaves]
    options = {**traced.options, **asked.options}

    def judged(run: Evaluate) -> Compiled:
        jitted = jax.jit(run, donate_argnums=traced.donated)
        return compile_step(jitted, tuple(flat), {}, topology=asked.topology, compiler_options=options)

    own = judged(tracing.scoped(traced))
    decision.before = decision.after = own.sizes.temp
    decision.flops = own.flops
    limit = None if asked.budget is None else asked.budget - (own.sizes.total - own.sizes.temp)
    if limit is not None and own.sizes.temp <= limit:
        raise Declined("it fits the budget")
    base, compiled = traced, own
    for looped in _with_other_loops(traced, own, limit, asked.max_overhead):
        found = judged(tracing.scoped(looped))
        decision.tried.append(Candidate(found.sizes.temp, found.flops, 0, 0.0, tracing.plain(looped)))
        if found.sizes.temp < compiled.sizes.temp and (limit or found.flops <= own.flops * (1 + asked.max_overhead)):
            base, compiled = looped, found
        if limit is not None and compiled.sizes.temp <= limit:
            break
    graph = kernels.read(base, compiled)
    decision.kernels = sum(node.root >= 0 for node in graph.nodes)
    core, seen = graph.core(), list[Any]()
    for budget, price in _asks(core, own, compiled, limit, asked.max_overhead, decision.tried):
        plan = core.plan("budget", budget, price, SECONDS, True)
        if plan.steps in seen or plan.recomputed_nodes == 0:
            break
        seen.append(plan.steps)
        promised = own.sizes.temp * plan.peak_bytes / plan.baseline_peak_bytes
        for waits_for_all in (False, True):
            run = rewritten(graph, plan.steps, platform, waits_for_all)
            found = judged(run)
            decision.tried.append(Candidate(found.sizes.temp, found.flops, plan.recomputed_nodes, price, run))
            if found.sizes.temp <= NEAR * promised:
                break
    return _best(own, limit, asked.max_overhead, decision)


def _with_other_loops(traced: Traced, own: Compiled, limit: int | None, most: float) -> Iterator[Traced]:
    """The step with loops that keep less, if there are any: for the price that is asked for, or for growing ones."""
    choices = [loops.variants(traced, pair) for pair in loops.pairs(traced)]
    total, seen = sum(each[0].before for each in choices if each), list[Any]()
    for price in (most,) if limit is None else LOOP_PRICES:
        chosen = []
        for each in filter(None, choices):
            most_flops = price * own.flops * each[0].before / total
            if fitting := [variant for variant in each if variant.flops <= most_flops]:
                chosen.append(min(fitting, key=lambda variant: (variant.bytes, variant.flops)))
        told = [(each.pair.forward, each.kept) for each in chosen]
        if chosen and told not in seen:
            seen.append(told)
            yield loops.replaced(traced, chosen)


def _asks(
    core: Any, own: Compiled, base: Compiled, limit: int | None, most: float, tried: list[Candidate]
) -> Iterator[tuple[int | None, float]]:
    """What to plan next, a budget of the graph or a price, by what the compiler said of the last one."""
    if limit is None:
        price, low, high = max(0.0, 1 + most - base.flops / own.flops), 0.0, math.inf
        for _ in range(TRIES):
            before = len(tried)
            yield None, price
            if len(tried) == before:
                return
            overhead = tried[-1].flops / own.flops - 1
            if WELL_USED * most <= overhead <= most:
                return
            low, high = (low, price) if overhead > most else (price, high)
            price = price * STEPS if high == math.inf else (low + high) / 2
        return
    if base.sizes.temp <= limit:
        return
    count = core.plan("baseline", None, 0.0, SECONDS, True).peak_bytes
    budget = count * limit / base.sizes.temp
    for _ in range(TRIES):
        before = len(tried)
        yield int(budget), 1.0
        if len(tried) == before or WELL_USED * limit <= tried[-1].temp <= limit:
            return
        budget *= limit / tried[-1].temp


def _best(own: Compiled, limit: int | None, most: float, decision: Decision) -> Candidate | None:
    lower = [each for each in decision.tried if each.temp < own.sizes.temp]
    if limit is None:
        lower = [each for each in lower if each.flops <= own.flops * (1 + most)]
        best = min(lower, key=lambda each: (each.temp, each.flops), default=None)
    else:
        least = min(lower, key=lambda each: each.temp, default=None)
        fitting = [each for each in lower if each.temp <= limit]
        best = min(fitting, key=lambda each: (each.flops, each.temp), default=least)
        if not fitting:
            found = (least.temp if least else own.sizes.temp) / 1e6
            log.warning(
                "echo: the budget leaves %.1f MB for temporary memory; the least found is %.1f MB", limit / 1e6, found
            )
    if best is None:
        tried = ", ".join(f"{each.temp / 1e6:.1f}" for each in decision.tried)
        decision.reason = (
            f"the compiler needs {own.sizes.temp / 1e6:.1f} MB for it, and for no plan within the limit less "
            f"({tried or 'none was found'} MB)"
        )
        return None
    decision.after, decision.overhead, decision.again = best.temp, best.flops / own.flops - 1, best.again
    return best
