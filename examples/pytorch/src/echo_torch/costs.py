"""What operators cost where the model runs: time and scratch memory, measured once and kept in a file.

Where nothing is measured the planner's own model of a device counts instead, for all operators alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from echo_torch import hooks, say
from echo_torch.graph import Call, aten, device_of, is_own, number, runs_for_effect, tensor_arguments
from echo_torch.host import Host, get_state, set_state

Cost = tuple[float, int]  # microseconds, and the most bytes that one run holds above its inputs
Job = tuple[Any, Any, Any]  # an operator and its arguments, tensors as `Like`
REPEATS, ENOUGH_SECONDS = 5, 0.05
# Arguments that hold what only the operator that made them understands: another would crash on them.
OPAQUE = ("reserve", "reserveSpace", "workspace")


class Like:
    """A tensor by all that its cost depends on."""

    def __init__(self, value: torch.Tensor) -> None:
        shape, stride = tuple(map(number, value.shape)), tuple(map(number, value.stride()))
        self.facts = shape, stride, value.dtype, str(value.device)

    def __repr__(self) -> str:
        return repr(self.facts)

    def make(self) -> torch.Tensor:
        shape, stride, dtype, device = self.facts
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if 0 not in shape else 0
        fill = 0.5 if dtype.is_floating_point else 0
        return torch.full((extent,), fill, dtype=dtype, device=device).as_strided(shape, stride)


def alignment_of(host: Host) -> int:
    """The bytes to whose multiples the allocator rounds up."""
    return 512 if any(device_of(call.node).type == "cuda" for call in host.calls) else 64


def job_of(call: Call) -> Job | None:
    """The call to measure; None: it takes no time, or running it has effects of its own."""
    target = call.node.target
    if call.phase == "input" or call.kind == "view" or call.part == "stats" or not is_own(target):
        return None
    writes = target._schema.is_mutable and target is not aten.copy_.default
    opaque = any(name in OPAQUE for name, _ in tensor_arguments(call.node))
    if writes or opaque or runs_for_effect(call.node):
        return None

    def like(value: Any) -> Any:
        value = value.meta.get("val") if isinstance(value, fx.Node) else value
        if isinstance(value, torch.Tensor):
            return Like(value)
        return number(value) if isinstance(value, torch.SymInt) else value

    args, kwargs = fx.node.map_aggregate((call.node.args, call.node.kwargs), like)
    if call.part == "product":
        mask = Like(call.node.meta["val"][1])
        return aten.native_dropout_backward.default, (args[0], mask, 2.0), {}
    return target, args, kwargs


def fill(host: Host, share: Callable[[Any], Any]) -> int:
    """Writes times and scratch memory into the calls of a host. `share` gives every rank the first one's table.

    Returns how many operators were not known yet.
    """
    device = next((device_of(call.node) for call in host.calls if call.phase != "input"), torch.device("cpu"))
    jobs = {index: job for index, call in enumerate(host.calls) if (job := job_of(call)) is not None}
    keys = {index: hashlib.sha256(repr(job).encode()).hexdigest()[:24] for index, job in jobs.items()}
    path = _path(device)
    known = _load(path)
    missing = {key: jobs[index] for index, key in keys.items() if key not in known}

    def table() -> dict[str, Cost | None]:
        if missing:
            known.update(_measure(missing, str(device)))
            if not hooks.profiler_runs():  # else scratch memory was not counted
                _save(path, known)
        return {key: known[key] for key in keys.values()}

    found = share(table)
    _apply(host, {index: found[key] for index, key in keys.items() if found.get(key)})
    return len(missing)


def _apply(host: Host, found: dict[int, Cost]) -> None:
    for index, (microseconds, held) in found.items():
        call = host.calls[index]
        call.time_us = microseconds
        if call.part == "mask" and index + 1 in found:  # its product is a call of its own
            call.time_us = max(microseconds - found[index + 1][0], 0.0)
        made = sum(value.bytes for value in call.outputs if value.view_of is None)
        call.workspace = max(held - made, call.workspace)
    # What could not be measured is modelled; the model's times are brought to this device's scale.
    modelled = [_model(call) for call in host.calls]
    all_measured = sum(host.calls[i].time_us for i in found)
    scale = all_measured / (sum(modelled[i] for i in found) or 1.0)
    for call, microseconds in zip(host.calls, modelled, strict=True):
        if call.time_us is None:
            call.time_us = scale * microseconds


def _model(call: Call) -> float:
    if call.phase == "input" or call.kind == "view":
        return 0.0
    moved = sum(value.bytes for value in call.outputs)
    return 2 + call.flops / 15e6 + 2 * moved / 1.5e6


# ---- Measuring


def _measure(jobs: dict[str, Job], device: str) -> dict[str, Cost | None]:
    """Runs operators for real, without a trace in the generator. None: one did not run on tensors of no meaning."""
    found: dict[str, Cost | None] = dict.fromkeys(jobs)
    measured = _measured_on_cpu if device == "cpu" else _measured_on_cuda
    with hooks.without_modes(), torch.no_grad(), hooks.without_autocast():
        state = get_state(device)
        try:
            with say.busy("measuring operators, once on this machine:", len(jobs)) as progress:
                for key, job in jobs.items():
                    with contextlib.suppress(Exception):
                        found[key] = measured(_make(job))
                    progress.done += 1
        finally:
            set_state(device, state)
        if device != "cpu":
            torch.cuda.empty_cache()  # what was measured must not stay reserved
    return found


def _make(job: Job) -> Callable[[], Any]:
    target, args, kwargs = job
    args, kwargs = pytree.tree_map_only(Like, Like.make, (args, kwargs))
    return lambda: target(*args, **kwargs)


def _measured_on_cpu(run: Callable[[], Any]) -> Cost:
    # One thread's processor time does not depend on what else the machine does.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    first, held = _held(run, clock)
    seconds = first if first > ENOUGH_SECONDS else min(first, _shortest(run, clock))
    return round(seconds * 1e6, 1), held


def _held(run: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, int]:
    """How long the first run takes, and the most bytes that it was handed out and had not given back; 0 where the
    user's own profiler counts already.
    """
    if hooks.profiler_runs():
        begun = clock()
        run()
        return clock() - begun, 0
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
    return took, max(itertools.accumulate((event.cpu_memory_usage() for event in events), initial=0))


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
    return round(begin.elapsed_time(end) * 1e3 / REPEATS, 1), held


# ---- The file


def _path(device: torch.device) -> Path:
    folder = os.environ.get("ECHO_TORCH_CACHE") or os.path.expanduser("~/.cache/echo_torch")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu{torch.get_num_threads()}"
    version = torch.__version__.partition("+")[0]
    return Path(folder) / f"costs-1-{version}-{name.replace(' ', '_').replace('/', '_')}.json"


def _load(path: Path) -> dict[str, Cost | None]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _save(path: Path, known: dict[str, Cost | None]) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(known, sort_keys=True))
        temporary.replace(path)
