"""The joint graph of AOTAutograd as a host of the planner.

Two operators are planned as two calls each, because their parts may run again on different terms:
- batch norm in training: `norm` (may run again, without the running statistics) and `stats` (their
update: never);
- dropout: `mask` (draws random numbers) and `product` (does not, so it may run again without the
generator).

What draws random numbers and may run again reads the `state` of the generator, a call of its own that runs once.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import functools
import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from echo_torch import graph, hooks, moves, reuse
from echo_torch.defaults import is_checkpointed, replayed_by, storage_of
from echo_torch.graph import (
    Call,
    Needless,
    Place,
    Unknown,
    aten,
    holds_memory,
    is_collective,
    is_getitem,
    is_hidden_view,
    is_random,
    leaves,
)
from echo_torch.where import function_of, layer_of, named

KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
BATCH_NORM, DROPOUT = aten._native_batch_norm_legit_functional.default, aten.native_dropout.default
# What a second run makes in other bits where threads add in any order.
UNORDERED = ("scatter", "index_add", "index_put", "index_reduce", "put", "bincount", "histc", "cumsum", "embedding_bag")


# What a collective costs, which is not measured: it would need the other ranks.
LATENCY_US, BYTES_PER_US = 20.0, 25e3

# What the planner is told of a call as it stands.
TOLD = ("phase", "kind", "rerun", "inputs", "control", "workspace", "time_us", "keep", "writes", "over")


class Host:
    """The calls of a joint graph in the order in which they are planned, and where each value stands.

    `traced`: the halves are traced once more before they run, so that generators and storages are out of reach. `keep`:
    patterns of module paths whose values are kept. `replaces`: marks of `torch.utils.checkpoint` mean nothing. `lent`:
    the inputs that may change once the forward half is through, so that nothing that reads them runs again. `names`:
    how the user's code calls the inputs.
    """

    writes_anywhere = False  # operators may write to arguments, not only at the end of a half

    def __init__(
        self,
        joint: fx.GraphModule,
        num_fwd_outputs: int,
        *,
        traced: bool = False,
        keep: Sequence[str] = (),
        replaces: bool = False,
        lent: Collection[fx.Node] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.joint, self.num_fwd_outputs = joint, num_fwd_outputs
        self.traced, self.keep, self.replaces = traced, tuple(keep), replaces
        self.lent, self.named = lent, functools.partial(named, names=names)
        self.calls: list[Call] = []
        self.place: dict[fx.Node, Place] = {}
        self.parts: dict[fx.Node, list[int]] = {}  # the calls of an operator
        output = joint.graph.output_node()
        self.outputs = list(leaves(output.args[0]))
        self.descriptions = list(leaves(output.meta.get("desc", [None] * len(self.outputs))))
        self.placeholders = joint.graph.find_nodes(op="placeholder")
        self.is_dynamic = any(isinstance(node.meta.get("val"), torch.SymInt) for node in self.placeholders)
        self.tangents = [node for node in self.placeholders if "tangents" in str(node.target)]
        copies = [] if self.writes_anywhere else joint.graph.nodes
        self.writes = [node for node in copies if node.target is aten.copy_.default]  # to inputs, at the end of a half
        self._read()
        if not traced:
            reuse.mark(self.calls)

    # ---- Reading

    def _mutated_inputs(self) -> set[fx.Node]:
        """The placeholders that are overwritten at the end of the forward half, within it or behind it."""
        by_description = {node.meta["desc"]: node for node in self.placeholders if node.meta.get("desc") is not None}
        found = {node.args[0] for node in self.writes}
        for description in self.descriptions[: self.num_fwd_outputs]:
            if description is None:
                raise Unknown(
                    f"PyTorch does not tell which inputs {function_of(self.outputs) or 'a nested region'} writes to: "
                    "a nested_compile_region is planned where it is no region of its own"
                )
            mutated = getattr(description, "mutated_input", None)
            if mutated is not None and mutated not in by_description:
                raise Unknown("the model writes to an input that PyTorch's graph does not hold")
            if mutated is not None:
                found.add(by_description[mutated])
        return found

    def _is_backward(self, node: fx.Node) -> bool:
        """Whether the tracer marked the node as one of the backward pass."""
        return node.meta.get("partitioner_tag") == "must_be_in_backward"

    def _order(self) -> list[fx.Node]:
        """The nodes of the forward half, then those of the backward half, else as they stood."""
        late = set(self.tangents)
        needed: set[fx.Node] = set()
        for node in self.joint.graph.nodes:
            if late.intersection(node.all_input_nodes) or self._is_backward(node):
                late.add(node)
        open_nodes = [node for node in self.outputs[: self.num_fwd_outputs] if isinstance(node, fx.Node)]
        open_nodes += [node for node in self.writes if node not in late]
        # What the gradients need of an input that may change later is made before that.
        open_nodes += [n for n in self.joint.graph.nodes if n not in late and self._reads_lent(n)]
        while open_nodes:
            node = open_nodes.pop()
            if node not in needed:
                needed.add(node)
                open_nodes += node.all_input_nodes
        if needed & late:
            raise Unknown(f"a result of the forward pass depends on a gradient: {named(next(iter(needed & late)))}")
        forward: list[fx.Node] = []
        backward: list[fx.Node] = []
        begun = False
        for node in self.joint.graph.nodes:
            begun |= node in late and node.op == "call_function"
            (backward if node in late or (begun and node not in needed) else forward).append(node)
        self.late = late
        self.backward_nodes = set(backward)
        return forward + backward

    def _reads_lent(self, node: fx.Node) -> bool:
        return bool(self.lent) and any(storage_of(read) in self.lent for read in node.all_input_nodes)

    def place_of(self, node: fx.Node) -> Place:
        """The call and the output of it that made what `node` stands for."""
        if node in self.place:
            return self.place[node]
        maker, output = node.args if is_getitem(node) else (node, 0)
        if not isinstance(maker, fx.Node) or maker not in self.parts:
            raise Unknown(f"{self.named(node)} reads a part of a part of a result")
        for index in self.parts[maker]:
            made = self.calls[index].made
            if made is None or output in made:
                self.place[node] = (index, output if made is None else made.index(output))
                return self.place[node]
        raise Unknown(f"{self.named(node)} reads a result that {self.named(maker)} does not make")

    def _read(self) -> None:
        written = self._mutated_inputs().union(self.lent)  # and what lies on their storage
        guarded: list[int] = []  # calls that belong into the forward half whatever reads them
        last_draw: int | None = None
        order = self._order()
        for node in [n for n in order if n.op in ("placeholder", "get_attr") and n not in self.tangents]:
            if isinstance(node.meta.get("val"), torch.Tensor):
                self._append(Call(node, "input", [], [graph.describe(node.meta["val"])]))
        for node in order:
            if node in self.tangents and holds_memory(node):
                # Autograd makes it when the backward pass begins, also where the result is not used.
                made = [graph.describe(node.meta["val"])]
                self._append(Call(node, "backward", [], made, rerun="never", time_us=0.0))
            if node.op != "call_function" or is_getitem(node):
                continue
            if not holds_memory(node) and node.meta.get("val") is not None:
                continue  # a size: made where it is read
            backward = node in self.backward_nodes
            call = call_of(node, "backward" if backward else "forward", self.place_of, self.writes_anywhere)
            call.layer = layer_of(node)
            call.keep = self._is_kept(node, call.layer)
            draws = call.rerun != "pure" and is_random(node)
            may_draw = draws or not (graph.is_own(node.target) or is_collective(node))
            if may_draw and not backward and last_draw is not None:
                call.control.append(last_draw)  # the numbers come in the same order
            if draws and (backward or self.traced):
                call.rerun = "never"
            splits = node.target in (BATCH_NORM, DROPOUT) and not backward and self._may_split(node)
            reads_written = [read for read in node.all_input_nodes if base_of(read) in written]
            # What batch norm writes are its statistics, which its second run does not read.
            splits = splits and not any(read in reads_written for read in node.args[:3])
            if reads_written and not splits:
                if backward:
                    raise Unknown(
                        f"the gradient of {self.named(node)} reads {self.named(storage_of(reads_written[0]))}, "
                        "which the model overwrites in the forward pass: compute the new value in a tensor of its own"
                    )
                if call.kind == "view":
                    written.add(node)
                call.rerun = "never"
            if call.rerun == "seeded":
                self._append_state(call)
            for part in self._split(call) if splits else (call,):
                self._append(part)
            if may_draw and not backward:
                last_draw = next(i for i in self.parts[node] if self.calls[i].part != "state")
            if not backward:
                guarded += [i for i in self.parts[node] if self.calls[i].rerun != "pure"]
        self._guard(guarded)

    def _append(self, call: Call) -> None:
        self.parts.setdefault(call.node, []).append(len(self.calls))
        self.calls.append(call)

    def _append_state(self, call: Call) -> None:
        """The state of the generator as a call of its own, which this one reads. To run again it also keeps the state
        that it finds.
        """
        device = graph.device_of(call.node)
        has_own_memory = moves.ways_of(device) is not None  # states lie in the host's
        size = 0 if has_own_memory else state_bytes(str(device))
        call.inputs, call.workspace = [*call.inputs, (len(self.calls), 0)], call.workspace + size
        made, control = [graph.Value([size], "u8", size, exact=True)], [*call.control]
        state = Call(call.node, call.phase, [], made, rerun="never", layer=call.layer, control=control)
        self._append(dataclasses.replace(state, part="state", made=(), time_us=0.0))

    def _may_split(self, node: fx.Node) -> bool:
        if node.target is DROPOUT:
            value = node.args[0].meta["val"]
            return node.args[2] is not False and product_is_exact(value.dtype, str(value.device))
        return node.args[5] is True  # batch norm with the statistics of the batch

    def _split(self, call: Call) -> tuple[Call, Call]:
        """The two parts of a call, each to be planned on its own."""
        part, first = functools.partial(dataclasses.replace, call), len(self.calls)
        if call.node.target is DROPOUT:
            made, mask = call.outputs
            read, inputs = [*call.reads, call.node], [*call.inputs[: len(call.reads)], (first, 0)]
            again = functools.partial(part, rerun="pure", control=[], workspace=0)
            return (
                part(part="mask", made=(1,), outputs=[mask], workspace=call.workspace + made.bytes),
                again(part="product", made=(0,), inputs=inputs, outputs=[made], reads=read),
            )
        read = [read for read in call.node.args[:3] if read in call.reads]  # not the old statistics
        inputs, new = [self.place_of(node) for node in read], [(first, 1)]  # the new ones come with the first run
        norm, stats = call.outputs[:3], call.outputs[3:]
        return (
            part(part="norm", made=(0, 1, 2), inputs=inputs, outputs=norm, rerun="pure", reads=read),
            part(
                part="stats", made=(3, 4), inputs=new, outputs=stats, rerun="never", reads=[], control=[], time_us=0.0
            ),
        )

    def _is_kept(self, node: fx.Node, layer: str) -> bool:
        nodes = [user for user in (node, *node.users) if user is node or is_getitem(user)]
        marks = [one.meta.get("recompute") for one in nodes if not (self.replaces and is_checkpointed(one))]
        if CheckpointPolicy.MUST_CPU_OFFLOAD in marks:
            raise Unknown(f"the result of {self.named(node)} is marked to be offloaded to the host")
        by_name = any(fnmatch.fnmatch(layer, pattern) for pattern in self.keep)
        return by_name or any(mark in KEPT for mark in marks)

    @property
    def unmatched(self) -> dict[str, str]:
        """The patterns of `keep` that name no module here, and the path that is most like each."""
        paths = sorted({call.layer for call in self.calls} - {""})
        missed = [pattern for pattern in self.keep if not fnmatch.filter(paths, pattern)]
        return {each: next(iter(difflib.get_close_matches(each, paths, 1, cutoff=0.0)), "") for each in missed}

    def _returned(self, outputs: list[Any]) -> list[Place]:
        """What outputs stand for that hold memory: an input that is written, as it was written last."""
        last = {node.args[0]: node for node in self.writes}
        nodes = [node for node in outputs if isinstance(node, fx.Node) and holds_memory(node)]
        return [self.place_of(last.get(node, node)) for node in nodes]

    def _guard(self, guarded: list[int]) -> None:
        """The first call of the backward half runs behind what must not be late."""
        guarded += [index for index, _ in self._returned(self.outputs[: self.num_fwd_outputs])]
        self.guarded = sorted({i for i in guarded if self.calls[i].phase == "forward"})
        late = [call for call in self.calls if call.phase == "backward"]
        if not any(call.node.op == "call_function" for call in late):
            raise Needless("nothing in it depends on a gradient")
        late[0].control = [*late[0].control, *self.guarded]

    # ---- For the planner

    def results(self) -> list[Place]:
        return list(dict.fromkeys(self._returned(self.outputs)))

    def facts(self, alignment: int = 1) -> list[dict[str, Any]]:
        """What the planner is told of each call, but for its names; bytes are rounded up as the allocator does."""
        return [facts_of(call, alignment) for call in self.calls]

    def core(self, facts: list[dict[str, Any]]) -> Any:
        """The graph as the extension has it."""
        from echo_torch import _core

        core = _core.Graph()
        for call, told in zip(self.calls, facts, strict=True):
            core.add(name=call.node.name + call.part, layer=call.layer, **told)
        for place in self.results():
            core.result(*place)
        return core

    def digest(self, facts: list[dict[str, Any]], *more: Any) -> str:
        """A hash of all that a plan depends on."""
        return hashlib.sha256(repr((facts, self.results(), more)).encode()).hexdigest()

    def order_of(self, halves: Iterable[fx.GraphModule]) -> list[int]:
        """The calls in the order in which two halves of PyTorch's run them. Unknown: they have others."""
        by_name = {node.name: calls for node, calls in self.parts.items()}
        halves = tuple(halves)
        replayed = replayed_by(self.joint, halves)
        order = [i for i, call in enumerate(self.calls) if call.phase == "input"]
        for half, phase in zip(halves, ("forward", "backward"), strict=True):
            if phase == "backward":
                order += [i for node in self.tangents for i in self.parts.get(node, ())]
            for node in half.graph.nodes:
                if node.op != "call_function" or is_getitem(node):
                    continue
                again = replayed.get(node)
                if again is None and not holds_memory(node):
                    continue
                name = node.name if again is None else again.name
                if name not in by_name:
                    raise Unknown(
                        f"PyTorch's partition runs {self.named(node)}, which is not in the graph it was given"
                    )
                call = self.calls[by_name[name][0]]
                if again is None and is_random(node) and call.rerun != "pure" and call.phase != phase:
                    raise Unknown(
                        f"PyTorch's default draws the random numbers of {self.named(node)} in the {phase} pass, "
                        "and Echo would draw them earlier or later than that"
                    )
                order += [i for i in by_name[name] if phase == "forward" or self.calls[i].part != "state"]
        return order


def call_of(node: fx.Node, phase: str, place_of: Any, writes: bool = False) -> Call:
    """The call of one node of a joint graph, with what its schema does not say. Unknown: it writes to an argument, and
    not at the end of a half; unless it `writes` where its graph may.
    """
    call = graph.read_call(node, phase, place_of, writes)
    if not writes and graph.written_arguments(node.target) and node.target is not aten.copy_.default:
        raise Unknown(f"{named(node)} writes to one of its arguments, so it cannot be moved or run again")
    if is_hidden_view(node):
        call.kind = "view"
        for output in call.outputs:
            output.view_of = 0
    elif is_collective(node):
        call.time_us = LATENCY_US + call.outputs[0].bytes / BYTES_PER_US
    elif node.target is aten.copy_.default and not writes:
        call.outputs[0].inplace = 0
    if not may_run_again(node):
        call.rerun = "never"
    return call


def facts_of(call: Call, alignment: int) -> dict[str, Any]:
    """What the planner is told of a call, but for its names."""

    def size(value: graph.Value) -> int:
        return -(-value.bytes // alignment) * alignment if value.view_of is None else value.bytes

    outputs = [(size(value), value.view_of, value.inplace) for value in call.outputs]
    facts = {"op": str(call.node.target) + call.part, "outputs": outputs, "flops": float(call.flops)}
    return facts | {name: getattr(call, name) for name in TOLD}


def base_of(node: fx.Node) -> fx.Node:
    return node.args[0] if is_getitem(node) else node


def may_run_again(node: fx.Node) -> bool:
    """Not what keeps a random state of its own, nor what makes other bits every time."""
    keeps_state, unordered = _own_ways(node.target)
    if keeps_state or node.kwargs.get("generator") is not None:
        return False
    made = leaves(node.meta.get("val")) if unordered else ()
    return all(v.device.type == "cpu" for v in made if isinstance(v, torch.Tensor))


@functools.cache
def _own_ways(target: Any) -> tuple[bool, bool]:
    """Whether the operator keeps a random state, and whether it adds in any order, but on a CPU."""
    name = getattr(getattr(target, "overloadpacket", None), "__name__", "")
    return "rnn" in name, any(part in name for part in UNORDERED)


@functools.cache
def product_is_exact(dtype: torch.dtype, device: str) -> bool:
    """Whether the gradient of dropout makes the same bits of an input as dropout itself does of it."""
    try:
        with hooks.without_modes(), torch.no_grad():
            x = torch.linspace(-3, 3, 4099, dtype=torch.float64).to(device=device, dtype=dtype)
            state = get_state(device)
            out, mask = aten.native_dropout(x, 0.3, True)
            set_state(device, state)
            again = aten.native_dropout_backward(x, mask, 1 / (1 - 0.3))
            return bool(torch.equal(out, again) and 0 < mask.sum() < 4099)
    except Exception:
        return False


def get_state(device: str) -> torch.Tensor:
    """The state of the default generator of a device, whatever mode of the user's is open."""
    with hooks.without_modes():
        return torch.get_rng_state() if device == "cpu" else _module_of(device).get_rng_state(device)


@functools.cache
def state_bytes(device: str) -> int:
    """The bytes of the state of a device's default generator; 0 where that device is not there."""
    try:
        return get_state(device).nbytes
    except Exception:
        return 0


def set_state(device: str, state: torch.Tensor) -> None:
    with hooks.without_modes():
        torch.set_rng_state(state) if device == "cpu" else _module_of(device).set_rng_state(state, device)


def _module_of(device: str) -> Any:
    return getattr(torch, torch.device(device).type)
