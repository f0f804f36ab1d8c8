"""The partitioner for Inductor: its plans are judged by the code that Inductor generates for them; and the same for a
step that is not compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from typing_extensions import Unpack

from echo_torch import _core, _distrust, hooks, lowered, partition, say
from echo_torch.options import Asked, Options, options_of
from echo_torch.report import Report


class Partitioner(CustomPartitionerFn):
    """For `torch._inductor.config.custom_partitioner_fn`."""

    def __init__(self, **asked: Unpack[Asked]) -> None:
        hooks.require(*hooks.TO_PARTITION)
        self.options, self.distrust = options_of(asked), _distrust()

    def __call__(self, gm: Any, joint_inputs: Any, **more: Any) -> Any:
        more.pop("compiler", None)
        say.show_on_terminal()
        made = partition.partition(
            gm, joint_inputs, options=self.options, lowered_as=lowered.step_of, distrust=self.distrust, **more
        )
        say.tell()
        return made

    def uuid(self) -> Any:
        sources = get_hash_for_files(tuple(str(file) for file in sorted(Path(__file__).parent.glob("*.py"))))
        version: str = _core.version
        return version, repr(self.options), self.distrust, sources


def traced_as() -> dict[str, Any]:
    """How Inductor lets AOTAutograd trace a step."""
    # Not before they are needed: it takes a second. Decompositions, such as that of pooling, look for lowerings.
    from torch._inductor import lowering  # noqa: F401
    from torch._inductor.decomposition import select_decomp_table

    return {"decompositions": select_decomp_table(), "keep_inference_input_mutations": True}


def judged(joint: fx.GraphModule, count: int, mode: Any, asked: Sequence[Options]) -> list[Report]:
    """What becomes of a step under Inductor by each of these options, as it was traced with fake tensors of this mode:
    it is lowered and not compiled. `count` outputs are the forward half's. BudgetError: a budget has to be met, and is
    not.
    """
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    found: list[Report] = []

    def each(*given: Any, **more: Any) -> Any:
        for options in asked:
            found.append(Report())  # of no step that is compiled
            made = partition.halves_of_joint(
                found[-1], *given, options=options, lowered_as=lowered.step_of, distrust=_distrust(), **more
            )
        return made

    places = joint.graph.find_nodes(op="placeholder")
    tangents = [node.meta["val"] for node in places if "tangents" in str(node.target)]
    inputs = [node.meta["val"] for node in places[: len(places) - len(tangents)]], tangents
    static = sorted(joint.meta["static_lifetime_input_indices"])
    with torch._guards.tracing(torch._guards.TracingContext(mode)), V.set_fake_mode(mode), mode:
        compile_fx.partition_fn(
            joint,
            inputs,
            partitioner_fn_override=each,
            num_fwd_outputs=count,
            static_lifetime_input_indices=static,
        )
    return found
