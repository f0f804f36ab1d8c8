"""What operators cost where the model runs: time and scratch memory, measured once and kept in a file.

Where nothing is measured the planner's own model of a device counts instead, for all operators alike.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import itertools
import json
import operator
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import fx
from torch.utils import _pytree as pytree

from echo_torch import forked, hooks, say
from echo_torch.graph import (
    FLOP_FORMULAS,
    Call,
    aten,
    device_of,
    is_collective,
    is_own,
    number,
    runs_for_effect,
    tensor_arguments,
    written_arguments,
)
from echo_torch.host import Host, get_state, set_state
from echo_torch.made_up import LEAST, MOST, USUAL, Data, Like
from echo_torch.where import named, operator_of

Job = tuple[Any, Any, Any]  # an operator and its arguments, tensors as `Like`
REPEATS, ENOUGH_SECONDS = 5, 0.05
SECONDS_FOR_USERS = 10.0  # that an operator of the user's may take
# Arguments that hold what only the operator that made them understands: another would crash on them.
OPAQUE = ("reserve", "reserveSpace", "workspace")
COMMUNICATES = ("c10d", "_c10d_functional_autograd", "_dtensor", "symm_mem")
# Numbers of 4 bytes whose copies into new memory are timed: in caches, beyond them, and where memory is mapped anew.
COPIED = (1, *(1 << k for k in range(12, 26, 2)))
COPIED_TO_HOST = 1 << 28  # bytes whose copies to pinned memory of the host and back are timed
ALIGNED_ON_CUDA = 512  # bytes, the least block of PyTorch's caching allocator
LEAST_TOLD = 1 << 16  # bytes; where scratch memory depends less on data than that, nobody is told


class Cost(NamedTuple):
    """What one run of an operator costs. Bytes are above its inputs: the most that it holds at a time, what is left of
    that in its results, and the most that it holds on data for which it needs least.
    """

    microseconds: float | None
    most: int
    left: int
    least: int


def alignment_of(host: Host) -> int:
    """The bytes to whose multiples the allocator rounds up."""
    return ALIGNED_ON_CUDA if any(device_of(call.node).type == "cuda" for call in host.calls) else 64


def job_of(call: Call) -> Job | str | None:
    """The call to measure. None: it takes no time or memory of its own. A text: why it cannot be measured."""
    node, target = call.node, call.node.target
    if node.op != "call_function" or call.kind == "view" or call.part in ("stats", "state"):
        return None
    if runs_for_effect(node) or is_collective(node):
        return None
    if written_arguments(target) and target is not aten.copy_.default:
        return "it writes to an argument"
    if str(target) == "with_effects":  # of PyTorch's own operators, such as checks, it takes no memory
        return None if is_own(node.args[1]) else f"{node.args[1]} has effects"
    if getattr(target, "namespace", "") in COMMUNICATES:
        return "it communicates with other ranks"
    if any(name in OPAQUE for name, _ in tensor_arguments(node)):
        return "an argument holds what only another operator can make"
    module = node.graph.owning_module

    def like(value: Any) -> Any:
        if isinstance(value, fx.Node):
            is_module = value.op == "get_attr" and "val" not in value.meta
            value = operator.attrgetter(str(value.target))(module) if is_module else value.meta.get("val")
        if isinstance(value, torch.Tensor):
            return Like(value)
        return number(value) if isinstance(value, torch.SymInt) else value

    args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), like)
    if call.part == "product":
        mask = Like(node.meta["val"][1])
        return aten.native_dropout_backward.default, (args[0], mask, 2.0), {}
    return target, args, kwargs


class Filled(NamedTuple):
    """What became of the costs of a graph."""

    new: int  # operators that were not known yet
    notes: list[str]  # what the user should know of the prediction
    file: Path
    keys: frozenset[str]  # in that file

    def forget(self) -> None:
        """Drops these costs from the file, so that they are measured again when a graph needs them next."""
        known = _load(self.file)
        _save(self.file, {key: cost for key, cost in known.items() if key not in self.keys})


def fill(host: Host, share: Callable[[Any], Any]) -> Filled:
    """Writes times and scratch memory into the calls of a host. `share` gives every rank the first one's table."""
    device = next((device_of(call.node) for call in host.calls if call.phase != "input"), torch.device("cpu"))
    jobs = {index: job for index, call in enumerate(host.calls) if (job := job_of(call)) is not None}
    found: dict[int, Cost | str] = {index: job for index, job in jobs.items() if isinstance(job, str)}
    measurable = {index: job for index, job in jobs.items() if not isinstance(job, str)}
    keys = {index: _key(job) for index, job in measurable.items()}
    path = _path(device)
    known = _load(path)
    missing = {key: measurable[index] for index, key in keys.items() if key not in known and key not in _of_users}
    shared = _costs(share(lambda: _table(list(keys.values()), missing, known, device)))
    found |= {index: shared[key] for index, key in keys.items() if key in shared}
    _apply(host, {index: cost for index, cost in found.items() if not isinstance(cost, str)})
    return Filled(len(missing), _notes(host, found), path, frozenset(keys.values()))


def of_jobs(jobs: Sequence[Job], device: torch.device) -> list[Cost | str]:
    """What each job costs. A text: why it could not be measured."""
    told = {index: text for index, job in enumerate(jobs) if (text := _communicates(job[0]))}
    keys = [_key(job) for job in jobs]
    known = _load(_path(device))
    missing = {
        key: jobs[index]
        for index, key in enumerate(keys)
        if index not in told and key not in known and key not in _of_users
    }
    found = _table([key for index, key in enumerate(keys) if index not in told], missing, known, device)
    return [told[index] if index in told else found[key] for index, key in enumerate(keys)]


class Moving(NamedTuple):
    """What it takes to move bytes on a device: measured for copies of several sizes, the smallest first."""

    bytes: Sequence[int]  # that are read or written
    microseconds: Sequence[float]

    def takes(self, moved: int) -> float:
        """Microseconds, by the copies that move a little less and a little more."""
        above = min(max(bisect.bisect(self.bytes, moved), 1), len(self.bytes) - 1)
        (less, more), (sooner, later) = (of[above - 1 : above + 1] for of in self)
        return sooner + max(moved - less, 0) * max(later - sooner, 0.0) / (more - less)


class Prices(Protocol):
    """Who says what operators and copies take: this module, which measures them on a device, or a `card.Card`."""

    def of_jobs(self, jobs: Sequence[Job], device: torch.device, /) -> list[Cost | str]: ...

    def moving_on(self, device: torch.device, /) -> Moving: ...


def moving_on(device: torch.device) -> Moving:
    """What moving takes on a device; nothing where no copy can be measured."""

    def copied(elements: int) -> Job:
        block = Like(torch.empty(elements, device=device))
        return aten.clone.default, (block,), {}

    found = of_jobs([copied(elements) for elements in COPIED], device)
    times = [cost.microseconds or 0.0 if isinstance(cost, Cost) else 0.0 for cost in found]
    return Moving([8 * elements for elements in COPIED], times)


def copying_on(device: torch.device) -> tuple[float, float] | str:
    """Bytes that leave a CUDA device for pinned memory of the host in a microsecond, and that come back: measured once.
    A text: why they could not be.
    """
    path, key = _path(device), f"copies of {COPIED_TO_HOST} bytes"
    known = _load(path)
    for way in ("out", "back"):
        if f"{key} {way}" not in known:
            try:
                with hooks.without_modes(), torch.no_grad():
                    block = torch.empty(COPIED_TO_HOST, dtype=torch.uint8, device=device)
                    away = torch.empty(COPIED_TO_HOST, dtype=torch.uint8, device="cpu", pin_memory=True)
                    to, of = (away, block) if way == "out" else (block, away)
                    known[f"{key} {way}"] = _measured_on_cuda(functools.partial(to.copy_, of, non_blocking=True))
            except RuntimeError as fault:
                return f"a copy {way} could not be measured: {next(iter(str(fault).splitlines()), '')}"
            _save(path, known)
    times = [known[f"{key} {way}"] for way in ("out", "back")]
    out, back = (COPIED_TO_HOST / (cost.microseconds or 1.0) for cost in times if isinstance(cost, Cost))
    return out, back


def arithmetic_us(call: Call, calls: Sequence[Call], moving: Moving) -> float:
    """Microseconds that an operator takes beyond moving its bytes: they stay where it is fused."""
    moved = sum(value.bytes for value in call.outputs)
    moved += sum(calls[producer].outputs[at].bytes for producer, at in call.inputs)
    return max((call.time_us or 0.0) - moving.takes(moved), 0.0)


def _communicates(target: Any) -> str | None:
    spaces = (*COMMUNICATES, "_c10d_functional")
    return "it communicates with other ranks" if getattr(target, "namespace", "") in spaces else None


def _table(
    keys: list[str], missing: dict[str, Job], known: dict[str, Cost | str], device: torch.device
) -> dict[str, Cost | str]:
    """The costs of these keys, of which some are measured now. `known` takes them up, and so does the file."""
    own = {key for key, job in missing.items() if is_own(job[0])}
    users = _measure_apart({key: job for key, job in missing.items() if key not in own}, str(device))
    if missing:
        known.update(_measure({key: job for key, job in missing.items() if key in own}, str(device)))
        if not hooks.profiler_runs():  # else scratch memory was not counted
            _save(_path(device), known)
            _of_users.update(users)
    both = known | _of_users | users
    return {key: both[key] for key in keys}


def _key(job: Job) -> str:
    return hashlib.sha256(repr(job).encode()).hexdigest()[:24]


def _apply(host: Host, found: dict[int, Cost]) -> None:
    for index, cost in found.items():
        call = host.calls[index]
        call.time_us = cost.microseconds
        if call.part == "mask" and index + 1 in found and cost.microseconds is not None:
            # Its product is a call of its own.
            call.time_us = max(cost.microseconds - (found[index + 1].microseconds or 0.0), 0.0)
        new = [value for value in call.outputs if value.view_of is None]
        made = sum(value.bytes for value in new)
        if new and not is_own(call.node.target) and cost.left > made:  # its results lie on larger storages
            new[0].bytes, new[0].exact, made = new[0].bytes + cost.left - made, False, cost.left
        call.workspace = max(cost.most - made, call.workspace)
    # What could not be measured is modelled; the model's times are brought to this device's scale.
    modelled = [_model(call) for call in host.calls]
    timed = [index for index in found if host.calls[index].time_us is not None]
    scale = sum(host.calls[i].time_us or 0.0 for i in timed) / (sum(modelled[i] for i in timed) or 1.0)
    for call, microseconds in zip(host.calls, modelled, strict=True):
        if call.time_us is None:
            call.time_us = scale * microseconds


def _model(call: Call) -> float:
    if call.phase == "input" or call.kind == "view":
        return 0.0
    moved = sum(value.bytes for value in call.outputs)
    return 2 + call.flops / 15e6 + 2 * moved / 1.5e6


def _notes(host: Host, found: dict[int, Cost | str]) -> list[str]:
    """What predictions do not know: one sentence for each operator, with the place where it stands first."""
    notes: dict[str, str] = {}
    for index, cost in found.items():
        node = host.calls[index].node
        if isinstance(cost, str):
            text = f"the scratch memory of {named(node)} is in no prediction: {cost}"
        elif cost.most - cost.least > LEAST_TOLD:
            span = f"from {cost.least / 1e6:.1f} to {cost.most / 1e6:.1f} MB with its result, and the most is predicted"
            text = f"the scratch memory of {named(node)} depends on its data: {span}"
        else:
            continue
        notes.setdefault(operator_of(node), text)
    return list(notes.values())


# ---- Measuring


_of_users: dict[str, Cost | str] = {}  # what the user's cost, whose code may be another in the next process


def _measure(jobs: dict[str, Job], device: str) -> dict[str, Cost | str]:
    """Runs PyTorch's own operators for real, without a trace in the generator. A text: why one did not run on tensors
    without meaning.
    """
    found: dict[str, Cost | str] = {}
    with hooks.without_modes(), torch.no_grad(), hooks.without_autocast():
        state = get_state(device)
        try:
            with say.busy("measuring operators, once on this machine:", len(jobs)) as progress:
                for key, job in jobs.items():
                    found[key] = _cost(job, device)
                    progress.done += 1
        finally:
            set_state(device, state)
        if device != "cpu":
            torch.cuda.empty_cache()  # what was measured must not stay reserved
    return found


def _measure_apart(jobs: dict[str, Job], device: str) -> dict[str, Cost | str]:
    """Runs operators of the user's in a process of their own: nobody knows what they do on tensors without meaning, nor
    what else they do.
    """
    if not jobs:
        return {}
    if device != "cpu" or not forked.is_possible():
        return dict.fromkeys(jobs, "operators that are not PyTorch's own are measured on a CPU under Linux alone")
    if hooks.profiler_runs():
        return dict.fromkeys(jobs, "a profiler was running when the graph was compiled")
    is_timed = torch.get_num_threads() == 1  # the process has one thread

    def cost(job: Job) -> Cost | str:
        with hooks.without_modes(), torch.no_grad(), hooks.without_autocast():
            found = _cost(job, device)
        return found if is_timed or isinstance(found, str) else found._replace(microseconds=None)

    tasks = {key: functools.partial(cost, job) for key, job in jobs.items()}
    with say.busy("measuring operators of yours:", len(jobs)):
        return _costs(forked.answers(tasks, SECONDS_FOR_USERS))


def _cost(job: Job, device: str) -> Cost | str:
    why = ""
    for data in USUAL if device == "cpu" else USUAL[-1:]:  # a GPU never recovers from an index that is none
        try:
            run = _make(job, data)
            return _measured_on_cuda(run) if device != "cpu" else _measured_on_cpu(run, job)
        except Exception as fault:
            first_line = next(iter(str(fault).splitlines()), "")
            why = why or f"on made-up tensors it raised {type(fault).__name__}: {first_line}"
    return why


def _make(job: Job, data: Data = MOST) -> Callable[[], Any]:
    target, args, kwargs = job
    args, kwargs = pytree.tree_map_only(Like, lambda like: like.make(data), (args, kwargs))
    return lambda: target(*args, **kwargs)


def _measured_on_cpu(run: Callable[[], Any], job: Job) -> Cost:
    # One thread's processor time does not depend on what else the machine does.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    if not is_own(job[0]):
        run()  # what it makes once and keeps
    first, most, left = _held(run, clock)
    seconds = min(first, _shortest(run, clock))
    least = most
    if _depends_on_data(job[0]):
        with contextlib.suppress(Exception):  # such as of a matrix that has no inverse
            least = _held(_make(job, LEAST), clock)[1]
    return Cost(round(seconds * 1e6, 1), max(most, least), left, least)


def _depends_on_data(target: Any) -> bool:
    """Whether scratch memory may: not where every element is treated alike."""
    if not isinstance(target, torch._ops.OpOverload):
        return True
    return torch.Tag.pointwise not in target.tags and target.overloadpacket not in FLOP_FORMULAS


def _held(run: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, int, int]:
    """How long a run takes, the most bytes that it was handed out and had not given back, and what it then still had;
    0 where the user's own profiler counts already.
    """
    if hooks.profiler_runs():
        begun = clock()
        run()
        return clock() - begun, 0, 0
    settings = (torch.autograd.ProfilerState.CPU, False, True, False, False, False, hooks.profiler_config())
    hooks.profiler_begin(torch.autograd.ProfilerConfig(*settings))
    try:
        begun = clock()
        kept = run()
        took = clock() - begun
    finally:
        threads = hooks.profiler_end()
    del kept
    events = (event for event in itertools.chain.from_iterable(threads) if event.kind() == "memory_alloc")
    held = [0, *itertools.accumulate(event.cpu_memory_usage() for event in events)]
    return took, max(held), held[-1]


def _shortest(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    shortest, spent = float("inf"), 0.0
    for _ in range(REPEATS):
        begun = clock()
        run()
        took = clock() - begun
        shortest, spent = min(shortest, took), spent + took
        if spent > ENOUGH_SECONDS:
            break
    return shortest


def _measured_on_cuda(run: Callable[[], Any]) -> Cost:
    run()  # what is compiled or chosen on first use
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    held = torch.cuda.max_memory_allocated() - before
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(REPEATS):
        run()
    end.record()
    torch.cuda.synchronize()
    return Cost(round(begin.elapsed_time(end) * 1e3 / REPEATS, 1), held, 0, held)


# ---- The file


def _path(device: torch.device) -> Path:
    folder = os.environ.get("ECHO_TORCH_CACHE") or os.path.expanduser("~/.cache/echo_torch")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu{torch.get_num_threads()}"
    version = torch.__version__.partition("+")[0]
    return Path(folder) / f"costs-2-{version}-{name.replace(' ', '_').replace('/', '_')}.json"


def _load(path: Path) -> dict[str, Cost | str]:
    try:
        return _costs(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _costs(told: dict[str, Any]) -> dict[str, Cost | str]:
    """Costs as JSON has them."""
    return {key: cost if isinstance(cost, str) else Cost(*cost) for key, cost in told.items()}


def _save(path: Path, known: dict[str, Cost | str]) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(known, sort_keys=True))
        temporary.replace(path)
