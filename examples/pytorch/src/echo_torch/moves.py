"""Values of a plan that wait in the host's memory while nothing needs them; copies travel beside the computation.

A plan has two steps for it (docs/formats.md, "Offload"), and the halves four calls:
- `leave` begins the copy, when the value is made; copies leave in the order of the plan's steps;
- `left` stands for the plan's step `offload`: the computation waits for the copy, and nothing holds the value any more;
- `come_back` stands for the step `reload`: it begins the copy back, to fresh storage;
- `came_back` stands before the first reader, which waits for that copy.

The copy has the value's sizes, strides and bits. What cannot be copied so stays: `leave` gives back the value itself,
and so do the other three.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from echo_torch import hooks, reuse
from echo_torch.options import OptionError, Options
from echo_torch.say import warn_once

Wait = Callable[[], None]


class Ways:
    """The ways between a CUDA device and pinned memory of the host, a stream each. PyTorch's allocator of pinned memory
    keeps what was freed, and hands nothing out before the copies that use it have ended.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.out, self.back = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def on_host(self, value: torch.Tensor) -> torch.Tensor:
        """Memory of the host that is laid out as a value is. RuntimeError: there is none."""
        return torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device="cpu", pin_memory=True, requires_grad=False
        )

    def is_on_host(self, value: torch.Tensor) -> bool:
        return value.device.type == "cpu"

    def copy(self, way: Any, to: torch.Tensor, of: torch.Tensor) -> Wait:
        """Begins a copy behind all that the computation has begun; returns what lets the computation wait for it."""
        way.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(way), torch.no_grad():
            to.copy_(of, non_blocking=True)
            ended = way.record_event()
        return lambda: torch.cuda.current_stream(self.device).wait_event(ended)


_of_cuda = functools.cache(Ways)


def ways_of(device: torch.device) -> Ways | None:
    """The ways between a device and the host. None: its memory is the host's, or it has no streams that are known."""
    if device.type != "cuda" or not torch.cuda.is_available() or hooks.saved_hooks is None:
        return None
    return _of_cuda(torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index))


def require_device(options: Options) -> None:
    """OptionError: values are to move to the host's memory, and there is no other."""
    if options.offload and ways_of(torch.device("cuda" if torch.cuda.is_available() else "cpu")) is None:
        raise OptionError(
            f"offload={options.offload!r} moves values from a GPU's memory to the host's, and no GPU is here: leave it "
            "out, or ask echo_torch.estimate(…, offload='25GB/s') what it would give"
        )


# ---- While training


_waits: dict[int, Wait] = {}  # for copies that leave, by the address on the host
_no_room = threading.Event()  # no pinned memory was to be had


class Coming:
    """A value on its way back. If it goes before anybody has waited, the computation waits: its memory is reused."""

    __slots__ = ("value", "wait")

    def __init__(self, value: torch.Tensor, wait: Wait | None) -> None:
        self.value, self.wait = value, wait

    def take(self) -> torch.Tensor:
        """The value, for the steps of the computation that follow."""
        wait, self.wait = self.wait, None
        if wait is not None:
            wait()
        return self.value

    def __del__(self) -> None:
        self.take()


def leave(value: torch.Tensor) -> torch.Tensor:
    """Begins to copy a value to the host's memory: that copy. The value must stay until `left` has waited."""
    if _no_room.is_set() or not _is_whole(value) or (ways := ways_of(value.device)) is None:
        return value
    try:
        away = ways.on_host(value)
    except RuntimeError as fault:
        _no_room.set()
        first_line = next(iter(str(fault).splitlines()), "")
        warn_once(f"Echo moves no more values to the host, which has no pinned memory for them: {first_line}")
        return value
    _waits[away.data_ptr()] = ways.copy(ways.out, away, value)
    return away


def left(away: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Waits until the copy of the value has been made: that copy. Where it is waited for again, it was made long ago:
    the graph is retained.
    """
    if (wait := _waits.pop(_address(away) or 0, None)) is not None:
        wait()
    return away


def come_back(away: torch.Tensor, device: str) -> Coming:
    """Begins to copy a value back."""
    ways = ways_of(torch.device(device))
    if ways is None or not ways.is_on_host(away):
        return Coming(away, None)
    value = torch.empty_strided(away.size(), away.stride(), dtype=away.dtype, device=device, requires_grad=False)
    return Coming(value, ways.copy(ways.back, value, away))


def came_back(coming: Coming) -> torch.Tensor:
    """The value, for which the steps that follow wait."""
    return coming.take()


CALLS = (leave, left, come_back, came_back)


def _is_whole(value: Any) -> bool:
    """Whether a copy of the same sizes and strides holds all that lies on the value's storage. No hook of the user's
    looks at what is saved: it would read the copy before that is made.
    """
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return False
    if hooks.saved_hooks(False) is not None or not _address(value) or value.storage_offset() != 0:
        return False
    return reuse.is_dense(value) and value.nbytes == value.untyped_storage().nbytes()


def _address(value: torch.Tensor) -> int | None:
    """Where it lies; None: nowhere, as under `vmap`."""
    try:
        return value.data_ptr()
    except RuntimeError:
        return None
