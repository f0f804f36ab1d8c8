"""Parts of a step between whose halves others run: what such parts keep there adds up, and is what plans make least."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from echo_torch import hooks
from echo_torch.breaks import count_alike
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


@dataclass(frozen=True)
class Alike:
    """Parts of a step that are alike and run one after the other, such as the blocks of a model."""

    count: int = 1
    gradients: int = 0  # bytes that each gives its parameters

    def above(self, default_kept: int, kept: int) -> int:
        """Bytes by which the peak of one part may lie above its default's, so that no step of all of them needs more:
        while one runs backwards, the others keep what waits in them, or have their gradients.
        """
        return (self.count - 1) * max(default_kept - max(kept, self.gradients), 0)


def alike(host: Host, static: Collection[int]) -> Alike:
    """The parts like the one that TorchDynamo compiles now. Where a checkpoint around a part runs it again, the others
    keep nothing in the meantime, and it counts as one alone.
    """
    if hooks.saved_hooks is None or hooks.backward_pass is None:
        return Alike()
    if hooks.saved_hooks(True) is not None or hooks.backward_pass() >= 0:
        return Alike()
    outputs = enumerate(host.outputs[host.num_fwd_outputs :])
    gradients = [node for at, node in outputs if at in static and isinstance(node, fx.Node)]
    return Alike(count_alike(), sum(describe(node.meta["val"]).bytes for node in gradients))


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
