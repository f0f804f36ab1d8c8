"""The partitioner for Inductor: its plans are judged by the code that Inductor generates for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files
from typing_extensions import Unpack

from echo_torch import _core, _distrust, hooks, lowered, partition, say
from echo_torch.options import Asked, options_of


class Partitioner(CustomPartitionerFn):
    """For `torch._inductor.config.custom_partitioner_fn`. Random operators do not run again under it."""

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
