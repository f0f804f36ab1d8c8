"""Parts of a step between whose halves others run: what such parts keep there adds up, and is what plans make least."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import fx

from echo_torch.graph import Call, describe
from echo_torch.host import Host

# Times the default's peak that are added where the backward half begins: the planner sees nothing but what waits there.
FAR_ABOVE = 4
LOWER_PEAKS = 2  # plans that are tried instead of one whose peak is above the default's


def others_follow(host: Host) -> bool:
    """Whether another part of the step may run behind the forward half: it makes more for it than single numbers, such
    as a loss.
    """
    return any(describe(node.meta["val"]).shape for node in host.tangents if "val" in node.meta)


def is_inner(host: Host, static: Collection[int]) -> bool:
    """Whether other parts of the step run before it and behind its forward half: an input that is no parameter gets a
    gradient, as that of a block which is compiled by itself. `static`: the places of parameters and buffers among the
    inputs.
    """
    gradients = host.outputs[host.num_fwd_outputs :]
    follows = any(isinstance(gradient, fx.Node) and at not in static for at, gradient in enumerate(gradients))
    return follows and others_follow(host)


def with_bytes(facts: Sequence[dict[str, Any]], calls: Sequence[Call], between: int) -> list[dict[str, Any]]:
    """The facts of these calls, with so many bytes added where the backward half begins."""
    first = next(at for at, call in enumerate(calls) if call.phase == "backward")
    changed = facts[first] | {"workspace": facts[first]["workspace"] + between}
    return [*facts[:first], changed, *facts[first + 1 :]]


def fewer(between: int, peak: int, kept: int, over: int) -> int:
    """The bytes to add where the backward half begins so that a plan which keeps `kept` bytes there needs no more than
    the default at its peak. With `between` of them it needs `over` bytes more than the default, whose peak is `peak`.
    """
    return max(min(peak - kept, between - over), 0)
