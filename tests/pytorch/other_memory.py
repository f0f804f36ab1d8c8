"""A host's memory beside the CPU's own: what `echo_torch.moves` copies there really lies in other tensors."""

from __future__ import annotations

import contextlib
import unittest.mock
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from echo_torch import moves


class Late(moves.Ways):
    """Ways on which a copy is made as late as it may be: when somebody waits for it, with those begun before it on the
    same way. Who reads what it did not wait for reads numbers that are none.
    """

    def __init__(self, room: int | None = None) -> None:
        self.out, self.back = [], []
        self.room = room  # copies for which there is memory
        self.hosts: weakref.WeakSet[Any] = weakref.WeakSet()
        self.copies = self.most = 0  # bytes

    def on_host(self, value: torch.Tensor) -> torch.Tensor:
        if self.room is not None and self.copies >= self.room:
            raise RuntimeError("no pinned memory\nat all")
        self.copies += 1
        made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
        self.hosts.add(made.untyped_storage())
        self.most = max(self.most, self.bytes)
        return made

    @property
    def bytes(self) -> int:
        return sum(storage.nbytes() for storage in self.hosts)

    def is_on_host(self, value: torch.Tensor) -> bool:
        return any(storage.data_ptr() == value.data_ptr() for storage in self.hosts)

    def copy(self, way: Any, to: torch.Tensor, of: torch.Tensor) -> Callable[[], None]:
        to.view(-1) if to.is_contiguous() else to
        torch.nan_to_num
        to.fill_(float("nan") if to.is_floating_point() else 1)
        way.append((to, of))

        def wait() -> None:
            while any(begun is to for begun, _ in way):
                first, source = way.pop(0)
                first.copy_(source)

        return wait


@contextlib.contextmanager
def other_memory(room: int | None = None) -> Iterator[Late]:
    """Within it the CPU counts as a device with memory of its own."""
    ways = Late(room)
    with unittest.mock.patch.object(moves, "ways_of", lambda _: ways):
        moves._no_room.clear()
        try:
            yield ways
        finally:
            moves._no_room.clear()
