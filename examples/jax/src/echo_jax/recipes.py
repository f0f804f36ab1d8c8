"""How a step is rewritten, in numbers alone, and the step that this makes: what a second process reads from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from echo_jax import kernels, loops, tracing
from echo_jax.kernels import Kernels
from echo_jax.rewriting import rewritten
from echo_jax.tracing import Evaluate, Traced

Step = tuple[int, bool, Sequence[tuple[int, int]]]  # node, whether it ran before, steps and outputs that it reads


@dataclass(frozen=True)
class Recipe:
    """Changes of a traced step; the default is none."""

    loops: Sequence[tuple[int, int]] = ()  # a pair of loops, and the variant of it
    stored: Sequence[tuple[int, int]] = field(default=(), repr=False)  # equations in memory, bytes: they make the nodes
    steps: Sequence[Step] = field(default=(), repr=False)
    waits_for_all: bool = True
    policy: str = ""  # of jax.checkpoint around the loss, and nothing else
    is_open: bool = False  # without the regions of jax.checkpoint; equations are then counted without them

    def applied(self, traced: Traced, platform: str) -> Evaluate:
        """The step as a function of flat arguments."""
        if self.policy:
            assert traced.under is not None
            return tracing.plain(traced.under(self.policy))
        base = with_loops((tracing.opened(traced) if self.is_open else None) or traced, self.loops)
        if not self.steps:
            return tracing.plain(base)
        return rewritten(kernels.grouped(base, dict(self.stored)), self.steps, platform, self.waits_for_all)

    def of(self, graph: Kernels, steps: Sequence[Step], waits_for_all: bool) -> Recipe:
        """The same loops, with kernels that run as in the plan's `steps`."""
        return replace(self, stored=tuple(graph.stored.items()), steps=tuple(steps), waits_for_all=waits_for_all)


def with_loops(traced: Traced, chosen: Sequence[tuple[int, int]]) -> Traced:
    """The step in which these loops keep less."""
    if not chosen:
        return traced
    pairs = list(loops.pairs(traced))
    return loops.replaced(traced, [loops.variants(traced, pairs[pair])[variant] for pair, variant in chosen])
