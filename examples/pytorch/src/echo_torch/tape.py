"""What a step reads of its data: recorded by running it once, given back while it is traced without data.

A model whose Python code depends on values, as that of detectors does, has one graph for each set of inputs. Run
forward once, on the inputs that are given, it tells the values that it reads and the shapes that depend on them; the
tracer then goes the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from echo_torch import hooks
from echo_torch.faults import StepError

TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
PYTORCHS = ("aten", "prims", "prim", "profiler")
Entry = tuple[str, Any]  # an operator, and what it returned


def depends_on_data(operator: Any) -> bool:
    """Whether what the operator returns, or its shape, may depend on values; of others' operators it may."""
    return any(tag in TAGS for tag in operator.tags) or operator.namespace not in PYTORCHS


class Recorder(TorchDispatchMode):
    """Writes down what operators return whose results depend on data."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if depends_on_data(func):
            described = pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), made)
            self.entries.append((str(func), described))
        return made


def unlike() -> StepError:
    """The step does not read what it read when it was recorded."""
    fault = StepError("the step reads other data when it is run again")
    fault.on_data = True
    return fault


@functools.cache
def _kind_of_mode() -> Any:
    class Replaying(hooks.FakeTensorMode):
        """Fake tensors, with the results of a recorder where they depend on data."""

        entries: list[Entry] = []
        at = 0

        def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.index_put.default:  # whose mask has as many places as were chosen before
                with self:
                    return torch.empty_like(args[0])
            if self.at >= len(self.entries) or not depends_on_data(func):
                return super().dispatch(func, types, args, kwargs or {})
            name, made = self.entries[self.at]
            if name != str(func):
                raise unlike()
            self.at += 1
            read = next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))

            def fake(described: torch.Tensor) -> torch.Tensor:
                with self:
                    shape, stride = described.shape, described.stride()
                    return torch.empty_strided(shape, stride, dtype=described.dtype, device=read.device)

            return pytree.tree_map_only(torch.Tensor, fake, made)

    return Replaying


def replaying(entries: list[Entry]) -> Any:
    """A mode of fake tensors that gives the entries back, from the first on whenever its `at` is set to 0."""
    mode = _kind_of_mode()(allow_non_fake_inputs=True)
    mode.entries = entries
    return mode


def recorded(step: Callable[[], Any]) -> list[Entry]:
    """Runs a step without gradients, and leaves random generators as they were."""
    recorder = Recorder()
    with torch.random.fork_rng(), torch.no_grad(), recorder:
        step()
    return recorder.entries
