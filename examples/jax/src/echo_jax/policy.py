"""A policy of jax.checkpoint that is chosen among the user's own names, as the compiler itself has judged."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from echo_jax import calls
from echo_jax.amounts import bytes_of_budget, part_of
from echo_jax.calls import Declined
from echo_jax.compiling import Compiled, compile_step
from echo_jax.tracing import bytes_of

log = logging.getLogger("echo_jax")
POLICIES = jax.checkpoint_policies
STOCK = ("everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
TRIES = 24  # policies that are compiled


@dataclass(frozen=True)
class Tried:
    """A policy, and what the compiler says of the step with it."""

    line: str  # of Python, to paste
    policy: Any = field(repr=False)
    temp: int = 0  # bytes
    total: int = 0  # bytes, arguments and results included
    flops: float = 0.0
    host: int = 0  # bytes that were moved to the host's memory
    names: tuple[str, ...] = ()  # that are saved
    fits: bool = True  # the device's memory


@dataclass(frozen=True)
class Chosen:
    """The best policy. `most` is what the step needs where everything is saved."""

    best: Tried
    most: Tried
    tried: list[Tried]
    names: dict[str, int]  # found in the step, and the bytes that they hold in all
    notes: list[str] = field(default_factory=list)  # on what is no candidate

    @property
    def policy(self) -> Any:
        return self.best.policy

    def __str__(self) -> str:
        rows = [("MB", "operations", "policy")]
        for each in sorted(self.tried, key=lambda each: (each.temp, each.flops)):
            more = f"{100 * (each.flops / self.most.flops - 1):+.1f} %"
            host = f"  {each.host / 1e6:,.1f} MB on the host" if each.host else ""
            host += "" if each.fits else "  does not fit the device"
            chosen = "  <- chosen" if each is self.best else ""
            rows.append((f"{each.temp / 1e6:,.1f}", more, each.line + host + chosen))
        widths = [max(len(row[at]) for row in rows) for at in range(2)]
        table = (f"{mb:>{widths[0]}}  {more:>{widths[1]}}  {line}".rstrip() for mb, more, line in rows)
        return "\n".join([*table, *self.notes, "", f"policy={self.best.line}"])


def policy(
    build: Callable[[Any], Callable[..., Any]],
    *args: Any,
    budget: str | float | None = None,
    max_overhead: str | float | None = None,
    topology: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    tries: int = TRIES,
    **kwargs: Any,
) -> Chosen:
    """Chooses which of the user's names (jax.ad_checkpoint.checkpoint_name) to save.

    `build(policy)` gives the step with that policy in its jax.checkpoint, flax.linen.remat or the like. The names are
    found in the step. Candidates are JAX's own policies and sets of names; each is compiled for these arguments.
    Names may also be moved to the host's memory (offloaded), where the compiler does that; the time of the move is not
    counted. `budget` ("8GiB": arguments, results and temporary memory of one device) takes the fewest operations within
    it, `max_overhead` (0.05) the least memory with at most that many more operations than where everything is saved.
    With neither it is the least memory. No more than `tries` policies that keep all on the device are compiled, JAX's
    own first. print() shows all of them and the line to paste.

    Errors: Declined, where the step does not trace or compile; ValueError, where an amount cannot be read.
    """
    limit = None if budget is None else bytes_of_budget(budget)
    most_overhead = None if max_overhead is None else part_of(max_overhead, "max_overhead")
    if limit is not None and most_overhead is not None:
        raise ValueError("policy() got budget and max_overhead; give one of them")
    names = names_in(build(POLICIES.everything_saveable), args, kwargs)
    if not names:
        raise Declined("the step holds no checkpoint_name: name values by jax.ad_checkpoint.checkpoint_name")
    search = _Search(build, args, kwargs, topology, compiler_options, names, tries)
    most = search.stock()
    if most is None:
        raise Declined("the step does not compile where everything is saved")
    search.sets(most, limit, most_overhead)
    notes = search.moves(_best(search.tried, most, limit, most_overhead))
    return Chosen(_best(search.tried, most, limit, most_overhead), most, search.tried, names, notes)


def _best(tried: list[Tried], most: Tried, limit: int | None, overhead: float | None) -> Tried:
    if overhead is not None:
        tried = [each for each in tried if each.flops <= most.flops * (1 + overhead)]
    if not any(each.fits for each in tried):
        log.warning("echo: no policy fits the device; the least is taken")
    tried = [each for each in tried if each.fits] or tried
    least = min(tried, key=lambda each: (each.temp, each.flops))
    if limit is None:
        return least
    fitting = [each for each in tried if each.total <= limit]
    if not fitting:
        log.warning("echo: no policy keeps to the budget of %.1f MB; least %.1f MB", limit / 1e6, least.total / 1e6)
    return min(fitting, key=lambda each: (each.flops, each.temp), default=least)


class _Search:
    def __init__(
        self,
        build: Callable[[Any], Callable[..., Any]],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        topology: str | None,
        options: Mapping[str, Any] | None,
        names: Mapping[str, int],
        tries: int,
    ) -> None:
        self.build, self.args, self.kwargs = build, args, kwargs
        self.topology, self.options, self.names, self.tries = topology, options, names, tries
        self.tried: list[Tried] = []
        self.known: dict[tuple[str, ...], Tried | None] = {}

    def stock(self) -> Tried | None:
        """JAX's own policies. None: the first, which saves everything, does not compile."""
        found = [self._judge(f"jax.checkpoint_policies.{name}", getattr(POLICIES, name)) for name in STOCK]
        return found[0]

    def sets(self, most: Tried, limit: int | None, overhead: float | None) -> None:
        """Sets of names: each alone, then names are added to the best set as long as that is better."""
        now: tuple[str, ...] = ()
        best: Tried | None = None
        while len(self.tried) < self.tries:
            further = [(*now, name) for name in self.names if name not in now]
            found = [(each, names) for names in further if (each := self._named(names)) is not None]
            key = self._order(most, limit, overhead)
            at, names = min(found, key=lambda pair: key(pair[0]), default=(None, now))
            if at is None or (best is not None and key(at) >= key(best)):
                return
            now, best = names, at

    def moves(self, best: Tried) -> list[str]:
        """Names that are moved to the host's memory: all of them, or those that the best policy saves. The result: why
        none is a candidate.
        """
        for names in dict.fromkeys((tuple(self.names), best.names or tuple(self.names))):
            told = ", ".join(f'"{name}"' for name in names)
            line = (
                f"jax.checkpoint_policies.save_and_offload_only_these_names(names_which_can_be_saved=[], "
                f'names_which_can_be_offloaded=[{told}], offload_src="device", offload_dst="pinned_host")'
            )
            moving = POLICIES.save_and_offload_only_these_names(
                names_which_can_be_saved=[],
                names_which_can_be_offloaded=list(names),
                offload_src="device",
                offload_dst="pinned_host",
            )
            found = self._judge(line, moving)
            if found is not None and not found.host:
                self.tried.remove(found)
                return ["offloading is no candidate: this compiler moves nothing to the host's memory"]
        return []

    def _order(self, most: Tried, limit: int | None, overhead: float | None) -> Callable[[Tried], tuple[float, ...]]:
        """What is better comes first. While the operations are too many, fewer are better."""

        def key(each: Tried) -> tuple[float, ...]:
            if limit is not None:
                return (max(0, each.total - limit), each.flops, each.temp)
            if overhead is not None:
                return (max(0.0, each.flops / most.flops - 1 - overhead), each.temp)
            return (each.temp, each.flops)

        return key

    def _named(self, names: Iterable[str]) -> Tried | None:
        key = tuple(sorted(names))
        if key not in self.known:
            told = ", ".join(f'"{name}"' for name in key)
            line = f"jax.checkpoint_policies.save_only_these_names({told})"
            self.known[key] = None
            if len(self.tried) < self.tries:
                self.known[key] = self._judge(line, POLICIES.save_only_these_names(*key), key)
        return self.known[key]

    def _judge(self, line: str, candidate: Any, names: tuple[str, ...] = ()) -> Tried | None:
        try:
            compiled: Compiled = compile_step(
                self.build(candidate), self.args, self.kwargs, topology=self.topology, compiler_options=self.options
            )
        except Declined as why:
            log.info("echo: %s is out: %s", line, why)
            return None
        sizes = compiled.sizes
        fits = not compiled.refusal
        tried = Tried(line, candidate, sizes.temp, sizes.total, compiled.flops, sizes.host, names, fits)
        self.tried.append(tried)
        return tried


def names_in(step: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, int]:
    """The names that a step gives to values, and the bytes that these hold, all iterations of loops."""
    traced, _ = calls.traced(step, calls.of(step, args, kwargs).shaped())
    found: dict[str, int] = {}
    for name, size in _names(traced.jaxpr.jaxpr, 1):
        found[name] = found.get(name, 0) + size
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _names(jaxpr: Any, times: int) -> Iterator[tuple[str, int]]:
    for equation in jaxpr.eqns:
        if equation.primitive.name == "name":
            yield equation.params["name"], times * bytes_of(equation.outvars[0].aval)
        inner = times * equation.params.get("length", 1) if equation.primitive.name == "scan" else times
        parts = (value if isinstance(value, tuple | list) else (value,) for value in equation.params.values())
        for each in itertools.chain.from_iterable(parts):
            body = getattr(each, "jaxpr", each)
            if hasattr(body, "eqns"):
                yield from _names(body, inner)
