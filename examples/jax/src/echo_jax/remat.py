"""A step that computes the same and needs less memory, as the compiler itself has judged."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import jax

from echo_jax import bodies, calls, decisions, losses, tracing
from echo_jax.amounts import bytes_of_budget, part_of
from echo_jax.calls import Call, Declined, Results, first_line
from echo_jax.compiling import compile_step, device_of
from echo_jax.search import Asked, Decision, Search
from echo_jax.tracing import Evaluate, Traced

log = logging.getLogger("echo_jax")
VALUES = 8  # of Python's numbers for which a step is planned anew


@dataclass(frozen=True)
class Planned:
    """A step that was rewritten, or a loss whose gradients are."""

    jitted: Any
    within: Evaluate  # where another function that is traced calls it
    results: Results


class Remat:
    """A step with the same arguments and results. `decisions` tells what became of it, for each set of shapes."""

    def __init__(
        self, step: Callable[..., Any], asked: Asked, under: Callable[[str], Callable[..., Any]] | None = None
    ) -> None:
        self.step, self.asked = step, asked
        self.under = under  # the step with its loss under a policy of JAX, where a loss was given
        self.decisions: list[Decision] = []
        self.known: dict[Any, tuple[Decision | None, Planned | None]] = {}  # by the types of arguments
        self.lock = threading.RLock()  # while it is planned
        self.faults: set[str] = set()  # that were told
        self.has_fixed_numbers: bool | None = None  # Python's, see calls.py; None before the first call
        functools.update_wrapper(self, step, updated=())

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """As a method of a class."""
        return self if owner is None else MethodType(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            call = self._call(args, kwargs)
            found = self._known(call)[1]
        except Exception as fault:  # of types of the user's that cannot be compared, for one
            if (told := first_line(fault)) not in self.faults:
                log.warning("echo: %s runs as it was: %s", calls.name_of(self.step), told)
            self.faults.add(told)
            found = None
        if found is None:
            return self.step(*args, **kwargs)
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in call.arrays)
        return found.results.of(call, (found.within if is_traced else found.jitted)(*call.arrays))

    def decide(self, *args: Any, **kwargs: Any) -> Decision:
        """What becomes of the step for such arguments, arrays or shapes; of a loss, for gradients by its first
        argument. Nothing runs.
        """
        call = self._call(args, kwargs)
        decision, _ = self._known(call)
        if decision is None:
            numbers = call.numbers_within(len(jax.tree.leaves(args[:1])))
            return self._gradients(call)(tuple(numbers)).decide(*call.arrays)
        return decision

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As that of jax.jit."""
        return self.trace(*args, **kwargs).lower()

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """As that of jax.jit."""
        return self.traced(self._call(args, kwargs))[0]

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As that of jax.jit."""
        return jax.eval_shape(self.step, *args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets what was planned in this process."""
        self.known.clear()

    def traced(self, call: Call) -> tuple[Any, Results]:
        """The step as it runs, as jax.jit traces it, and what its results mean."""
        found = self._known(call)[1]
        return calls.traced(self.step, call) if found is None else (found.jitted.trace(*call.arrays), found.results)

    @property
    def _jit_info(self) -> Any:
        return getattr(self.step, "_jit_info", None)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        if self.has_fixed_numbers is None:
            self.has_fixed_numbers = calls.needs_fixed_numbers(self.step, args, kwargs)
        return calls.of(self.step, args, kwargs, self.has_fixed_numbers)

    def _known(self, call: Call) -> tuple[Decision | None, Planned | None]:
        try:
            key = call.key()
        except TypeError as fault:
            key = (call.tree, tuple(type(leaf) for leaf in call.leaves))
            if key not in self.known:
                self.known[key] = (
                    self._declined(f"an argument is neither an array nor hashable: {first_line(fault)}"),
                    None,
                )
        if key not in self.known and self._is_planned_too_often():
            key = None  # one decision for all further values
        if (found := self.known.get(key)) is None:
            with self.lock:
                if (found := self.known.get(key)) is None:
                    found = self.known[key] = self._decided(call)
        return found

    def _is_planned_too_often(self) -> bool:
        return bool(self.has_fixed_numbers) and len(self.known) >= VALUES

    def _declined(self, reason: str) -> Decision:
        decision = Decision(calls.name_of(self.step), self.asked.topology or jax.default_backend(), reason=reason)
        self.decisions.append(decision)
        log.warning("echo: %s", decision)
        return decision

    def _decided(self, call: Call) -> tuple[Decision | None, Planned | None]:
        decision = Decision(calls.name_of(self.step), self.asked.topology or jax.default_backend())
        result = None
        try:
            decision.platform = self.asked.topology or device_of(call.arrays).platform
            if self._is_planned_too_often():
                raise Declined(f"it was planned {VALUES} times, for other values of its numbers or other shapes")
            unseen = "" if self._jit_info is not None else calls.unseen(call)  # jax.jit takes an object as one value
            if unseen:
                raise Declined(f"what an argument of type {unseen} holds may change unseen: register it as a pytree")
            shapes = call.shaped()
            whole, results = tracing.trace(self.step, shapes)
            if losses.is_loss(whole, results):
                log.info("echo: the gradients of %s are planned where it is differentiated", decision.name)
                loss = losses.differentiable(losses.apart(self.step, shapes), self._gradients(shapes))
                return None, Planned(jax.jit(loss, compiler_options=whole.options or None), loss, results)
            if self.under is not None:
                whole = replace(whole, under=functools.partial(self._under, shapes))
            traced = bodies.innermost(whole)
            run = self._run(traced, shapes, decision)
            if run is not None:
                options = {**traced.options, **self.asked.options}
                jitted = traced.jitted(run, compiler_options=options or None)
                within = traced.jitted(run) if any(map(any, traced.shardings)) else traced.enclose(run)
                result = Planned(jitted, within, results)
        except Declined as why:
            decision.reason = str(why)
        except Exception as fault:  # a fault of ours never stops a training
            log.debug("echo: the step is not planned", exc_info=fault)
            decision.reason = f"Echo failed ({first_line(fault)}); please report it"
        self.decisions.append(decision)
        if decision.warning:
            log.warning("echo: %s", decision.warning)
        log.log(logging.INFO if result or decision.before else logging.WARNING, "echo: %s", decision)
        return decision, result

    def _under(self, call: Call, policy: str) -> Traced:
        assert self.under is not None
        return tracing.trace(self.under(policy), call)[0]

    def _gradients(self, call: Call) -> Callable[[tuple[int, ...]], Remat]:
        """The step of value and gradients of a loss, by these arrays."""
        known = dict[tuple[int, ...], Remat]()
        loss = losses.apart(self.step, call.shaped())

        def gradients(numbers: tuple[int, ...]) -> Remat:
            def under(policy: str) -> Callable[..., Any]:
                marked = jax.checkpoint(loss, policy=getattr(jax.checkpoint_policies, policy))
                return jax.value_and_grad(marked, numbers, has_aux=True)

            if numbers not in known:
                known[numbers] = Remat(jax.value_and_grad(loss, numbers, has_aux=True), self.asked, under)
                known[numbers].decisions = self.decisions
            return known[numbers]

        return gradients

    def _run(self, traced: Traced, call: Call, decision: Decision) -> Evaluate | None:
        """The step as it is planned, from disk where it is known; none where it runs as it was."""
        leaves = call.arrays
        path = decisions.path_of(traced, leaves, self.asked)
        is_known, recipe = decisions.load(path, decision)
        if not is_known:
            args, kwargs = call.given(leaves)
            before = compile_step(calls.unbound(self.step), args, kwargs, topology=self.asked.topology)
            recipe = Search(traced, leaves, self.asked, decision, before).best()
            decisions.save(path, decision, recipe)
        return None if recipe is None else recipe.applied(traced, device_of(leaves, self.asked.topology).platform)


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
    jax.jit makes of it; donation and compiler options are taken from the latter. Of a loss, the gradients are planned
    where jax.grad or the like takes them. When it is first called with arguments
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
