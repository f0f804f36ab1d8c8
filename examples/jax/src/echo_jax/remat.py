"""A step that computes the same and needs less memory, as the compiler itself has judged."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import jax

from echo_jax import decisions, tracing
from echo_jax.amounts import bytes_of_budget, part_of
from echo_jax.compiling import Declined, first_line, shaped
from echo_jax.search import Asked, Decision, Search, platform_of
from echo_jax.tracing import Evaluate, Traced

log = logging.getLogger("echo_jax")
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
            run = self._run(traced, jax.tree.leaves(shapes), decision)
            if run is not None:
                options = {**traced.options, **self.asked.options}
                jitted = jax.jit(run, donate_argnums=traced.donated, compiler_options=options or None)
                result = (jitted, run, traced.out_tree)
        except Declined as why:
            decision.reason = str(why)
        except Exception as fault:  # a fault of ours never stops a training
            log.debug("echo: the step is not planned", exc_info=fault)
            decision.reason = f"Echo failed ({first_line(fault)}); please report it"
        if decision.warning:
            log.warning("echo: %s", decision.warning)
        log.log(logging.INFO if result or decision.before else logging.WARNING, "echo: %s", decision)
        return decision, result

    def _run(self, traced: Traced, leaves: list[Any], decision: Decision) -> Evaluate | None:
        """The step as it is planned, from disk where it is known; none where it runs as it was."""
        path = decisions.path_of(traced, leaves, self.asked)
        is_known, recipe = decisions.load(path, decision)
        if not is_known:
            recipe = Search(traced, leaves, self.asked, decision).best()
            decisions.save(path, decision, recipe)
        return None if recipe is None else recipe.applied(traced, platform_of(self.asked))


def _name_of(step: Callable[..., Any]) -> str:
    return str(getattr(step, "__name__", "step"))


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
