"""What a step needs under Inductor, without running it: the code that Inductor has generated for the two halves runs on
tensors that have no memory, and each storage is counted from where it is made to where the code lets go of it.

Nothing is modelled: buffers that are taken over, in-place writes, views and donated arguments are in the code.
"""

from __future__ import annotations

import itertools
import linecache
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from echo_torch import costs, hooks
from echo_torch.graph import Unknown, is_dense, number
from echo_torch.made_up import Like
from echo_torch.report import Live

aten = torch.ops.aten
PLACES = (aten.empty_strided.default, aten.as_strided.default)  # they make buffers and views, and compute nothing
EMPTY = {"empty_strided_" + kind: kind.partition("_")[0] for kind in ("cpu", "cpu_pinned", "cuda", "xpu", "mtia")}
CHECKS = ("assert_size_stride", "assert_alignment")
IDLE = {"get_raw_stream": lambda _: 0, "copy_if_misaligned": lambda of: of}  # on CUDA: no kernel runs
SCRATCH = "(scratch)"
FORWARD, BACKWARD = (f"<echo: {name} half " for name in ("forward", "backward"))  # names of generated files
MOST_LIVE = 16  # storages of a peak that are told, the largest


@dataclass(frozen=True)
class Code:
    """What Inductor generates for one half: a module of Python, and the constants that it reads."""

    text: str
    constants: Mapping[str, Any]
    modules: Mapping[str, str]  # by buffer, the path of the module it belongs to, where that is known


@dataclass
class Kernel:
    """A kernel or an operator of a step, by which storages begin and end."""

    name: str
    phase: str  # "forward" or "backward"
    runs_alone: bool  # it is an operator, which Inductor fuses with nothing
    microseconds: float | None
    scratch: int  # bytes while it runs
    begins: list[Live] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)  # the kernel by which each began, and its place there


@dataclass
class Judged:
    """What a step of two halves takes."""

    peak: int = 0  # bytes above parameters and inputs
    kept: int = 0  # of them from the forward half for the backward half, with the user's results
    operators_us: float = 0.0
    moving_us: float = 0.0  # of kernels: what they read and write
    arithmetic_us: float = 0.0  # of kernels, beyond moving, which nobody but the graph knows
    at: str = ""  # the kernel at the peak; empty: autograd, which copies a gradient
    live: list[Live] = field(default_factory=list)  # at the peak, the largest first
    kernels: int = 0
    operators: set[str] = field(default_factory=set)  # that run by themselves, without their overload
    notes: list[str] = field(default_factory=list)
    ran: list[Kernel] = field(default_factory=list)  # in order; the last is autograd, which takes the gradients

    @property
    def microseconds(self) -> float:
        """Of a step."""
        return self.operators_us + self.moving_us + self.arithmetic_us


def judge(
    forward: Code,
    backward: Code,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    own: int,
    prices: costs.Prices = costs,
) -> Judged:
    """Runs both halves. `inputs`: those of the forward half; `tangents`: of the backward half, in its order; `own`: how
    many outputs of the forward half are the user's and stay. Sizes are taken by their hints, and on CUDA rounded up as
    PyTorch's allocator does. `prices`: what operators and copies take.

    Unknown: the code does what is not known here, such as a branch on a value.
    """
    mode = hooks.FakeTensorMode(allow_non_fake_inputs=True)
    with hooks.without_modes(), mode, torch.no_grad():
        given = [_alike(value) for value in inputs]
        programs = [_Program(name, code, mode) for name, code in ((FORWARD, forward), (BACKWARD, backward))]
        run = _Run(given, {program.file: program.modules for program in programs})
        with run:
            results = programs[0](list(given))
            kept, saved = results[:own], results[own:]
            del results
            run.kept = run.now()
            sizes = [value for value in saved if not isinstance(value, torch.Tensor)]
            arguments = sizes + [value for value in saved if isinstance(value, torch.Tensor)]
            del saved, sizes
            arguments += [_alike(value) for value in tangents]
            gradients = programs[1](arguments)
            run.accumulate(gradients, given)
            del kept, gradients
    found = run.judged(prices)
    for program in programs:
        linecache.cache.pop(program.file, None)
    return found


def _alike(value: Any) -> Any:
    """A tensor without memory of the same size, or the number by its hint."""
    if not isinstance(value, torch.Tensor):
        return number(value) if isinstance(value, torch.SymInt) else value
    shape, stride = ([number(n) for n in extents] for extents in (value.shape, value.stride()))
    return torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)


class _Kernel:
    """Takes the place of a kernel: it tells who asks what it reads and writes, and computes nothing."""

    def __init__(self, source: str) -> None:
        self.picks = _picked_from(source)

    def __call__(self, *args: Any, **_: Any) -> None:
        if (run := _Run.of_this_thread) is not None:
            run.kernel(args, self.picks)

    def run(self, *args: Any, **named: Any) -> None:
        self(*args, **named)

    def __getattr__(self, name: str) -> Any:
        raise Unknown(f"the generated code asks a kernel for {name}")


class _Kernels:
    """Takes the place of Inductor's compiler of kernels."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **named: None if name == "wait" else _Kernel(_longest_text(args))


def _longest_text(args: Sequence[Any]) -> str:
    """The source of a kernel, among what its compiler is given."""
    return max((value for value in args if isinstance(value, str)), key=len, default="")


def _picked_from(source: str) -> set[int]:
    """The places of the parameters that a kernel in C++ or Triton indexes only by values it has computed, such as the
    table of an embedding, of which it reads rows.
    """
    signature = re.search(r"(?:\bkernel|\bdef \w+)\(([^)]*)\)", source)
    names = re.findall(r"\b\w*_ptr\d+", signature[1]) if signature else []
    return {at for at, name in enumerate(names) if signature and _is_picked_from(name, source[signature.end() :])}


def _is_picked_from(pointer: str, body: str) -> bool:
    places = [_place(body[found.end() :]) for found in re.finditer(rf"\b{pointer}(?= \+ |\[)", body)]
    return bool(places) and all(re.search(r"\btmp\d+\b", place) for place in places)


def _place(text: str) -> str:
    """What is added to a pointer or stands in brackets behind it."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth < 0 or (depth == 0 and letter in ",]"):
            return text[:at]
    return text


class _Program:
    """The module that Inductor has generated, with nothing compiled."""

    numbers = itertools.count()

    def __init__(self, name: str, code: Code, mode: Any) -> None:
        self.file, self.modules = f"{name}{next(self.numbers)}>", code.modules
        self.names: dict[str, Any] = {"__name__": "judged"}
        with mock.patch("torch._inductor.async_compile.AsyncCompile", _Kernels):
            exec(compile(code.text, self.file, "exec"), self.names)
        if "call" not in self.names:
            raise Unknown("the generated code has no function 'call'")
        linecache.cache[self.file] = (len(code.text), None, code.text.splitlines(True), self.file)
        self.names |= {name: _emptied(device) for name, device in EMPTY.items()}
        self.names |= dict.fromkeys(CHECKS, lambda *_: None)
        self.names |= {"reinterpret_tensor": _reinterpreted} | IDLE
        for key, value in code.constants.items():
            self.names[key] = mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    def __call__(self, arguments: list[Any]) -> list[Any]:
        return list(self.names["call"](arguments))


def _emptied(device: str) -> Callable[..., torch.Tensor]:
    return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)


def _reinterpreted(of: torch.Tensor, size: Any, stride: Any, offset: int) -> torch.Tensor:
    return of.as_strided(size, stride, of.storage_offset() + offset)


@dataclass
class _Storage:
    reference: Any  # a weak one
    bytes: int
    line: tuple[str, int]
    first: int  # what runs while it is there, first and last
    last: int | None = None  # None: to the end


@dataclass
class _Work:
    """A kernel, or an operator that runs alone."""

    line: tuple[str, int]
    moved: int = 0  # bytes that the kernel reads and writes
    job: costs.Job | None = None  # of an operator
    before: Sequence[_Storage] = ()  # what was there before the operator ran
    made: int = 0  # bytes that it made


class _Run(TorchDispatchMode):
    """Follows the storages of one run."""

    of_this_thread: _Run | None = None
    supports_higher_order_operators = True

    def __init__(self, given: Sequence[Any], modules: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__()
        self.modules = modules  # by file and buffer
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self.given = {value.untyped_storage()._cdata for value in tensors}
        self.storages: dict[int, _Storage] = {}
        self.every: list[_Storage] = []
        self.peak, self.at, self.live = 0, ("", 0), list[_Storage]()
        self.kept = 0
        self.work: list[_Work] = []
        self.copied = 0  # bytes of the largest gradient that autograd copies

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __enter__(self) -> Any:
        _Run.of_this_thread = self
        return super().__enter__()

    def __exit__(self, *fault: Any) -> None:
        _Run.of_this_thread = None
        super().__exit__(*fault)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.now()
        before = list(self.storages.values())
        made = func(*args, **(kwargs or {}))
        if isinstance(func, HigherOrderOperator):
            func, args = _runs_within(func, args)
        tensors = [dense for value in pytree.tree_leaves(made) for dense in _dense(value)]
        count = len(self.every)
        for value in tensors:
            self._note(value)
        if tensors and func not in PLACES and not func.is_view:
            job = pytree.tree_map_only(torch.Tensor, Like, (func, args, kwargs or {}))
            size = sum(storage.bytes for storage in self.every[count:])
            self.work.append(_Work(_line(), job=job, before=before, made=size))
        return made

    def kernel(self, args: Sequence[Any], picks: Container[int]) -> None:
        """A generated kernel reads or writes each of these once; of those at the places `picks` no more elements than
        the others have.
        """
        tensors = {at: value for at, value in enumerate(args) if isinstance(value, torch.Tensor)}
        most = max((value.numel() for at, value in tensors.items() if at not in picks), default=None)
        moved = 0
        for at, value in tensors.items():
            count = value.numel() if most is None or at not in picks else min(value.numel(), most)
            moved += count * value.element_size()
        self.now()
        self.work.append(_Work(_line(), moved))

    def accumulate(self, gradients: Sequence[Any], given: Sequence[Any]) -> None:
        """Autograd copies a gradient that lies otherwise than its parameter, one after the other."""
        copies = [
            _rounded(made.numel() * made.element_size(), made.device)
            for made, like in zip(gradients, given, strict=False)
            if is_dense(made) and is_dense(like) and not _lie_alike(made, like)
        ]
        self.copied = max(copies, default=0)
        if self.now() + self.copied > self.peak:
            self.peak, self.at, self.live = self.now() + self.copied, ("", 0), list(self.storages.values())

    def judged(self, prices: costs.Prices) -> Judged:
        """What was found, with the scratch memory and the time of operators by these prices."""
        jobs = [work.job for work in self.work if work.job is not None]
        found, moving = iter(prices.of_jobs(jobs, self.device)), prices.moving_on(self.device)
        result = Judged(self.peak, self.kept, at=_kernel_of(self.at), kernels=len(self.work) - len(jobs))
        result.operators = {str(job[0].overloadpacket) for job in jobs}
        live = [self._told(storage) for storage in self.live]
        for work in self.work:
            name, phase = _kernel_of(work.line), "forward" if work.line[0].startswith(FORWARD) else "backward"
            if work.job is None:
                takes = moving.takes(work.moved)
                result.moving_us += takes
                result.ran.append(Kernel(name, phase, False, takes, 0))
                continue
            cost = next(found)
            if isinstance(cost, str):
                result.notes.append(f"the scratch memory of {work.job[0]} is in no prediction: {cost}")
                result.ran.append(Kernel(name, phase, True, None, 0))
                continue
            result.operators_us += cost.microseconds or 0.0
            result.ran.append(Kernel(name, phase, True, cost.microseconds, max(cost.most - work.made, 0)))
            if (needs := sum(storage.bytes for storage in work.before) + cost.most) > result.peak:
                result.peak, result.at = needs, name
                live = [*map(self._told, work.before), Live(cost.most, SCRATCH, name, "")]
        result.ran.append(Kernel("autograd", "backward", False, 0.0, self.copied))
        self._tell_lives(result.ran)
        result.live = sorted(live, key=lambda each: -each.bytes)[:MOST_LIVE]
        return result

    def _tell_lives(self, ran: Sequence[Kernel]) -> None:
        """Tells each kernel what begins and what ends by it."""
        for storage in self.every:
            begins = ran[storage.first].begins
            if (last := len(ran) - 1 if storage.last is None else storage.last) > storage.first:
                ran[last].ends.append((storage.first, len(begins)))
            begins.append(self._told(storage))

    def _told(self, storage: _Storage) -> Live:
        buffer = _buffer_of(storage.line)
        module = self.modules.get(storage.line[0], {}).get(buffer, "")
        return Live(storage.bytes, buffer, _kernel_of(storage.line), module)

    def now(self) -> int:
        """Bytes that are there; what has gone is forgotten."""
        expired = torch.UntypedStorage._expired
        for key in [key for key, storage in self.storages.items() if expired(storage.reference)]:
            storage = self.storages.pop(key)
            storage.last = len(self.work) - 1
            torch.UntypedStorage._free_weak_ref(storage.reference)
        return sum(storage.bytes for storage in self.storages.values())

    def _note(self, value: torch.Tensor) -> None:
        storage = value.untyped_storage()
        if storage._cdata in self.given or storage._cdata in self.storages:
            return
        size = _rounded(number(storage.nbytes()), value.device)
        self.storages[storage._cdata] = made = _Storage(storage._weak_ref(), size, _line(), len(self.work))
        self.every.append(made)
        if (now := self.now()) > self.peak:
            self.peak, self.at, self.live = now, _line(), list(self.storages.values())


def _runs_within(func: HigherOrderOperator, args: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The operator that runs with a random state which is kept or given, and its arguments. Unknown: another one."""
    for at, inner in enumerate(args[:2]):
        if isinstance(inner, OpOverload):
            return inner, tuple(args[at + 1 :])
    raise Unknown(f"what {func.name()} runs is not known ahead")


def _dense(value: Any) -> list[torch.Tensor]:
    """The tensors with storages that it is or, of a sparse one, consists of."""
    if isinstance(value, torch.Tensor) and value.layout == torch.sparse_coo:
        return [value._indices(), value._values()]
    return [value] if is_dense(value) else []


def _rounded(size: int, device: torch.device) -> int:
    """The bytes that the allocator hands out for a storage."""
    unit = costs.ALIGNED_ON_CUDA if device.type == "cuda" else 1
    return -(-size // unit) * unit


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors of one shape have the same strides, where it matters."""
    strides = zip(one.shape, one.stride(), other.stride(), strict=False)
    return all(first == second for extent, first, second in strides if extent > 1)


def _line() -> tuple[str, int]:
    """The line of the generated code that runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<echo: "):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def _buffer_of(line: tuple[str, int]) -> str:
    """What the line makes, as the generated code calls it; what a step begins with has no name."""
    found = re.match(r"\s*(\w+) = ", linecache.getline(*line))
    return found[1] if found else ""


def _kernel_of(line: tuple[str, int]) -> str:
    """The kernel or operator of the line, or the first behind it that takes what the line makes."""
    file, at = line
    buffer = _buffer_of(line)
    while text := linecache.getline(file, at):
        found = re.search(r"\b((?:cpp|triton)_\w+|extern_kernels\.\w+|(?:torch\.ops|aten)\.[\w.]+)(?:\.run)?\(", text)
        if found and (not buffer or re.search(rf"\b{buffer}\b", text)):
            return found[1]
        if buffer and (taken := re.match(rf"\s*(\w+) = (?:reinterpret_tensor\()?{buffer}\b", text)):
            buffer = taken[1]  # another buffer takes its memory over
        at += 1
    return ""
