#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Judges an `echo-plan/1` by the format alone: a second replay, which shares nothing with the library.

    replay.py GRAPH.json[.gz] PLAN.json[.gz]

Prints one line `ok …` and returns 0, or one line for each violation and returns 1. What the files leave out (a section
of the plan, `kind` or `rerun` of an op) is not checked and is named behind `ok`. As a module: `judge(graph, plan)` takes
the parsed JSON of both and returns a `Verdict`.
"""
from __future__ import annotations

import bisect
import dataclasses
import gzip
import json
import math
import sys
import zlib

DTYPE_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "f8": 1, "i8": 1, "u8": 1, "bool": 1}
PHASES = ("input", "forward", "backward", "update")
KINDS = ("heavy", "light", "view")
RERUNS = ("pure", "seeded", "never")
LARGEST = 2**64 - 1
LAUNCH_US, FLOPS_PER_US, BYTES_PER_US = 2, 15e6, 1.5e6
REQUIRED = object()


class FormatError(ValueError):
    """The file says something the format does not allow; nothing can be replayed."""


# ---- Reading


def take(owner, key, check, where, default=REQUIRED):
    """`owner[key]`, checked; the default if the key is missing and need not be there."""
    if key in owner:
        return check(owner[key], f"{where}: {key}")
    if default is REQUIRED:
        raise FormatError(f"{where}: {key} is missing")
    return default


def whole(x, where):
    if type(x) is not int:
        raise FormatError(f"{where} is not a whole number")
    if not 0 <= x <= LARGEST:
        raise FormatError(f"{where} does not fit: {x}")
    return x


def number(x, where):
    if type(x) not in (int, float):
        raise FormatError(f"{where} is not a number")
    try:
        x = float(x)
    except OverflowError:
        x = math.inf
    if not math.isfinite(x) or x < 0:
        raise FormatError(f"{where} is not a finite number of 0 or more")
    return x


def text(x, where):
    if type(x) is not str:
        raise FormatError(f"{where} is not a string")
    return x


def flag(x, where):
    if type(x) is not bool:
        raise FormatError(f"{where} is not true or false")
    return x


def record(x, where):
    if type(x) is not dict:
        raise FormatError(f"{where} is not an object")
    return x


def as_it_is(x, _):
    return x


def one_of(words):
    def check(x, where):
        if text(x, where) not in words:
            raise FormatError(f"{where} is {x!r}, not one of {', '.join(words)}")
        return x
    return check


def list_of(check):
    def check_all(x, where):
        if type(x) is not list:
            raise FormatError(f"{where} is not a list")
        return [check(item, f"{where}[{i}]") for i, item in enumerate(x)]
    return check_all


def pair(x, where):
    if type(x) is not list or len(x) != 2:
        raise FormatError(f"{where} is not a pair of two numbers")
    return whole(x[0], where), whole(x[1], where)


@dataclasses.dataclass(slots=True)
class Output:
    bytes: int
    encoded_bytes: int  # the least that one bit for each element takes
    view_of: int | None
    inplace: int | None
    resident: bool = False


@dataclasses.dataclass(slots=True)
class Node:
    name: str
    phase: str
    inputs: list
    control: list
    outputs: list
    workspace: int
    kind: str | None  # None: the file leaves it to the op registry
    rerun: str | None
    one_bit: set
    time_us: float | None  # None: not to be known without its kind


@dataclasses.dataclass(slots=True)
class Graph:
    nodes: list
    results: list


@dataclasses.dataclass(slots=True)
class Step:
    """A node with a source `(step, output)` for each input; or one that runs none, with the one copy it takes."""
    node: int | None
    sources: list
    recompute: bool = False
    fused: bool = False
    bytes: int = 0
    source_value: tuple | None = None  # what a step that runs no node packs or moves
    does: str = "run"  # or encode, offload, reload
    packed: bool = False  # makes one bit per element

    @property
    def runs(self):
        return self.node is not None


def read_output(x, where):
    record(x, where)
    size = take(x, "bytes", whole, where, None)
    shape = take(x, "shape", list_of(whole), where, None)
    dtype = take(x, "dtype", text, where, None)
    item = DTYPE_BYTES.get(dtype)
    elements = math.prod(shape) if shape is not None else None
    if size is None:
        if shape is None or dtype is None:
            raise FormatError(f"{where}: bytes is missing, and so is shape or dtype")
        if item is None:
            raise FormatError(f"{where}: bytes is missing, and dtype {dtype!r} has no size")
        size = elements * item
    if size > LARGEST or (elements or 0) > LARGEST:
        raise FormatError(f"{where}: shape does not fit")
    if elements is None:
        elements = -(-size // (item or 4))
    return Output(size, -(-elements // 32) * 4, take(x, "view_of", whole, where, None), take(x, "inplace", whole, where, None))


def read_node(x, index, nodes):
    where = f"nodes[{index}]"
    record(x, where)
    name = take(x, "name", text, where, f"#{index}")
    where = f"node {name!r}"
    outputs = take(x, "outputs", list_of(read_output), where)
    node = Node(name, take(x, "phase", one_of(PHASES), where), take(x, "inputs", list_of(pair), where),
                take(x, "control", list_of(whole), where, []), outputs, take(x, "workspace", whole, where, 0),
                take(x, "kind", one_of(KINDS), where, None), take(x, "rerun", one_of(RERUNS), where, None),
                set(take(x, "one_bit_inputs", list_of(whole), where, [])), take(x, "time_us", number, where, None))
    take(x, "op", text, where)
    take(x, "layer", text, where, "")
    flops = take(x, "flops", number, where, 0)
    if node.phase == "input" and node.inputs:
        raise FormatError(f"{where}: inputs: an input node has none")
    for n, k in node.inputs:
        if n >= index or k >= len(nodes[n].outputs):
            raise FormatError(f"{where}: inputs: [{n}, {k}] is no output of an earlier node")
    for n in node.control:
        if n >= index:
            raise FormatError(f"{where}: control: {n} is no earlier node")
    for position in node.one_bit:
        if position >= len(node.inputs):
            raise FormatError(f"{where}: one_bit_inputs: there is no input {position}")
    for out in outputs:
        for key in ("view_of", "inplace"):
            position = getattr(out, key)
            if position is not None and position >= len(node.inputs):
                raise FormatError(f"{where}: {key}: there is no input {position}")
        if out.view_of in node.one_bit:
            raise FormatError(f"{where}: one_bit_inputs: an output is a view of input {out.view_of}")
        out.resident = node.phase == "input"
    if node.time_us is None:
        if node.phase == "input" or node.kind == "view":
            node.time_us = 0.0
        elif node.kind is not None:
            moved = sum(nodes[n].outputs[k].bytes for n, k in node.inputs) + sum(out.bytes for out in outputs)
            node.time_us = LAUNCH_US + flops / FLOPS_PER_US + moved / BYTES_PER_US
    return node


def read_graph(x):
    record(x, "graph")
    if take(x, "format", text, "graph") != "echo-graph/1":
        raise FormatError(f"graph: format is {x['format']!r}")
    take(x, "name", text, "graph", "")
    nodes = []
    for index, item in enumerate(take(x, "nodes", list_of(as_it_is), "graph")):
        nodes.append(read_node(item, index, nodes))
    named = {}
    for key, default in (("outputs", REQUIRED), ("resident", [])):
        named[key] = take(x, key, list_of(pair), "graph", default)
        for n, k in named[key]:
            if n >= len(nodes) or k >= len(nodes[n].outputs):
                raise FormatError(f"graph: {key}: [{n}, {k}] is no output of a node")
    for n, k in named["resident"]:
        nodes[n].outputs[k].resident = True
    return Graph(nodes, named["outputs"])


def copies_of(graph, step):
    """How many copies a step makes."""
    return len(graph.nodes[step.node].outputs) if step.runs else 1


def read_single(item, does, where, steps, graph, earlier):
    """A step that runs no node: it packs a copy, waits until one has left, or begins to bring it back."""
    if does == "reload":
        source = earlier((take(item, "reload", whole, where), 0), f"{where}: reload")
        left = steps[source[0]]
        if left.does != "offload":
            raise FormatError(f"{where}: reload names a step that is no offload")
        if take(item, "bytes", whole, where, left.bytes) != left.bytes:
            raise FormatError(f"{where}: bytes is not what left")
        return Step(None, [source], bytes=left.bytes, source_value=left.source_value, does=does, packed=left.packed)
    source = earlier(take(item, does, pair, where), f"{where}: {does}")
    maker = steps[source[0]]
    if maker.does == "offload":
        raise FormatError(f"{where}: {does} names what lies in the host's memory")
    value = (maker.node, source[1]) if maker.runs else maker.source_value
    if does == "encode" and maker.packed:
        raise FormatError(f"{where}: encode names an encoding, not a value")
    out = graph.nodes[value[0]].outputs[value[1]]
    usual = out.encoded_bytes if does == "encode" else out.bytes if maker.runs else maker.bytes
    return Step(None, [source], bytes=take(item, "bytes", whole, where, usual), source_value=value, does=does,
                packed=does == "encode" or maker.packed)


def read_schedule(x, graph):
    """The steps with all their sources named, each an output of an earlier step; nothing else is judged here."""
    steps, latest = [], {}

    def earlier(source, where):
        if source[0] >= len(steps) or source[1] >= copies_of(graph, steps[source[0]]):
            raise FormatError(f"{where} [{source[0]}, {source[1]}] is no output of an earlier step")
        return source

    for t, item in enumerate(x):
        where = f"schedule[{t}]"
        record(item, where)
        alone = next((key for key in ("encode", "offload", "reload") if key in item), None)
        if alone:
            for key in ("node", "recompute", "fused", "inputs", "encode", "offload", "reload"):
                if key in item and key != alone:
                    raise FormatError(f"{where}: {key} stands beside {alone}")
            steps.append(read_single(item, alone, where, steps, graph, earlier))
            continue
        n = take(item, "node", whole, where)
        if n >= len(graph.nodes):
            raise FormatError(f"{where}: node {n} is none of the graph")
        node = graph.nodes[n]
        sources = take(item, "inputs", list_of(pair), where, None)
        if sources is None:
            sources = []
            for m, k in node.inputs:
                if m not in latest:
                    raise FormatError(f"{where}: {node.name!r} reads {graph.nodes[m].name!r}, which no earlier step runs")
                sources.append((latest[m], k))
        elif len(sources) != len(node.inputs):
            raise FormatError(f"{where}: inputs names {len(sources)} sources, {node.name!r} has {len(node.inputs)} inputs")
        for source in sources:
            earlier(source, f"{where}: inputs:")
        latest[n] = t
        steps.append(Step(n, sources, take(item, "recompute", flag, where, False), take(item, "fused", flag, where, False)))
    return steps


# ---- Replay


@dataclasses.dataclass(slots=True)
class Storage:
    maker: tuple
    bytes: int
    resident: bool = False
    encoded: bool = False
    last: int = 0  # the last step at which it is live
    last_read: int = -1  # the last step that reads a value already on it
    written: int = -1  # the last step that wrote on it in place
    holds_result: bool = False


class Replay:
    """The section "Storage" of the format, over one schedule."""

    def __init__(self, graph, steps):
        self.graph, self.steps = graph, steps
        self.violations = []
        self.storages = []
        self.storage_of = {}  # copy → its storage; copies of fused steps have none
        self.makes_resident, self.writes_resident = set(), set()  # nodes
        self.expand_fused()
        self.find_last_reads()
        for t, step in enumerate(steps):
            self.check_reads(t)
            if step.does == "offload":
                self.leave(t)
            elif not step.runs:
                self.make((t, 0), step.bytes, encoded=step.packed)
            elif step.fused:
                self.pass_by(step)
            else:
                self.run(t)
        self.close()
        self.measure()
        self.find_stash()

    def name(self, t):
        step = self.steps[t]
        what = repr(self.graph.nodes[step.node].name) if step.runs else f"{step.does} of {self.graph.nodes[step.source_value[0]].name!r}"
        return f"step {t} ({what})"

    def expand_fused(self):
        """Per step and input, the copies that are read in truth: instead of a fused step's output, what that step reads."""
        self.reads, inside = [], {}
        for t, step in enumerate(self.steps):
            per_input = [inside.get(source[0], (source,)) for source in step.sources]
            if step.fused:
                inside[t] = tuple(dict.fromkeys(copy for copies in per_input for copy in copies))
            self.reads.append([] if step.fused or step.does == "reload" else per_input)

    def find_last_reads(self):
        self.last_read_of = {}
        latest = {}
        for t, step in enumerate(self.steps):
            for copies in self.reads[t]:
                for copy in copies:
                    self.last_read_of[copy] = t
            if step.runs:
                latest[step.node] = t
        self.results = {(latest[n], k) for n, k in self.graph.results if n in latest}

    def check_reads(self, t):
        for position, copies in enumerate(self.reads[t]):
            for copy in copies:
                storage = self.storage_of.get(copy)  # what lies in the host's memory has none
                if storage is not None and copy[0] < storage.written:
                    self.violations.append(f"{self.name(t)}: input {position}: reads output {copy[1]} of {self.name(copy[0])}, "
                                           f"which {self.name(storage.written)} has overwritten in place")

    def leave(self, t):
        """A storage leaves as a whole. The copy of it lies elsewhere: it has no storage here."""
        storage = self.storage_of.get(self.steps[t].sources[0])
        if storage is None:
            self.violations.append(f"{self.name(t)}: what a fused step makes cannot leave")
        elif storage.resident:
            self.violations.append(f"{self.name(t)}: resident storage leaves")
        elif storage.bytes != self.steps[t].bytes:
            self.violations.append(f"{self.name(t)}: bytes is {self.steps[t].bytes}, the storage has {storage.bytes}")

    def run(self, t):
        step = self.steps[t]
        node = self.graph.nodes[step.node]
        bases = [None if out.view_of is None else self.storage_of.get(step.sources[out.view_of]) for out in node.outputs]
        bound = {id(base) for base in bases if base is not None}  # viewed by an output of the step, or taken by one
        for k, out in enumerate(node.outputs):
            target = None if out.inplace is None else self.storage_of.get(step.sources[out.inplace])
            if bases[k] is not None:
                self.put((t, k), bases[k])
            elif out.view_of is None and target is not None and self.may_take(t, out, target, bound):
                if target.resident:
                    self.check_resident(t, k, out, target)
                    self.writes_resident.add(step.node)
                bound.add(id(target))
                target.written = t
                self.put((t, k), target)
            else:
                if out.resident:
                    self.makes_resident.add(step.node)
                self.make((t, k), out.bytes, resident=out.resident)

    def check_resident(self, t, k, out, target):
        """A resident storage is taken whatever else holds, so that what must not be is a fault."""
        if out.bytes > target.bytes:
            self.violations.append(f"{self.name(t)}: output {k} has {out.bytes} bytes and is in place on a resident storage of {target.bytes}")
        if target.written == t:
            self.violations.append(f"{self.name(t)}: output {k} is in place on a resident storage that another output of the step takes")

    def pass_by(self, step):
        """A fused step makes nothing; what it would do to resident storage, were it run, counts all the same."""
        for out in self.graph.nodes[step.node].outputs:
            if out.view_of is not None:
                continue
            if out.resident:
                self.makes_resident.add(step.node)
            over = None if out.inplace is None else self.storage_of.get(step.sources[out.inplace])
            if over is not None and over.resident:
                self.writes_resident.add(step.node)

    def may_take(self, t, out, target, bound):
        if target.resident:
            return True
        others = [copies for position, copies in enumerate(self.reads[t]) if position != out.inplace]
        return (target.last_read <= t and not target.holds_result and target.bytes >= out.bytes
                and not any(self.storage_of.get(copy) is target for copies in others for copy in copies)
                and not target.encoded and id(target) not in bound)

    def put(self, copy, storage):
        self.storage_of[copy] = storage
        storage.last_read = max(storage.last_read, self.last_read_of.get(copy, -1))
        storage.last = max(storage.last, copy[0])
        storage.holds_result |= copy in self.results

    def make(self, copy, size, resident=False, encoded=False):
        self.storages.append(Storage(copy, size, resident, encoded))
        self.put(copy, self.storages[-1])

    def close(self):
        for storage in self.storages:
            storage.last = max(storage.last, storage.last_read)
            if storage.holds_result:
                storage.last = len(self.steps) - 1
        for copy in sorted(self.results):
            storage = self.storage_of.get(copy)
            if storage is not None and copy[0] < storage.written:
                self.violations.append(f"graph output {copy[1]} of {self.name(copy[0])} is overwritten in place by {self.name(storage.written)}")

    def measure(self):
        change = [0] * (len(self.steps) + 1)
        for storage in self.storages:
            if not storage.resident:
                change[storage.maker[0]] += storage.bytes
                change[storage.last + 1] -= storage.bytes
        self.peak = self.load = now = 0
        for t, step in enumerate(self.steps):
            now += change[t]
            self.load = max(self.load, now)
            self.peak = max(self.peak, now + (self.graph.nodes[step.node].workspace if step.runs else 0))
        self.resident_bytes = sum(storage.bytes for storage in self.storages if storage.resident)

    def find_stash(self):
        """Storages that cross the first backward or update step that is no view; None if kinds are missing to tell."""
        self.stash = []
        for t, step in enumerate(self.steps):
            if not step.runs or self.graph.nodes[step.node].phase not in ("backward", "update"):
                continue
            kind = self.graph.nodes[step.node].kind
            if kind == "view":
                continue
            self.stash = None if kind is None else [
                storage for storage in self.storages
                if not storage.resident and storage.maker[0] < t <= storage.last_read]
            return

    @property
    def stash_bytes(self):
        return None if self.stash is None else sum(storage.bytes for storage in self.stash)


@dataclasses.dataclass(slots=True)
class Link:
    out_rate: float  # bytes in a microsecond
    in_rate: float
    both_ways: bool
    host_bytes: int


def read_link(x):
    if x is None:
        return None
    link = Link(take(x, "out_bytes_per_us", number, "plan: link"), take(x, "in_bytes_per_us", number, "plan: link"),
                take(x, "both_ways", flag, "plan: link", True), take(x, "host_bytes", whole, "plan: link", LARGEST))
    if not link.out_rate or not link.in_rate:
        raise FormatError("plan: link: a rate is 0")
    return link


def waits(steps, reads, link, time_of):
    """How long steps wait for copies. Runs go one after the other; copies in the order of their steps, beside them."""
    now = waited = 0.0
    ready, free = [0.0] * len(steps), {"out": 0.0, "in": 0.0}
    for t, step in enumerate(steps):
        if step.does == "offload":
            way = "out" if link.both_ways else "in"
            free[way] = max(free[way], ready[step.sources[0][0]]) + step.bytes / link.out_rate
            waited += max(0.0, free[way] - now)
            now = ready[t] = max(now, free[way])
        elif step.does == "reload":
            ready[t] = free["in"] = max(free["in"], now) + step.bytes / link.in_rate
        elif not step.fused:
            begin = max([now] + [ready[copy[0]] for copies in reads[t] for copy in copies])
            waited += begin - now
            now = ready[t] = begin + (time_of(step.node) if step.runs else 0.0)
    return waited


def most_on_host(steps):
    """Bytes of the host's memory: from the step that makes what leaves to the first that names what its last reload makes."""
    first_named, until = {}, {}
    for t, step in enumerate(steps):
        for s, _ in step.sources:
            first_named.setdefault(s, t)
    for t, step in enumerate(steps):
        if step.does == "reload":
            until[step.sources[0][0]] = first_named.get(t, t)
    change = [0] * (len(steps) + 1)
    for t, step in enumerate(steps):
        if step.does == "offload":
            change[step.sources[0][0]] += step.bytes
            change[until.get(t, t) + 1] -= step.bytes
    now = most = 0
    for more in change:
        now += more
        most = max(most, now)
    return most


def own_order(graph):
    return [Step(n, list(node.inputs)) for n, node in enumerate(graph.nodes)]


def dead_nodes(graph, baseline):
    needed = {n for n, _ in graph.results} | baseline.writes_resident
    for n in reversed(range(len(graph.nodes))):
        node = graph.nodes[n]
        if node.phase == "update":
            needed.add(n)
        if n in needed:
            needed.update(m for m, _ in node.inputs)
            needed.update(node.control)
    return set(range(len(graph.nodes))) - needed


# ---- Judgement


@dataclasses.dataclass
class Verdict:
    violations: list
    unchecked: list
    replay: Replay | None = None
    baseline: Replay | None = None

    @property
    def ok(self):
        return not self.violations

    def lines(self):
        if not self.ok:
            return [printable(line) for line in self.violations]
        line = f"ok {len(self.replay.steps)} steps, peak {self.replay.peak} of {self.baseline.peak} bytes"
        return [line + (f"; not checked: {', '.join(self.unchecked)}" if self.unchecked else "")]


def printable(line):
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


class Judge:
    def __init__(self, graph, plan):
        self.violations, self.unchecked = [], []
        self.replay = self.baseline = None
        try:
            self.graph = read_graph(graph)
            self.baseline = Replay(self.graph, own_order(self.graph))
            self.violations += [f"graph: its own order is wrong: {line}" for line in self.baseline.violations]
            if self.violations:
                return
            self.judge(record(plan, "plan"))
        except FormatError as error:
            self.violations.append(str(error))

    def verdict(self):
        return Verdict(self.violations, list(dict.fromkeys(self.unchecked)), self.replay, self.baseline)

    def judge(self, plan):
        if take(plan, "format", text, "plan") != "echo-plan/1":
            raise FormatError(f"plan: format is {plan['format']!r}")
        take(plan, "graph", text, "plan", "")
        take(plan, "strategy", text, "plan", "")
        items = take(plan, "schedule", list_of(as_it_is), "plan")
        self.steps = read_schedule(items, self.graph)
        self.link = read_link(take(plan, "link", record, "plan", None))
        if self.link is None and any(step.does in ("offload", "reload") for step in self.steps):
            self.unchecked.append("how long steps wait for copies (link)")
        self.dead = dead_nodes(self.graph, self.baseline)
        self.check_order()
        for t, step in enumerate(self.steps):
            self.check_node(t, step) if step.runs else self.check_single(t, step)
        self.check_fused()
        self.replay = Replay(self.graph, self.steps)
        self.violations += self.replay.violations
        self.check_reruns()
        for key, check in (("stash", self.check_stash), ("arena", self.check_arena), ("report", self.check_report)):
            if key in plan:
                check(plan[key], plan)
            else:
                self.unchecked.append(key)

    def wrong(self, t, problem):
        step = self.steps[t]
        n = step.node if step.runs else step.source_value[0]
        self.violations.append(f"schedule[{t}]: node {self.graph.nodes[n].name!r}: {problem}")

    def check_order(self):
        """Every node that is not dead runs once; what it needs by control, and `never` nodes before it, ran earlier."""
        ran, last_never = set(), None
        for t, step in enumerate(self.steps):
            if not step.runs:
                continue
            n, node = step.node, self.graph.nodes[step.node]
            for m in node.control:
                if m not in ran:
                    self.wrong(t, f"runs before {self.graph.nodes[m].name!r}, which control puts first")
            if step.recompute:
                if n not in ran:
                    self.wrong(t, "is recomputed before it has run")
                continue
            if n in ran:
                self.wrong(t, "runs a second time without recompute")
            ran.add(n)
            if node.rerun == "never":
                if last_never is not None and n < last_never:
                    self.wrong(t, f"runs after {self.graph.nodes[last_never].name!r}, though both never rerun and stand the other way round")
                else:
                    last_never = n
        for n, node in enumerate(self.graph.nodes):
            if n not in ran and n not in self.dead:
                self.violations.append(f"schedule: node {node.name!r} is not dead, but runs in no step")

    def check_single(self, t, step):
        n, k = step.source_value
        if step.does == "encode" and step.bytes < self.graph.nodes[n].outputs[k].encoded_bytes:
            self.wrong(t, f"bytes is {step.bytes}, but one bit for each element takes {self.graph.nodes[n].outputs[k].encoded_bytes}")

    def check_node(self, t, step):
        node = self.graph.nodes[step.node]
        for position, (source, wanted) in enumerate(zip(step.sources, node.inputs)):
            maker = self.steps[source[0]]
            found = (maker.node, source[1]) if maker.runs else maker.source_value
            if maker.does == "offload":
                self.wrong(t, f"input {position} lies in the host's memory")
            elif found != tuple(wanted):
                self.wrong(t, f"input {position} is output {found[1]} of {self.graph.nodes[found[0]].name!r}, "
                              f"not output {wanted[1]} of {self.graph.nodes[wanted[0]].name!r}")
            elif maker.packed and position not in node.one_bit:
                self.wrong(t, f"input {position} is an encoding, but all bits are needed")
        if not step.recompute:
            return
        if node.phase == "input":
            self.wrong(t, "is recomputed, but is an input node")
        elif node.rerun == "never":
            self.wrong(t, "is recomputed, but may never rerun")
        elif node.rerun is None:
            self.unchecked.append("whether recomputed nodes without rerun may run again")

    def check_fused(self):
        latest = {step.node: t for t, step in enumerate(self.steps) if step.runs}
        results = {latest[n] for n, _ in self.graph.results if n in latest}
        for t, step in enumerate(self.steps):
            if step.fused:
                node = self.graph.nodes[step.node]
                if not step.recompute:
                    self.wrong(t, "is fused, but not a recompute")
                if node.kind == "heavy":
                    self.wrong(t, "is fused, but heavy")
                elif node.kind is None:
                    self.unchecked.append("whether fused nodes without kind are light")
                if t in results:
                    self.wrong(t, "is fused, but makes a graph output")
            elif not step.runs:
                if self.steps[step.sources[0][0]].fused:
                    self.wrong(t, "is fused, but the source of an encode step")
            else:
                for out in self.graph.nodes[step.node].outputs:
                    if out.view_of is not None and self.steps[step.sources[out.view_of][0]].fused:
                        self.wrong(t, "is a view of a fused step, but not fused itself")

    def check_reruns(self):
        once = set().union(*(r.makes_resident | r.writes_resident for r in (self.baseline, self.replay)))
        for t, step in enumerate(self.steps):
            if step.recompute and step.node in once and self.graph.nodes[step.node].phase != "input":
                self.wrong(t, "is recomputed, but makes or overwrites a resident storage")

    def storage(self, copy):
        """The storage that `[step, output]` names, or what is wrong with it."""
        t, k = copy
        if t >= len(self.steps) or k >= copies_of(self.graph, self.steps[t]):
            return None, "is no output of a step"
        found = self.replay.storage_of.get(copy)
        if found is None:
            return None, "is fused, or in the host's memory, and has no storage"
        return found, "is resident" if found.resident else None

    def check_stash(self, x, _):
        named = list_of(pair)(x, "plan: stash")
        if self.replay.stash is None:
            self.unchecked.append("stash (kinds are missing)")
            return
        wanted = {id(storage): storage for storage in self.replay.stash}
        seen = set()
        for i, copy in enumerate(named):
            storage, problem = self.storage(copy)
            if not problem and id(storage) in seen:
                problem = "is named twice"
            elif not problem and id(storage) not in wanted:
                problem = "is not both made before and read after the first backward step"
            if problem:
                self.violations.append(f"stash[{i}]: [{copy[0]}, {copy[1]}] {problem}")
            seen.add(id(storage))
        for key, storage in wanted.items():
            if key not in seen:
                self.violations.append(f"stash: output {storage.maker[1]} of {self.replay.name(storage.maker[0])} is missing")

    def check_arena(self, x, _):
        record(x, "plan: arena")
        size = take(x, "bytes", whole, "plan: arena")
        align = take(x, "align", whole, "plan: arena", 1)
        if align == 0:
            raise FormatError("plan: arena: align is 0")
        block_of = {}
        for i, item in enumerate(take(x, "blocks", list_of(record), "plan: arena")):
            where = f"arena.blocks[{i}]"
            copy = take(item, "step", whole, where), take(item, "output", whole, where)
            offset, length = take(item, "offset", whole, where), take(item, "bytes", whole, where)
            storage, problem = self.storage(copy)
            if problem:
                pass
            elif storage.bytes == 0:
                problem = "has no bytes"
            elif id(storage) in block_of:
                problem = f"has a block already: arena.blocks[{block_of[id(storage)][0]}]"
            if problem:
                self.violations.append(f"{where}: [{copy[0]}, {copy[1]}] {problem}")
                continue
            block_of[id(storage)] = (i, offset, length)
            if length < storage.bytes:
                self.violations.append(f"{where}: bytes is {length}, the storage has {storage.bytes}")
            if offset % align:
                self.violations.append(f"{where}: offset {offset} is no multiple of {align}")
            if offset + length > size:
                self.violations.append(f"{where}: ends at {offset + length}, the arena at {size}")
        for storage in self.replay.storages:
            if storage.bytes and not storage.resident and id(storage) not in block_of:
                self.violations.append(f"arena: output {storage.maker[1]} of {self.replay.name(storage.maker[0])} has no block")
        self.check_overlaps(block_of)
        if size < self.replay.load:
            self.violations.append(f"arena: bytes is {size}, but {self.replay.load} are live at once")

    def check_overlaps(self, block_of):
        """Step by step, the blocks in use in order of offset; a new one is compared with its neighbours."""
        in_use, made, freed = [], [[] for _ in self.steps], [[] for _ in self.steps]
        for storage in self.replay.storages:
            if id(storage) in block_of:
                made[storage.maker[0]].append(storage)
        for t in range(len(self.steps)):
            for storage in made[t]:
                i, offset, length = block_of[id(storage)]
                block = (offset, offset + length, i)
                where = bisect.bisect(in_use, block)
                for other in in_use[max(where - 1, 0):where + 1]:
                    if other[0] < block[1] and block[0] < other[1]:
                        self.violations.append(f"arena.blocks[{i}]: overlaps arena.blocks[{other[2]}] at step {t}")
                in_use.insert(where, block)
                freed[storage.last].append(block)
            for block in freed[t]:
                in_use.pop(bisect.bisect_left(in_use, block))

    def check_report(self, x, plan):
        record(x, "plan: report")
        steps, nodes = self.steps, self.graph.nodes
        again = [nodes[step.node].time_us for step in steps if step.recompute and not step.fused]
        every = [node.time_us for node in nodes]
        ratio = None
        if not again:
            ratio = 0.0
        elif None not in every:
            ratio = sum(again) / sum(every) if sum(every) else 0.0
        found = {
            "baseline_peak_bytes": self.baseline.peak,
            "peak_bytes": self.replay.peak,
            "resident_bytes": self.baseline.resident_bytes,
            "baseline_stash_bytes": self.baseline.stash_bytes,
            "stash_bytes": self.replay.stash_bytes,
            "arena_bytes": plan["arena"]["bytes"] if "arena" in plan else None,
            "arena_lower_bound_bytes": self.replay.load,
            "recomputed_nodes": sum(step.recompute for step in steps),
            "encoded_values": sum(step.does == "encode" for step in steps),
            "fused_nodes": sum(step.fused for step in steps),
        }
        if self.link:
            leaving = [step.bytes for step in steps if step.does == "offload"]
            found |= {"offloaded_values": len(leaving), "offloaded_bytes": sum(leaving), "host_bytes": most_on_host(steps)}
            if found["host_bytes"] > self.link.host_bytes:
                self.violations.append(f"link: host_bytes is {self.link.host_bytes}, the plan takes {found['host_bytes']}")
            self.check_waits(x)
        for key, value in found.items():
            stated = take(x, key, whole, "plan: report", None)
            if stated is None or value is None:
                self.unchecked.append(f"report.{key}")
            elif stated != value:
                self.violations.append(f"report: {key} is {stated}, the replay finds {value}")
        stated = take(x, "recompute_time_ratio", number, "plan: report", None)
        if stated is None or ratio is None:
            self.unchecked.append("report.recompute_time_ratio")
        elif abs(stated - ratio) > 1e-9:
            self.violations.append(f"report: recompute_time_ratio is {stated}, the times of the nodes give {ratio}")
        bound = take(x, "lower_bound_bytes", whole, "plan: report", None)
        if bound is None:
            self.unchecked.append("report.lower_bound_bytes")
        elif bound > self.replay.peak:
            self.violations.append(f"report: lower_bound_bytes is {bound}, above the peak of {self.replay.peak}")
        for key in ("subgraphs", "pass_ms", "load_ms"):
            take(x, key, number, "plan: report", None)
        for key in ("unknown_ops", "notes"):
            take(x, key, list_of(text), "plan: report", None)


    def check_waits(self, x):
        stated = take(x, "stall_time_ratio", number, "plan: report", None)
        every = [node.time_us for node in self.graph.nodes]
        if stated is None or None in every:
            self.unchecked.append("report.stall_time_ratio")
            return
        waited = waits(self.steps, self.replay.reads, self.link, lambda n: every[n])
        ratio = waited / sum(every) if sum(every) else 0.0
        if abs(stated - ratio) > 1e-8:
            self.violations.append(f"report: stall_time_ratio is {stated}, the clocks give {ratio}")


def judge(graph, plan):
    """The verdict on a plan; both as parsed JSON."""
    return Judge(graph, plan).verdict()


# ---- Files


def no_constant(name):
    raise FormatError(f"{name} is no JSON")


def load(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return json.loads(file.read().decode("utf-8"), parse_constant=no_constant)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {error}") from None


def main(arguments):
    if len(arguments) != 2:
        print("usage: replay.py GRAPH.json[.gz] PLAN.json[.gz]", file=sys.stderr)
        return 2
    try:
        verdict = judge(*map(load, arguments))
    except FormatError as error:
        verdict = Verdict([str(error)], [])
    sys.stdout.reconfigure(errors="backslashreplace")
    print("\n".join(verdict.lines()))
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
