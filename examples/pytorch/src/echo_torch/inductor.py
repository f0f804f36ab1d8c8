"""The partitioner for Inductor: its plans are judged by the code that Inductor generates for them; and the same for a
step that is not compiled.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from typing_extensions import Unpack

from echo_torch import _core, _distrust, capture, hooks, lowered, partition, say
from echo_torch import card as cards
from echo_torch.card import Card
from echo_torch.faults import StepError
from echo_torch.options import Asked, Options, options_of
from echo_torch.report import Report


class Partitioner(CustomPartitionerFn):
    """For `torch._inductor.config.custom_partitioner_fn`."""

    def __init__(self, **asked: Unpack[Asked]) -> None:
        hooks.require(*hooks.TO_PARTITION)
        self.options, self.distrust = options_of(asked), _distrust()
        self.options.refuse_offload("under Inductor")

    def __call__(self, gm: Any, joint_inputs: Any, **more: Any) -> Any:
        say.show_on_terminal()
        made = self.halves(gm, joint_inputs, **more)
        say.tell()
        return made

    def halves(self, gm: Any, joint_inputs: Any, **more: Any) -> Any:
        """The halves of a joint graph that Inductor compiles."""
        more.pop("compiler", None)
        return partition.partition(
            gm, joint_inputs, options=self.options, lowered_as=lowered.step_of, distrust=self.distrust, **more
        )

    def uuid(self) -> Any:
        sources = get_hash_for_files(tuple(str(file) for file in sorted(Path(__file__).parent.glob("*.py"))))
        version: str = _core.version
        return version, repr(self.options), self.distrust, sources


class OfBackend(Partitioner):
    """The partitioner for one graph of the backend `echo`. What it decides is told when the graph's step is whole.

    `watched` is the graph, and `names` are those of its inputs in the user's code.
    """

    def __init__(self, options: Options, distrust: str | None, watched: Any, names: Sequence[str]) -> None:
        self.options, self.distrust, self.watched, self.names = options, distrust, watched, names

    def __deepcopy__(self, _: Any) -> OfBackend:
        return self  # Inductor copies its settings

    def __reduce__(self) -> Any:  # and pickles them, to name what it keeps
        return _partitioner_of, (asdict(self.options),)

    def __call__(self, gm: Any, joint_inputs: Any, **more: Any) -> Any:
        return self.watched.divide(functools.partial(self.halves, names=self.names))(gm, joint_inputs, **more)


def _partitioner_of(options: dict[str, Any]) -> Partitioner:
    return Partitioner(**options)


def traced_as() -> dict[str, Any]:
    """How Inductor lets AOTAutograd trace a step."""
    # Not before they are needed: it takes a second. Decompositions, such as that of pooling, look for lowerings.
    from torch._inductor import lowering  # noqa: F401
    from torch._inductor.decomposition import select_decomp_table

    return {"decompositions": select_decomp_table(), "keep_inference_input_mutations": True}


def joint_graph(module: Any, loss_fn: Any, asked: Any, card: Card | None) -> tuple[fx.GraphModule, Any, int]:
    """The joint graph of a step, as Inductor lets it be traced and what `capture.joint_graph` tells of it: on the
    device of its tensors, or on this card. `asked`: inputs and labels. StepError: it cannot be traced.
    """
    with cards.tracing() if card else contextlib.nullcontext():
        try:
            joint, paths, count = capture.joint_graph(module, loss_fn, *asked, **traced_as())
        except StepError as fault:
            if cards.NO_AUTOCAST not in str(fault):
                raise
            raise StepError(
                "torch.autocast('cuda') casts nothing on a machine without a card: "
                "write torch.autocast('cpu', torch.bfloat16) in the step that is estimated"
            ) from fault
    if card:
        cards.move(joint, mode_of(joint))
    return joint, paths, count


def mode_of(joint: fx.GraphModule) -> Any:
    """The mode of the fake tensors that a graph was traced with."""
    values = (node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder"))
    return next(mode for value in values if (mode := getattr(value, "fake_mode", None)) is not None)


def judged(joint: fx.GraphModule, count: int, asked: Sequence[Options], card: Card | None) -> list[Report]:
    """What becomes of a step under Inductor by each of these options: it is lowered and not compiled, for this card or
    for the device of its tensors. `count` outputs are the forward half's. BudgetError: a budget has to be met, and is
    not.
    """
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    found: list[Report] = []
    lowered_as, mode = functools.partial(lowered.step_of, card=card), mode_of(joint)

    def each(*given: Any, **more: Any) -> Any:
        for options in asked:
            found.append(Report())  # of no step that is compiled
            made = partition.halves_of_joint(
                found[-1], *given, options=options, lowered_as=lowered_as, distrust=_distrust(), **more
            )
        return made

    places = joint.graph.find_nodes(op="placeholder")
    tangents = [node.meta["val"] for node in places if "tangents" in str(node.target)]
    inputs = [node.meta["val"] for node in places[: len(places) - len(tangents)]], tangents
    static = sorted(joint.meta["static_lifetime_input_indices"])
    lowering = cards.standing_in(card) if card else contextlib.nullcontext()
    with lowering, torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode), mode:
        compile_fx.partition_fn(
            joint,
            inputs,
            partitioner_fn_override=each,
            num_fwd_outputs=count,
            static_lifetime_input_indices=static,
        )
    return found
