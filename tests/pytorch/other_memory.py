"""A host's memory beside the CPU's own: what `echo_torch.moves` copies there lies in memory that PyTorch's allocator
has not handed out.
"""

from __future__ import annotations

import contextlib
import unittest.mock
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from echo_torch import moves


class Begun(NamedTuple):
    """A copy that nobody has waited for. It does not hold what lies on the device."""

    to: torch.Tensor | StorageWeakRef
    of: torch.Tensor | StorageWeakRef
    like: tuple[Any, ...]  # sizes, strides and kind of both

    def make(self) -> None:
        to, of = (self._there(side) for side in (self.to, self.of))
        if to is not None:
            of = torch.full_like(to, GARBAGE) if of is None else of
            to.copy_(of)

    def _there(self, side: torch.Tensor | StorageWeakRef) -> torch.Tensor | None:
        if isinstance(side, torch.Tensor):
            return side
        sizes, strides, kind = self.like
        storage = torch.UntypedStorage._new_with_weak_ptr(side.cdata)
        return None if storage is None else torch.empty(0, dtype=kind).set_(storage, 0, sizes, strides)


GARBAGE = 1  # what is there before a copy is made


class Late(moves.Ways):
    """Ways on which a copy is made as late as it may be: when somebody waits for it, with those begun before it on the
    same way. Who does not wait reads garbage, and so does who lets go of what a copy still reads.
    """

    def __init__(self, room: int | None = None) -> None:
        self.out, self.back = [], []
        self.room = room  # copies for which there is memory
        self.copies = self.most = 0
        self.hosts: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()

    def on_host(self, value: torch.Tensor) -> torch.Tensor:
        if self.room is not None and self.copies >= self.room:
            raise RuntimeError("no pinned memory\nin a second line")
        self.copies += 1
        memory = _Memory(value.nbytes)
        made = torch.frombuffer(memory, dtype=torch.uint8).view(value.dtype).as_strided(value.size(), value.stride())
        self.hosts[made.data_ptr()] = memory
        self.most = max(self.most, self.bytes)
        return made

    @property
    def bytes(self) -> int:
        """That are taken of the host's memory now."""
        return sum(map(len, self.hosts.values()))

    def is_on_host(self, value: torch.Tensor) -> bool:
        return value.data_ptr() in self.hosts

    def copy(self, way: Any, to: torch.Tensor, of: torch.Tensor) -> Callable[[], None]:
        to.fill_(GARBAGE)
        like = (to.size(), to.stride(), to.dtype)
        weak = StorageWeakRef((of if way is self.out else to).untyped_storage())
        begun = Begun(to, weak, like) if way is self.out else Begun(weak, of, like)
        way.append(begun)

        def wait() -> None:
            while any(other is begun for other in way):
                way.pop(0).make()

        return wait


class _Memory(bytearray):
    """Memory to which there may be weak references."""


@contextlib.contextmanager
def other_memory(room: int | None = None) -> Iterator[Late]:
    """Within it the CPU counts as a device with memory of its own. `room`: copies for which the host has memory."""
    ways = Late(room)
    with unittest.mock.patch.object(moves, "ways_of", lambda _: ways):
        moves._no_room.clear()
        try:
            yield ways
        finally:
            moves._no_room.clear()
