"""The joint graph of AOTAutograd as a host of the planner.

Two operators are planned as two calls each, because their parts may run again on different terms:
- batch norm in training: `norm` (may run again, without the running statistics) and `stats` (their
update: never);
- dropout: `mask` (draws random numbers) and `product` (does not, so it may run again without the
generator).
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from echo_torch import graph, hooks, reuse
from echo_torch.graph import (
    Call,
    Needless,
    Place,
    Unknown,
    argument,
    aten,
    holds_memory,
    is_collective,
    is_getitem,
    leaves,
    viewed_argument,
)
from echo_torch.where import function_of, layer_of, named

KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
BATCH_NORM, DROPOUT = aten._native_batch_norm_legit_functional.default, aten.native_dropout.default
# What a second run makes in other bits where threads add in any order.
UNORDERED = ("scatter", "index_add", "index_put", "index_reduce", "put", "bincount", "histc", "cumsum", "embedding_bag")

# Views that their schemas call copies.
HIDDEN_VIEWS = (aten._unsafe_view.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)

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
        for node in [n for n in order if n.op in ("placeholder", "get_attr")]:
            if isinstance(node.meta.get("val"), torch.Tensor):
                self._append(Call(node, "input", [], [graph.describe(node.meta["val"])]))
        for node in order:
            if node.op != "call_function" or is_getitem(node):
                continue
            if not holds_memory(node) and node.meta.get("val") is not None:
                continue  # a size: made where it is read
            backward = node in self.backward_nodes
            call = call_of(node, "backward" if backward else "forward", self.place_of, self.writes_anywhere)
            call.layer = layer_of(node)
            call.keep = self._is_kept(node, call.layer)
            draws = call.rerun != "pure" and is_random(node)
            if draws and not backward and last_draw is not None:
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
            for part in self._split(call) if splits else (call,):
                self._append(part)
            if draws and not backward:
                last_draw = self.parts[node][0]
            if not backward:
                guarded += [i for i in self.parts[node] if self.calls[i].rerun != "pure"]
        self._guard(guarded)

    def _append(self, call: Call) -> None:
        self.parts.setdefault(call.node, []).append(len(self.calls))
        self.calls.append(call)

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
            read, inputs = [*call.reads, call.node], [*call.inputs, (first, 0)]
            return (
                part(part="mask", made=(1,), outputs=[mask], workspace=made.bytes),
                part(part="product", made=(0,), inputs=inputs, outputs=[made], rerun="pure", reads=read, control=[]),
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

    def _returned(self, outputs: list[Any]) -> list[Place]:
        """What outputs stand for that hold memory: an input that is written, as it was written last."""
        last = {node.args[0]: node for node in self.writes}
        nodes = [node for node in outputs if isinstance(node, fx.Node) and holds_memory(node)]
        return [self.place_of(last.get(node, node)) for node in nodes]

    def _guard(self, guarded: list[int]) -> None:
        """The first call of the backward half runs behind what must not be late."""
        guarded += [index for index, _ in self._returned(self.outputs[: self.num_fwd_outputs])]
        self.guarded = sorted({i for i in guarded if self.calls[i].phase == "forward"})
        for call in self.calls:
            if call.phase == "backward":
                call.control = [*call.control, *self.guarded]
                return
        raise Needless("nothing in it depends on a gradient")

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
        replayed = _replayed(self.joint, halves)
        order = [i for i, call in enumerate(self.calls) if call.phase == "input"]
        for half, phase in zip(halves, ("forward", "backward"), strict=True):
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
                order += by_name[name]
        return order


def _replayed(joint: fx.GraphModule, halves: Sequence[fx.GraphModule]) -> dict[fx.Node, fx.Node]:
    """For each operator of a checkpoint that PyTorch's halves run with the state of the generator: the joint graph's.

    PyTorch wraps each in a call that takes the operator as an argument, in the order of the joint graph; the number
    behind the state's name says in the backward half which one it is.
    """
    forward, backward = ([n for n in half.graph.nodes if _wraps_random(n)] for half in halves)
    plain = {node.name for node in halves[0].graph.nodes}
    free = [n for n in joint.graph.nodes if is_random(n) and is_checkpointed(n) and n.name not in plain]
    found: dict[fx.Node, fx.Node] = {}
    for node in forward:
        original = next((n for n in free if n.target in node.args), None)
        if original is None:
            raise Unknown(f"PyTorch's partition runs {named(node)}, which is not in the graph it was given")
        free.remove(original)
        found[node] = original
    originals = list(found.values())
    for node in backward:
        number = next(
            (int(m[1]) for n in node.all_input_nodes if (m := re.search(r"rng_state\w*?_(\d+)$", n.name))), -1
        )
        if not 0 <= number < len(originals):
            raise Unknown("PyTorch's default draws random numbers of a checkpoint in a way that Echo does not know")
        found[node] = originals[number]
    return found


def _wraps_random(node: fx.Node) -> bool:
    """Whether the node runs a random operator, which is an argument of it, with a state of the generator."""
    return node.op == "call_function" and "rng_state" in str(node.target)


def is_checkpointed(node: fx.Node) -> bool:
    """Whether the node stands in a region that the model marks by `torch.utils.checkpoint`."""
    return "ac_graph_id" in node.meta


def checkpoints_of(joint: fx.GraphModule) -> int:
    """How many regions the model marks by `torch.utils.checkpoint`."""
    return len({node.meta["ac_graph_id"] for node in joint.graph.nodes if is_checkpointed(node)})


def lent_inputs(joint: fx.GraphModule, backward: fx.GraphModule, static: Collection[int]) -> set[fx.Node]:
    """The inputs that the user may write to between the forward and the backward pass, as PyTorch runs it: all but
    parameters and buffers, which are those in the places `static`, and what its default saves for the backward pass.
    """
    placeholders = joint.graph.find_nodes(op="placeholder")
    by_name = {node.name: node for node in joint.graph.nodes}
    saved = {storage_of(by_name[n.name]) for n in backward.graph.find_nodes(op="placeholder") if n.name in by_name}
    return {
        node
        for at, node in enumerate(placeholders)
        if at not in static and node not in saved and "tangents" not in str(node.target) and holds_memory(node)
    }


def storage_of(node: fx.Node) -> fx.Node:
    """The node that made the storage on which a value lies, as far as schemas tell."""
    while node.op == "call_function":
        if node.target is reuse.run_over or is_getitem(node):
            node = node.args[0]
            continue
        viewed = viewed_argument(node.target, 0)
        if viewed is None and not is_hidden_view(node):
            break
        node = argument(node, viewed) if viewed else node.args[0]
    return node


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


def is_hidden_view(node: fx.Node) -> bool:
    """Whether the results lie on the argument's storage although the schema calls it a copy."""
    waits = is_collective(node) and node.target._opname == "wait_tensor"
    return waits or node.target in HIDDEN_VIEWS


def is_random(node: fx.Node) -> bool:
    """Whether the operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


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


def set_state(device: str, state: torch.Tensor) -> None:
    with hooks.without_modes():
        torch.set_rng_state(state) if device == "cpu" else _module_of(device).set_rng_state(state, device)


def _module_of(device: str) -> Any:
    return getattr(torch, torch.device(device).type)
