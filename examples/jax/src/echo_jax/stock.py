"""JAX's own policies of jax.checkpoint as orders of kernels: what would run again, had the user asked for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import jax

from echo_jax.kernels import Kernels
from echo_jax.recipes import Step
from echo_jax.tracing import is_heavy, operations

NAMES = ("dots_saveable", "dots_with_no_batch_dims_saveable", "nothing_saveable")


def order(kernels: Kernels, name: str) -> list[int]:
    """The nodes as they run under that policy: the forward pass; then each kernel of the backward pass behind those
    that it reads and that the policy does not save. What lies between two parts of the forward pass is saved as well,
    as it is by a jax.checkpoint around each layer.
    """
    policy = getattr(jax.checkpoint_policies, name)
    nodes = kernels.nodes
    saved = {at for at, node in enumerate(nodes) if node.root < 0 or _is_saved(kernels, at, policy)}
    runs = list[int]()
    at_hand = saved | _between(kernels, saved)
    for at, node in enumerate(nodes):
        if node.is_late:
            again = _missing(kernels, at, at_hand)
            at_hand |= {*again, at}
            runs += again
        runs.append(at)
    return runs


def operations_added(kernels: Kernels, runs: list[int]) -> float:
    """Of the kernels that run again in this order."""
    seen, added = set[int](), 0.0
    for at in runs:
        if at in seen:
            added += sum(operations(kernels.traced.equations[member]) for member in kernels.nodes[at].members)
        seen.add(at)
    return added


def steps(kernels: Kernels, runs: list[int]) -> list[Step]:
    """As those of a plan: each kernel reads what was made last."""
    latest: dict[int, int] = {}
    made = list[Step]()
    for step, at in enumerate(runs):
        reads = [(latest[node], output) for _, (node, output) in kernels.nodes[at].inputs]
        made.append((at, at in latest, reads))
        latest[at] = step
    return made


def _is_saved(kernels: Kernels, at: int, policy: Callable[..., Any]) -> bool:
    """A loop is saved as well: policies look into it, and what it keeps is chosen elsewhere."""
    for member in kernels.nodes[at].members:
        equation = kernels.traced.equations[member]
        name = equation.primitive.name
        if name in ("scan", "while") or ("sharding" in name and is_heavy(equation)):
            return True
        if policy(equation.primitive, *(value.aval for value in equation.invars), **equation.params) is True:
            return True
    return False


def _missing(kernels: Kernels, at: int, at_hand: Collection[int]) -> list[int]:
    found, waiting = set[int](), [at]
    while waiting:
        for _, (node, _) in kernels.nodes[waiting.pop()].inputs:
            if node not in at_hand and node not in found and not kernels.nodes[node].is_late:
                found.add(node)
                waiting.append(node)
    return sorted(found)


def _between(kernels: Kernels, saved: Collection[int]) -> set[int]:
    """Values on which alone the rest of the forward pass depends, beside small ones, where less lives than on average:
    one for each of about sqrt(n) parts of n such places (Chen et al., Training Deep Nets with Sublinear Memory Cost,
    2016).
    """
    forward = [at for at, node in enumerate(kernels.nodes) if node.root >= 0 and not node.is_late]
    size = {at: sum(kernels.nodes[at].sizes(kernels.traced.equations[kernels.nodes[at].root])) for at in forward}
    last = dict.fromkeys(forward, -1)
    for at in forward:
        for _, (node, _) in kernels.nodes[at].inputs:
            if node in last:
                last[node] = at
    made, places, live, total = 0, list[tuple[int, int, int]](), dict[int, int](), list[int]()
    for at in forward:
        made += size[at]
        live = {node: size[node] for node in (*live, at) if last[node] > at}
        total.append(sum(live.values()))
        most = max(live, key=lambda node: live[node], default=at)
        if live and 8 * live[most] >= 7 * total[-1] and most not in saved:
            places.append((made, most, live[most]))
    average = sum(total) / max(1, len(total))
    places = [place for place in places if place[2] <= average]
    found: dict[int, tuple[int, int, int]] = {}
    part = made / math.sqrt(len(places)) if places else 1.0
    for place in places:
        number = int(place[0] / part)
        if number not in found or place[2] < found[number][2]:
            found[number] = place
    return {node for _, node, _ in found.values()}
