"""Measures which part of a training step lies outside of Echo's graphs, and the peak of the whole step.

The first steps after a compilation are watched: when each half of a graph runs, how many bytes the allocator has handed
out then, and what autograd keeps beside the graphs. Then the watch ends, and all that stays of it is the test of a flag
in each call of a half. No hook is set on a tensor or a module, no code of the user's runs twice, and a fault of the
watch ends the watch alone.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from echo_torch import beside, breaks, hooks, say
from echo_torch.beside import Beside, Storages
from echo_torch.breaks import Break
from echo_torch.partition import reports
from echo_torch.say import log
from echo_torch.steps import Edge, HalfPeaks, Step, bytes_there, peak_in_all

MEASURED = 3  # steps without a compilation that are watched
AT_MOST = 24  # and steps altogether

steps = reports.steps  # of this process, in the order in which they were first seen whole
_watch: Watch | None = None


def watch() -> Watch:
    """The open watch, or a new one."""
    global _watch
    if _watch is None or _watch.ended:
        _watch = Watch()
    return _watch


def listen() -> None:
    """Lets TorchDynamo tell of functions that it skips: a model may be skipped as a whole, and then no graph of it ever
    comes. To be called where the backend is made and for every graph, since `torch._dynamo.reset` ends it.
    """
    with contextlib.suppress(Exception):
        if _function_ends not in hooks.callback_handler.end_callbacks:
            hooks.callback_handler.register_end_callback(_function_ends)


def _function_ends(_: Any) -> None:
    """TorchDynamo has compiled a function, or gives it up: then the exception is on its way."""
    fault = sys.exc_info()[1]
    if fault is not None:
        with contextlib.suppress(Exception):
            if breaks.compiles_for_echo() and (found := breaks.skipped(fault)) is not None:
                watch().skips(found)


def graph_of(graph: fx.GraphModule) -> Graph:
    """A graph that TorchDynamo hands over."""
    listen()
    return watch().graph(graph)


@contextlib.contextmanager
def traceable(graph: fx.GraphModule, inputs: Any) -> Iterator[None]:
    """Within it `torch.lstm` is traced step by step where it is trained. On a CPU, PyTorch traces oneDNN's layer as for
    inference where the layer's input needs no gradient, and the backward pass then fails.
    """
    recurrent = any(getattr(node.target, "__name__", "") == "lstm" for node in graph.graph.nodes)
    trained = torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs)
    with mkldnn(False) if recurrent and trained else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def mkldnn(enabled: Any) -> Iterator[None]:
    """Within it oneDNN is enabled or not."""
    before: Any = torch.backends.mkldnn.enabled
    if before == enabled:
        yield
        return
    with torch.backends.mkldnn.flags(enabled=enabled):
        yield


@dataclass(eq=False)
class Graph:
    """One graph of TorchDynamo's while it is compiled, and while it is watched."""

    watch: Watch
    report: Any = None
    outputs: int = 0  # of the forward half; behind them stands what it keeps
    infers: bool = False  # it has no backward half, as the step of an optimizer

    def divide(self, partition: Callable[..., Any]) -> Callable[..., Any]:
        """The partition function, with its report noted. It measures operators as they will run."""
        enabled = torch.backends.mkldnn.enabled

        def dividing(joint: fx.GraphModule, inputs: Any, **told: Any) -> Any:
            with mkldnn(enabled):
                halves = partition(joint, inputs, **told)
            self.outputs = told.get("num_fwd_outputs", 0)
            self.report = reports[-1] if reports else None
            return halves

        return dividing

    def forward(self, graph: fx.GraphModule, inputs: Any) -> Any:
        """A compiler for forward halves."""
        return self._compile(graph, inputs, self.watch.forward)

    def backward(self, graph: fx.GraphModule, inputs: Any) -> Any:
        """A compiler for backward halves."""
        return self._compile(graph, inputs, self.watch.backward)

    def _compile(self, graph: fx.GraphModule, inputs: Any, observe: Callable[..., Any]) -> Any:
        run = hooks.boxed_nop(graph, inputs)
        self.watch.compiled += 1
        if not hasattr(run, "__code__") or hooks.dynamo_config.compiled_autograd:
            say.tell()
            return run  # it is stored on a disk, or traced once more
        half = self._watched(run, observe)
        half._boxed_call = True
        return half

    def _watched(self, run: Callable[..., Any], observe: Callable[..., Any]) -> Any:
        """A half that is watched while the watch lasts."""
        watch = self.watch

        def half(args: list[Any]) -> Any:
            return run(args) if watch.ended else observe(self, run, args)

        return half

    def lowering(self, lower: Callable[..., Any]) -> Callable[..., Any]:
        """Inductor's compiler of one half, so that the half is watched. What Inductor stores on a disk is not."""

        def lowered(graph: fx.GraphModule, inputs: Any, **told: Any) -> Any:
            made = lower(graph, inputs, **told)
            self.watch.compiled += 1
            self.infers = self.infers or bool(told.get("is_inference"))
            if hooks.dynamo_config.compiled_autograd or getattr(made, "current_callable", None) is None:
                say.tell()
            elif not told.get("is_inference"):
                observe = self.watch.backward if told.get("is_backward") else self.watch.forward
                made.current_callable = self._watched(made.current_callable, observe)
            return made

        return lowered

    @property
    def peaks(self) -> tuple[HalfPeaks, HalfPeaks] | None:
        """By PyTorch's default partition, and as it runs; None: they are not known."""
        default = getattr(self.report, "default_halves", None)
        if default is None:
            return None
        return default, (self.report.halves or default) if self.report.reason is None else default


@dataclass
class Run:
    """One call of a half."""

    graph: Graph
    forward: bool
    begun: Any  # a mark in time
    there: int | None  # bytes that the allocator had handed out
    gradients: int = 0  # bytes of gradients that were there
    handed: int = 0  # bytes that a backward half is given, and no forward half has kept
    ended: Any = None


@dataclass
class Seen:
    """What is seen of a step while it runs."""

    device: torch.device
    compiled: int  # how often something had been compiled
    thread: int
    runs: list[Run] = field(default_factory=list)
    kept: Storages = field(default_factory=dict)  # by forward halves
    inputs: set[int] = field(default_factory=set)  # storages
    empty: set[int] = field(default_factory=set)  # parameters without a gradient
    made: set[int | None] = field(default_factory=set)  # addresses of gradients, as backward halves made them
    beside: Beside | None = None

    def matched(self) -> list[Run]:
        """The calls of forward halves whose backward halves ran, and those; others belong to no backward pass."""
        late = Counter(run.graph for run in self.runs if not run.forward)
        found: list[Run] = []
        for run in reversed(self.runs):
            if run.forward:
                late[run.graph] -= 1
            if not run.forward or late[run.graph] >= 0:
                found.insert(0, run)
        return found


class Watch:
    """Watches from the look-up of the backend to the third step that compiles nothing."""

    def __init__(self) -> None:
        self.ended = False
        self.compiled = self.graphs = 0
        self.breaks: list[Break] = []
        self.told: list[Break] = []
        self.seen: Seen | None = None
        self.whole: dict[tuple[int, ...], Step] = {}
        self.of_step: dict[tuple[int, ...], list[Graph]] = {}
        self.measured = self.tried = 0
        self.kinds: set[type] = set()  # of autograd's nodes: one for each graph
        self.known: dict[int, weakref.ref[torch.Tensor]] = {}  # parameters that are trained, by id

    def end(self) -> None:
        self.ended, self.seen = True, None
        self.known.clear()
        self.kinds.clear()

    # ---- While TorchDynamo compiles

    def skips(self, found: Break) -> None:
        """TorchDynamo skips a function."""
        if found not in self.breaks:
            self.breaks.append(found)
            if not self.graphs and found.trains:
                self._say(found)

    def _say(self, found: Break) -> None:
        self.told.append(found)
        log.warning("echo: %s", found)

    def graph(self, graph: fx.GraphModule) -> Graph:
        """A graph that TorchDynamo hands over."""
        self.graphs += 1
        with contextlib.suppress(Exception):
            why = getattr(graph, "compile_subgraph_reason", None)
            # The parts into which DDPOptimizer breaks a graph are compiled.
            if why is not None and why.graph_break and "DDPOptimizer" not in why.reason:
                found = breaks.read(why.reason, why.user_stack)
                self.breaks += [found] if found not in self.breaks else []
        return Graph(self)

    # ---- While steps run

    def _safely(self, look: Callable[..., Any], *args: Any) -> Any:
        try:
            if not self.ended:
                return look(*args)
        except Exception as fault:
            log.debug("echo: the watch of steps ends early: %s: %s", type(fault).__name__, fault)
            self.end()
        return None

    def forward(self, graph: Graph, run: Callable[..., Any], args: list[Any]) -> Any:
        mark = self._safely(self._forward_begins, graph, args)
        made = run(args)
        self._safely(self._forward_ends, mark, made)
        return made

    def backward(self, graph: Graph, run: Callable[..., Any], args: list[Any]) -> Any:
        say.tell()
        mark = self._safely(self._backward_begins, graph, args)
        made = run(args)
        self._safely(self._backward_ends, mark, made)
        return made

    def _parameters(self) -> list[torch.Tensor]:
        return [p for known in self.known.values() if (p := known()) is not None]

    def _begin(self, seen: Seen, graph: Graph, forward: bool) -> Run:
        if seen.device.type != "cuda" and seen.thread != threading.get_ident():
            raise RuntimeError("halves run in several threads")
        gradients = sum(beside.size(p.grad) for p in self._parameters())
        seen.runs.append(Run(graph, forward, now(seen.device), bytes_there(seen.device), gradients))
        return seen.runs[-1]

    def _forward_begins(self, graph: Graph, args: list[Any]) -> Run:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        in_backward = torch._C._current_graph_task_id() != -1  # a checkpoint runs again what it holds
        if self.seen is None or (not in_backward and not all(run.forward for run in self.seen.runs)):
            device = next((t.device for t in tensors if t.device.type == "cuda"), torch.device("cpu"))
            self.seen = Seen(device, self.compiled, threading.get_ident())
            self.seen.empty = {id(p) for p in self._parameters() if p.grad is None}
        for value in tensors:
            if value.is_leaf:
                self.seen.inputs.update(beside.storage(value))
        return self._begin(self.seen, graph, True)

    def _forward_ends(self, mark: Run | None, made: Any) -> None:
        if mark is not None and self.seen is not None:
            mark.ended = now(self.seen.device)
            for value in made[mark.graph.outputs :]:
                if isinstance(value, torch.Tensor):  # what waits in the host's memory takes none of the device's
                    is_here = value.device.type == self.seen.device.type
                    self.seen.kept.update({key: size * is_here for key, size in beside.storage(value).items()})

    def _backward_begins(self, graph: Graph, args: list[Any]) -> Run | None:
        seen, node = self.seen, hooks.autograd_node()
        if seen is None:  # its forward half ran before the watch
            return None
        self.kinds.add(type(node))
        if all(run.forward for run in seen.runs):
            kept = {key: size for key, size in seen.kept.items() if key not in seen.inputs}
            seen.beside = beside.look(node, self.kinds, kept, seen.inputs)
            self.known.update((id(p), weakref.ref(p)) for p in (*seen.beside.inside, *seen.beside.outside))
            torch.autograd.Variable._execution_engine.queue_callback(self._backward_ended)
        mark = self._begin(seen, graph, False)
        given = {k: n for value in args if isinstance(value, torch.Tensor) for k, n in beside.storage(value).items()}
        mark.handed = sum(n for k, n in given.items() if k not in seen.kept and k not in seen.inputs)
        return mark

    def _backward_ends(self, mark: Run | None, made: Any) -> None:
        if mark is not None and self.seen is not None:
            mark.ended = now(self.seen.device)
            for value in made if isinstance(made, tuple | list) else (made,):
                if isinstance(value, torch.Tensor):
                    self.seen.made.add(beside.address(value))

    def _backward_ended(self) -> None:
        seen, self.seen = self.seen, None
        if seen is not None:
            self._safely(self._conclude, seen, now(seen.device))

    # ---- What a step was

    def _conclude(self, seen: Seen, ended: Any) -> None:
        self.tried += 1
        runs = seen.matched()
        clean = seen.compiled == self.compiled and runs and all(run.ended is not None for run in runs)
        if clean:
            key = tuple(sorted({id(run.graph) for run in runs}))
            step = self._step(seen, runs, ended)
            if key in self.whole:
                self.whole[key].take(step)
            else:
                self.whole[key], self.of_step[key] = step, [run.graph for run in runs]
                steps.append(step)
            self.measured += 1
        if self.measured >= MEASURED or self.tried >= AT_MOST:
            self.end()
            self._report()

    def _report(self) -> None:
        for step in self.whole.values():
            if step.needs_a_word:
                log.warning("echo: %s", step.table())
            else:
                tell = log.info if step.planned else log.debug
                tell("echo: a whole step: %s", step)
        if any(step.contradicts_costs for step in self.whole.values()):
            self._measure_again()
        known = {(part.reason, part.where) for step in self.whole.values() for part in step.outside}
        for found in self.breaks:
            if found.trains and found not in self.told and (found.reason, found.where) not in known:
                self._say(found)

    def _measure_again(self) -> None:
        log.info("echo: a step takes much less than its operators were measured to: they will be measured again")
        for graph in {graph for step in self.of_step.values() for graph in step}:
            if graph.report is not None and graph.report.costs is not None:
                graph.report.costs.forget()

    def _step(self, seen: Seen, runs: list[Run], ended: Any) -> Step:
        graphs = list(dict.fromkeys(run.graph for run in runs))
        planned = [g for g in graphs if g.report is not None and g.report.reason is None]
        step = Step(len(graphs), len(planned), gradients=runs[0].gradients)
        step.seconds = seconds(runs[0].begun, ended)
        step.inside_time = min(sum(seconds(run.begun, run.ended) for run in runs) / (step.seconds or 1.0), 1.0)
        step.planned_seconds = sum(
            g.report.time_us * (1 + (g.report.overhead if g in planned else g.report.default_overhead)) / 1e6
            for g in (run.graph for run in runs if run.forward)
            if g.report is not None
        )
        step.saved_inside = sum(size for key, size in seen.kept.items() if key not in seen.inputs)
        found = seen.beside or Beside()
        step.saved_outside = found.saved
        step.outside = beside.outside_of(found, step.saved_inside, self.breaks)
        new = [p for p in found.inside if id(p) in seen.empty]
        gradients = [p.grad for p in new if p.grad is not None]
        step.copies = max((beside.size(g) for g in gradients if beside.address(g) not in seen.made), default=0)
        _with_peaks(step, graphs, runs, found)
        return step


def _with_peaks(step: Step, graphs: list[Graph], runs: list[Run], found: Beside) -> None:
    peaks = [both for graph in graphs if (both := graph.peaks)]
    if len(peaks) < len(graphs):
        return
    default, real = [one for one, _ in peaks], [one for _, one in peaks]
    base = runs[0].there
    step.exact = base is not None and not found.behind
    edges = [
        Edge(graphs.index(r.graph), r.forward, None if base is None or r.there is None else r.there - base, r.handed)
        for r in runs
    ]
    reports = [graph.report for graph in graphs]
    step.default_peak = max(report.default_peak for report in reports)
    step.peak = max(report.peak if report.reason is None else report.default_peak for report in reports)
    step.default_in_all = peak_in_all(edges, real, default, step.gradients, step.copies)
    step.peak_in_all = peak_in_all(edges, real, real, step.gradients, step.copies)


def now(device: torch.device) -> Any:
    """A mark in time: of this thread's processor time, or on the device's stream."""
    if device.type != "cuda":
        return time.thread_time()
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("the step is captured")
    mark = torch.cuda.Event(enable_timing=True)
    mark.record()
    return mark


def seconds(begun: Any, ended: Any) -> float:
    if isinstance(begun, float):
        return float(ended - begun)
    ended.synchronize()
    return float(begun.elapsed_time(ended)) / 1e3
