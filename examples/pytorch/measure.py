"""What training steps need and give: the allocator's own count of memory, processor time, losses
and gradients.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from models import Step
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Trained:
    """Some steps of training. `peak` is in bytes, above what was there when the step began."""

    digests: list[str] = field(default_factory=list)  # of losses, gradients and buffers of each step
    peak: int = 0
    reserved: int = 0  # on CUDA: what the allocator took from the device
    first_seconds: float = 0.0  # of the first step, compiling included


class Training:
    """A model that is trained with one backend of `torch.compile`; None runs it eagerly. Two of the same backend and
    options share what was compiled.
    """

    def __init__(
        self,
        build: Callable[[], Step],
        backend: Any,
        device: str = "cpu",
        seed: int = 1,
        options: dict[str, Any] | None = None,
    ) -> None:
        torch.manual_seed(seed)
        step = build()
        self.device = device
        self.module = step.module.to(device).train()
        inputs = step.inputs if isinstance(step.inputs, dict) else list(step.inputs)
        move = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), (inputs, step.labels))
        self.inputs, self.labels = move
        self.loss_fn = step.loss_fn
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3)
        compiled = torch.compile(self._loss, backend=backend, options=options) if backend is not None else None
        self.call = compiled or self._loss

    def _loss(self, inputs: Any, labels: Any) -> torch.Tensor:
        output = self.module(**inputs) if isinstance(inputs, dict) else self.module(*inputs)
        return self.loss_fn(output, *labels)

    def backward(self) -> torch.Tensor:
        loss = self.call(self.inputs, self.labels)
        loss.backward()
        return loss.detach()

    def train(self, steps: int, seed: int = 2) -> Trained:
        """Some steps from one seed of the generator; the last one's memory is counted."""
        result = Trained()
        begun = time.perf_counter()
        for step in range(steps):
            torch.manual_seed(seed + step)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.backward() if step + 1 < steps else self._counted(result)
            if step == 0:
                result.first_seconds = time.perf_counter() - begun
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            buffers = list(self.module.buffers())
            result.digests += [digest(value) for value in (loss, *gradients, *buffers)]
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return result

    def timed(self) -> float:
        """Seconds of one step without the optimiser: processor time on a CPU."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.device == "cpu":
            begun = time.process_time()
            self.backward()
            return time.process_time() - begun
        torch.cuda.synchronize()
        begun = time.perf_counter()
        self.backward()
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    def tracked(self) -> int:
        """The peak of one more step by `storage_peak`, above what was there when it began."""
        self.optimizer.zero_grad(set_to_none=True)
        return storage_peak(self.backward)[1]

    def _counted(self, result: Trained) -> torch.Tensor:
        if self.device == "cpu":
            loss, result.peak = allocator_peak(self.backward)
            return loss
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss = self.backward()
        torch.cuda.synchronize()
        result.peak = torch.cuda.max_memory_allocated() - before
        result.reserved = torch.cuda.max_memory_reserved()
        return loss


def digest(value: torch.Tensor) -> str:
    """Equal only for tensors of the same bits."""
    plain = value.detach().cpu().contiguous()
    return hashlib.sha1(plain.view(-1).view(torch.uint8).numpy().data).hexdigest() if plain.numel() else ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The profiler tells the process's standard error of every start, and of every GPU that is
    missing.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class Storages(TorchDispatchMode):
    """Counts the bytes of the storages that operators make while it is open, until each is freed.
    What an operator allocates and frees within itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # else what is compiled would run eagerly while it is open

    def __torch_dispatch__(self, target: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, torch.Tensor):
                self._see(value.untyped_storage(), 0)
        made = target(*args, **(kwargs or {}))
        for value in tree_leaves(made):
            if isinstance(value, torch.Tensor):
                self._see(value.untyped_storage(), value.untyped_storage().nbytes())
        self.peak = max(self.peak, self.now)
        return made

    def _see(self, storage: torch.UntypedStorage, size: int) -> None:
        """What was there before counts nothing; memory of other devices neither."""
        key = storage._cdata
        if key in self.known or storage.device.type == "meta":
            return
        self.known.add(key)
        self.now += size
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def storage_peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """What the call returns, and the most bytes that lay in storages made during it."""
    with Storages() as watched:
        result = call()
    return result, watched.peak


def allocator_peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """What the call returns, and the most bytes that the CPU's allocator had handed out during it."""
    with profiled() as profile:
        result = call()
    return result, peak_of(profile)


@contextlib.contextmanager
def profiled() -> Iterator[torch.profiler.profile]:
    """Records what runs in this thread while it is open, and what the CPU's allocator hands out."""
    cpu = torch.profiler.ProfilerActivity.CPU
    profile = torch.profiler.profile(activities=[cpu], profile_memory=True)
    with _quiet():
        profile.start()
    try:
        yield profile
    finally:
        with _quiet():
            profile.stop()


def peak_of(profile: torch.profiler.profile) -> int:
    """The most bytes that the CPU's allocator had handed out, beyond those from before the profile."""
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak
