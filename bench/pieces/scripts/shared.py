# SPDX-License-Identifier: BSL-1.0
"""What the training scripts share: compiling by a backend, saving, and being watched step by step."""
from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Watch:
    """Is told where a training step begins, before the forward pass, and where it ends, after the backward pass. This
    one does nothing; others measure.
    """

    def epochs(self, usual: int) -> int:
        """How many epochs are trained instead of the script's own number."""
        return usual

    def begin(self) -> None:
        """Called before the forward pass."""

    def end(self) -> None:
        """Called after the backward pass."""

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        self.begin()
        yield
        self.end()


UNWATCHED = Watch()


def compiled(module: nn.Module, backend: Any, **options: Any) -> Any:
    """The module, compiled by a backend; None leaves it as it is."""
    return module if backend is None else torch.compile(module, backend=backend, **options)


def batches(*data: Tensor, size: int, shuffle: bool = False, drop_last: bool = False) -> DataLoader[Any]:
    """A loader over tensors; its order is drawn from a generator of its own."""
    order = torch.Generator().manual_seed(5)
    return DataLoader(TensorDataset(*data), size, shuffle, drop_last=drop_last, generator=order)


def saved(what: Any) -> Any:
    """What a file gives back after `torch.save`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        torch.save(what, path)
        return torch.load(path, weights_only=False)


def trained(losses: Iterable[Tensor | float], *modules: nn.Module) -> list[Tensor]:
    """What is compared: the losses in order, then parameters and buffers."""
    told = [torch.as_tensor(loss).detach().clone() for loss in losses]
    return told + [value.detach().clone() for module in modules for value in module.state_dict().values()]
