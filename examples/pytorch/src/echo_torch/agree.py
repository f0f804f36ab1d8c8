"""All ranks of a job use the same plans, or all of them PyTorch's own partition; nobody waits for ever.

Ranks talk through the store of the process group, not through collectives: a rank that compiles less often than others
lets them time out, and the first word on a graph, for or against, is every rank's.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from echo_torch import say

SECONDS = 180.0  # to wait for a rank; more than planning takes
SECONDS_TO_BEGIN = 60.0  # until the first rank compiles the same graph; one that has a graph for itself waits in vain

_count = itertools.count()
_given_up = False


class Agreement:
    """What the ranks settle about one graph."""

    def __init__(self, alone: bool = False) -> None:
        ranks = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        self.alone = alone or ranks <= 1 or dist.get_backend() == "fake"
        if not self.alone:
            self.rank, self.world = dist.get_rank(), ranks
            self.store = dist.PrefixStore(f"echo/{next(_count)}", dist.distributed_c10d._get_default_store())
            if self.rank == 0:
                self.store.set("begun", "yes")

    def share(self, make: Callable[[], Any], name: str = "table", times: float = 1) -> Any:
        """What the first rank makes, on every rank; each thing has a name of its own. `times`: how much longer than for
        a plan the others wait.
        """
        if self.alone:
            return make()
        if self.rank == 0:
            made = make()
            self.store.set(name, json.dumps(made))
            return made
        self._wait(name, times)
        return json.loads(self.store.get(name))

    def on(self, digest: str | None) -> bool:
        """Whether all ranks have the same plan for the same graph. None: this one has no plan."""
        if self.alone:
            return digest is not None
        self.store.set(f"plan{self.rank}", digest or "none")
        verdict = "no" if digest is None or _given_up else ""
        try:
            if not verdict and self.rank == 0:
                for rank in range(self.world):
                    self._wait(f"plan{rank}")
                said = {self.store.get(f"plan{rank}").decode() for rank in range(self.world)}
                verdict = "yes" if said == {digest} else "no"
            elif not verdict:
                self._wait("verdict", times=2)
        except dist.DistError:
            verdict = "no"
        settled = self.store.compare_set("verdict", "", verdict) if verdict else self.store.get("verdict")
        return settled == b"yes" and digest is not None

    def _wait(self, key: str, times: float = 1) -> None:
        """Who has waited in vain once, for a plan or for a table, does not wait again."""
        global _given_up
        try:
            with say.busy("waiting for other ranks"):
                for name, seconds in (("begun", SECONDS_TO_BEGIN), (key, times * SECONDS)):
                    self.store.wait([name], datetime.timedelta(seconds=0.01 if _given_up else seconds))
        except dist.DistError:
            _given_up = True
            raise
