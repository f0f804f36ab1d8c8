"""From the steps of a plan to the two graphs that AOTAutograd runs: every step at its own place."""

from __future__ import annotations

import contextlib
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from echo_torch import hooks, moves, reuse
from echo_torch.defaults import storage_of, way_to_storage
from echo_torch.graph import (
    Call,
    Unknown,
    argument,
    aten,
    device_of,
    holds_memory,
    is_getitem,
    leaves,
)
from echo_torch.host import Host, get_state, set_state, state_bytes

Copy = tuple[int, int]  # {step, output}, as the planner has it
Value = tuple[int, int, bool]  # {call, output}, and whether it is a copy in the host's memory
Halves = tuple[fx.GraphModule, fx.GraphModule]
# For each step its call, its kind, what it reads, and which input of it the result is written over. Steps of MOVES run
# no call: they move what that made, and read the copy that leaves, or what the step made that moved it to the host.
Steps = list[tuple[int, str, list[Copy], int | None]]
MOVES = ("offload", "reload")
NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)


def run_with_generator(state: torch.Tensor, device: str, target: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Runs a random operator as it ran when the state was saved; the generator goes on as if it had not."""
    now = get_state(device)
    set_state(device, state)
    try:
        return target(*args, **kwargs)
    finally:
        set_state(device, now)


class _Half:
    """A graph that grows step by step. `numbers` holds its sizes and modules, `copies` what its steps made, `coming`
    what they begin to bring back.
    """

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.numbers: dict[fx.Node, fx.Node] = {}
        self.copies: dict[Copy, fx.Node] = {}
        self.coming: dict[Copy, fx.Node] = {}

    def placeholder(self, name: str, meta: dict[str, Any]) -> fx.Node:
        node = self.graph.placeholder(name)
        node.meta = meta
        return node

    def call(self, like: fx.Node, target: Any, args: Any, kwargs: Any = None) -> fx.Node:
        node = self.graph.create_node("call_function", target, args, kwargs or {}, name=like.name)
        node.meta = like.meta.copy()
        return node


class Builder:
    """Builds the halves of a planned host."""

    def __init__(self, host: Host, steps: Steps) -> None:
        self.host = host
        self.there = _on_host_already(host, steps)
        self.steps = [
            (node, kind, [self.there.get(copy, copy) for copy in reads], over) for node, kind, reads, over in steps
        ]
        phases = [host.calls[node].phase for node, *_ in steps]
        if "backward" not in phases:
            raise Unknown("the plan runs nothing in the backward pass")
        self.boundary = phases.index("backward")
        self.forward, self.backward = _Half(), _Half()
        self.begins = self._begins()
        self.saved: dict[Value, fx.Node] = {}  # what the forward half hands to the backward half
        # Call → the step that ran it last; what is handed to a half is there before its first step.
        self.latest = {
            node: t for t, (node, kind, *_) in enumerate(steps) if kind not in MOVES and not _runs(host.calls[node])
        }
        self.fresh: dict[fx.Node, fx.Node] = {}  # mask → the product that came with it
        # The states of the generator that something runs again with.
        self.states = {
            reads[-1]
            for node, kind, reads, _ in self.steps
            if kind == "recompute" and host.calls[node].rerun == "seeded"
        }

    def build(self) -> Halves:
        self._inputs(self.forward, [node for node in self.host.placeholders if node not in self.host.tangents])
        self._constants(self.forward)
        late = self._late_reloads()
        for t in range(self.boundary):
            if t not in late:
                self._step(self.forward, t)
        for index in self.host.guarded:
            if index not in self.latest:
                raise Unknown(f"the plan runs {self.host.named(self.host.calls[index].node)} after the forward pass")
        self._cross(late)
        self._constants(self.backward)
        for t in (*late, *range(self.boundary, len(self.steps))):
            self._step(self.backward, t)
        self._end(self.backward, slice(self.host.num_fwd_outputs, None))
        for node in self.backward.graph.nodes:
            if node.op in ("call_function", "get_attr"):
                node.meta["autograd_backward"] = True
        for half in (self.forward, self.backward):
            half.graph.lint()
        return tuple(hooks.make_graph_module(self.host.joint, half.graph) for half in (self.forward, self.backward))

    # ---- One step

    def _inputs(self, half: _Half, nodes: Sequence[fx.Node]) -> None:
        """What the half is handed, and then what is read of it: compiled autograd counts the first ones."""
        for node in nodes:
            made = half.placeholder(node.name, node.meta)
            if not holds_memory(node):
                half.numbers[node] = made
            elif (index := self.host.place_of(node)[0]) in self.latest:  # a plan has no step of what nobody needs
                half.copies[(self.latest[index], 0)] = made
        for node in filter(holds_memory, nodes):
            self._sizes(half, node)

    def _constants(self, half: _Half) -> None:
        for index, call in enumerate(self.host.calls):
            if call.node.op == "get_attr":
                half.copies[(self.latest[index], 0)] = half.graph.node_copy(call.node)

    def _step(self, half: _Half, t: int) -> None:
        if self.steps[t][1] not in MOVES:
            self._run(half, t)
        elif (t, 0) not in self.there:
            self._move(half, t)
        for leaving in self.begins.get(t, ()):
            self._leave(half, leaving)

    def _run(self, half: _Half, t: int) -> None:
        index, kind, reads, _ = self.steps[t]
        call = self.host.calls[index]
        self.latest[index] = t
        if not _runs(call) or call.part == "state":  # the state is read where the operator draws
            return
        if call.part == "stats":  # made by the first run of its `norm`
            half.copies |= {(t, k): half.copies[(reads[0][0], 3 + k)] for k in range(2)}
        elif call.part == "product":
            half.copies[(t, 0)] = self._product(half, t)
        else:
            self._take_outputs(half, t, self._call(half, t))
        if half is self.forward and kind == "run":
            self._sizes(half, call.node)

    def _product(self, half: _Half, t: int) -> fx.Node:
        """What dropout makes: it came with the mask, or is made of the mask that is there."""
        index, _, reads, _ = self.steps[t]
        node = self.host.calls[index].node
        x, mask = (self._copy(half, copy) for copy in reads)
        if mask in self.fresh and self._follows_its_mask(t):
            return self.fresh.pop(mask)
        scale = 1 / (1 - node.args[1]) if node.args[1] != 1 else 0.0
        if self.host.traced:  # as a compiler takes it apart
            factor = half.call(node, torch.ops.prims.convert_element_type.default, (mask, x.meta["val"].dtype))
            factor.meta["val"] = node.meta["val"][0]
            factor = half.call(node, aten.mul.Tensor, (factor, scale))
            factor.meta["val"] = node.meta["val"][0]
            made = half.call(node, aten.mul.Tensor, (x, factor))
        else:
            made = half.call(node, aten.native_dropout_backward.default, (x, mask, scale))
        made.meta["val"] = node.meta["val"][0]
        return made

    def _follows_its_mask(self, t: int) -> bool:
        before, here = (self.host.calls[self.steps[i][0]] for i in (t - 1, t))
        moves_none = all(self.steps[i][1] not in MOVES for i in (t - 1, t))
        return moves_none and (before.part, here.part) == ("mask", "product") and before.node is here.node

    def _call(self, half: _Half, t: int) -> fx.Node:
        index, kind, reads, over = self.steps[t]
        again = kind == "recompute"
        call = self.host.calls[index]
        node = call.node
        at_hand = {read: self._copy(half, copy) for read, copy in zip(call.reads, reads, strict=False)}
        if call.rerun == "seeded" and not again and reads[-1] in self.states:
            half.copies[reads[-1]] = _state(half, node)

        def here(read: fx.Node) -> fx.Node:
            return at_hand[read] if read in at_hand else self._number(half, read)

        if call.part == "norm" and again:  # the running statistics are updated once
            names = ("input", "weight", "bias", "training", "momentum", "eps")
            args = fx.node.map_arg(tuple(argument(node, name) for name in names), here)
            made = half.call(node, aten._native_batch_norm_legit.no_stats, args)
            made.meta["val"] = tuple(node.meta["val"][:3])
            return made
        target = node.target
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), here)
        if over is not None and call.writer is not None:  # the result is written over one of its arguments
            taken = at_hand[call.reads[over]]
            saved = half is self.backward and storage_of(taken).op == "placeholder"
            order = reuse.strided(node.meta["val"]).order
            target, args = reuse.run_over, (taken, order, saved, target, *call.writer, list(args))
        elif again and call.rerun == "seeded":
            target, args = run_with_generator, (self._copy(half, reads[-1]), str(device_of(node)), target, *args)
        return half.call(node, target, args, kwargs)

    def _take_outputs(self, half: _Half, t: int, made: fx.Node) -> None:
        index, kind, *_ = self.steps[t]
        call = self.host.calls[index]
        value = call.node.meta.get("val")  # what makes nothing, such as an assertion, has none
        if not isinstance(value, tuple | list):
            half.copies[(t, 0)] = made
            return
        read = {user.args[1] for user in call.node.users if is_getitem(user) and user.users}
        taken = [(k, n) for n, k in enumerate(range(len(value)) if call.made is None else call.made)]
        taken = [(k, n) for k, n in taken if k in read or (call.part and n < 2)]
        if call.part == "norm" and kind == "run":
            taken += [(3, 3), (4, 4)]
        if call.part == "mask" and t + 1 < len(self.steps) and self._follows_its_mask(t + 1):
            taken += [(0, -1)]
        for k, n in taken:
            if isinstance(value[k], torch.Tensor):
                item = half.graph.call_function(operator.getitem, (made, k))
                item.meta = call.node.meta | {"val": value[k]}
                half.copies[(t, n)] = item
        if call.part == "mask" and (t, -1) in half.copies:
            self.fresh[half.copies[(t, 0)]] = half.copies.pop((t, -1))

    def _copy(self, half: _Half, copy: Copy) -> fx.Node:
        if copy in half.copies:
            return half.copies[copy]
        if copy in half.coming:  # its first reader waits for it
            coming = half.coming.pop(copy)
            half.copies[copy] = half.graph.call_function(moves.came_back, (coming,))
            half.copies[copy].meta = coming.meta
            return half.copies[copy]
        value = self._value(copy)
        if half is self.backward and value in self.saved:
            return self.saved[value]
        raise Unknown(
            f"the plan reads the result of {self.host.named(self.host.calls[value[0]].node)} before it is made"
        )

    def _value(self, copy: Copy) -> Value:
        step, output = _bits_of(self.steps, copy)
        return self.steps[step][0], output, self.steps[copy[0]][1] == "offload"

    def _number(self, half: _Half, node: fx.Node) -> fx.Node:
        """A size or the like, made here if it has not been yet; of a tensor, its latest copy."""
        if holds_memory(node):
            index, output = self.host.place_of(node)
            return self._copy(half, (self.latest.get(index, -1), output))
        if node not in half.numbers:
            if node.op == "placeholder":
                raise Unknown(f"{self.host.named(node)} is not at hand in the backward pass")
            half.numbers[node] = half.graph.node_copy(node, lambda read: self._number(half, read))
        return half.numbers[node]

    def _sizes(self, half: _Half, node: fx.Node) -> None:
        """Reads the sizes of a tensor while it is there: nobody holds it for them."""
        items = [user for user in node.users if is_getitem(user)]
        for user in [user for of in (node, *items) for user in of.users]:
            is_number = user.op == "call_function" and not holds_memory(user) and user.meta.get("val") is not None
            if is_number and len(user.all_input_nodes) == 1:
                self._number(half, user)

    # ---- What waits in the host's memory

    def _begins(self) -> dict[int, list[int]]:
        """The steps behind which copies begin to leave: what they move is made, and those before them have begun."""
        found: dict[int, list[int]] = {}
        behind = 0
        for t, (_, kind, reads, _) in enumerate(self.steps):
            if kind == "offload" and (t, 0) not in self.there:
                behind = max(behind, reads[0][0])
                found.setdefault(behind, []).append(t)
        return found

    def _late_reloads(self) -> list[int]:
        """What the forward half would begin to bring back for the backward half begins with that."""
        first: dict[int, int] = {}
        for t, (_, _, reads, _) in enumerate(self.steps):
            for step, _ in reads:
                first.setdefault(step, t)
        reloads = (t for t in range(self.boundary) if self.steps[t][1] == "reload" and (t, 0) not in self.there)
        return [t for t in reloads if first.get(t, self.boundary) >= self.boundary]

    def _leave(self, half: _Half, t: int) -> None:
        value = self._copy(half, self.steps[t][2][0])
        away = half.graph.call_function(moves.leave, (value,))
        traced = value.meta["val"]
        with getattr(traced, "fake_mode", None) or contextlib.nullcontext():
            away.meta["val"] = torch.empty_like(traced, device="cpu")
        half.copies[(t, 0)] = away

    def _move(self, half: _Half, t: int) -> None:
        _, kind, reads, _ = self.steps[t]
        moved = self._copy(half, reads[0])
        if kind == "offload":
            away = self._copy(half, (t, 0))
            made = half.copies[(t, 0)] = half.graph.call_function(moves.left, (away, moved))
            made.meta = away.meta
        else:
            traced = _traced(self.host, self.steps, reads[0])
            made = half.coming[(t, 0)] = half.graph.call_function(moves.come_back, (moved, str(traced.device)))
            made.meta = {"val": traced}

    # ---- Between the halves

    def _cross(self, late_reloads: list[int]) -> None:
        """Ends the forward half with all that the backward half reads, and begins that one with it. What has begun to
        leave, and is waited for in the backward half, is saved as it is, and so is its copy.
        """
        host, forward, backward = self.host, self.forward, self.backward
        late = [*(self.steps[t] for t in late_reloads), *self.steps[self.boundary :]]
        crossing: dict[Value, fx.Node] = {}
        wanted = [copy for _, _, reads, _ in late for copy in reads]
        wanted += [(t, 0) for t in range(self.boundary, len(self.steps)) if self.steps[t][1] == "offload"]
        gradients = [node for node in host.outputs[host.num_fwd_outputs :] if isinstance(node, fx.Node)]
        places = [host.place_of(node) for node in gradients if holds_memory(node)]
        wanted += [(self.latest[index], output) for index, output in places if index in self.latest]
        for copy in wanted:  # of several copies of a value the latest
            if copy in forward.copies and host.calls[self.steps[copy[0]][0]].node.op != "get_attr":
                crossing[self._value(copy)] = forward.copies[copy]
        views = self._views_of_saved(crossing.values()) if host.traced else {}
        numbers: dict[fx.Node, None] = dict.fromkeys(self._numbers_of(views))
        for node in (*gradients, *(read for i, *_ in late for read in host.calls[i].node.all_input_nodes)):
            if not holds_memory(node) and node.op != "get_attr":
                self._note_number(numbers, node)

        tensors = [*dict.fromkeys(views.get(made, [made])[-1] for made in crossing.values())]
        tensors.sort(key=_is_unchecked)  # stable
        bindings = self._bindings(tensors, list(numbers))
        # Objects such as the mesh of a distributed tensor stand behind the tensors in both halves.
        objects = [node for node in bindings if not isinstance(node.meta["val"], NUMBERS)]
        sizes = [node for node in bindings if node not in objects]
        saved = [*tensors, *(self._number(forward, node) for node in (*objects, *sizes))]
        unchecked = hooks.SavedUnchecked or hooks.Saved
        kinds = [unchecked if _is_unchecked(node) else hooks.Saved for node in saved]
        marks = [kind(i) if kind else None for i, kind in enumerate(kinds)]
        self._end(forward, slice(host.num_fwd_outputs), saved, marks)

        self._take_over(sizes)
        behind = {made: backward.placeholder(made.name, made.meta) for made in tensors}
        self._take_over(objects)
        self._inputs(backward, host.tangents)
        for way in views.values():
            self._view_again(way, behind)
        self.saved = {value: behind[made] for value, made in crossing.items()}

    def _views_of_saved(self, saved: Iterable[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
        """For each of these that lies on a storage with another of them: the way from it to what made the storage, and
        is saved in their place. A compiler takes each saved tensor to be the only one that lies on its storage, and
        writes over it behind its last reader.
        """
        ways = {node: way_to_storage(node) for node in saved}
        counted = Counter(way[-1] for way in ways.values())
        return {node: way for node, way in ways.items() if counted[way[-1]] > 1 and way[-1].op == "call_function"}

    def _numbers_of(self, views: dict[fx.Node, list[fx.Node]]) -> Iterator[fx.Node]:
        """The sizes that the views are made by, as the joint graph has them."""
        joint = {made: node for node, made in self.forward.numbers.items()}
        for way in views.values():
            for node in way[:-1]:
                yield from (joint[read] for read in node.all_input_nodes if read in joint)

    def _view_again(self, way: list[fx.Node], behind: dict[fx.Node, fx.Node]) -> None:
        """Makes a view in the backward half of the storage that was saved."""
        joint = {made: node for node, made in self.forward.numbers.items()}
        for node in reversed(way[:-1]):
            if node not in behind:
                behind[node] = self.backward.graph.node_copy(
                    node, lambda read: behind[read] if read in behind else self._number(self.backward, joint[read])
                )

    def _take_over(self, numbers: list[fx.Node]) -> None:
        for node in numbers:
            self.backward.numbers[node] = self.backward.placeholder(node.name, self.forward.numbers[node].meta)

    def _note_number(self, numbers: dict[fx.Node, None], node: fx.Node) -> None:
        """A number that no gradient's size decides is made in the forward half and saved. But what is computed from
        sizes and is none, such as the factor of a mean, is computed again: a compiler takes over sizes alone.
        """
        is_size = not isinstance(node.meta["val"], torch.SymFloat | torch.SymBool)
        of_numbers = bool(node.all_input_nodes) and not any(map(holds_memory, node.all_input_nodes))
        if node not in self.host.late and (is_size or not of_numbers):
            numbers[node] = None
            return
        for read in node.all_input_nodes:
            if not holds_memory(read):
                self._note_number(numbers, read)

    def _bindings(self, saved: list[fx.Node], numbers: list[fx.Node]) -> list[fx.Node]:
        """The saved numbers: first those that name a symbol of the saved tensors' sizes, then the others."""
        of_symbols = hooks.symbol_nodes(self.host.joint.graph)
        named = {node: hooks.symbol_of(node) for node in numbers}
        bound = [node for node in numbers if named[node] is not None]
        derived = [node for node in numbers if named[node] is None]
        known = {named[node] for node in bound}
        for node in (*derived, *saved, *self.host.tangents):
            symbols = hooks.free_symbols(node.meta["val"]) - known if "val" in node.meta else set()
            bound += [of_symbols[s] for s in sorted(symbols, key=lambda s: s.name) if s in of_symbols]
            known |= symbols
        return [*bound, *derived]

    def _end(self, half: _Half, own: slice, saved: Sequence[fx.Node] = (), marks: Sequence[Any] = ()) -> None:
        outputs = (self._number(half, node) if isinstance(node, fx.Node) else node for node in self.host.outputs[own])
        results = (*outputs, *saved)
        output = half.graph.output(results)
        output.meta["desc"] = [*self.host.descriptions[own], *marks]
        traces = [node.meta.get("stack_trace") if isinstance(node, fx.Node) else None for node in results]
        output.meta["output_stack_traces"] = traces


def _state(half: _Half, node: fx.Node) -> fx.Node:
    """The state of the generator from which a random operator draws."""
    device = str(device_of(node))
    state = half.graph.call_function(get_state, (device,))
    with getattr(next(leaves(node.meta["val"])), "fake_mode", None) or torch.device("meta"):
        state.meta["val"] = torch.empty(state_bytes(device), dtype=torch.uint8)
    return state


def _bits_of(steps: Steps, copy: Copy) -> Copy:
    """The copy whose bits this one has, made by a step that runs a call."""
    while steps[copy[0]][1] in MOVES:
        copy = steps[copy[0]][2][0]
    return copy


def _traced(host: Host, steps: Steps, copy: Copy) -> torch.Tensor:
    """What was traced of a copy: a description without memory."""
    step, output = _bits_of(steps, copy)
    call = host.calls[steps[step][0]]
    value: Any = call.node.meta["val"]
    if isinstance(value, tuple | list):
        value = value[output if call.made is None else call.made[output]]
    return value


def _on_host_already(host: Host, steps: Steps) -> dict[Copy, Copy]:
    """For each move of what lies in the host's memory all the time: what it moves."""
    found: dict[Copy, Copy] = {}
    for t, (_, kind, reads, _) in enumerate(steps):
        if kind not in MOVES:
            continue
        copy = found.get(reads[0], reads[0])
        if kind == "reload" and reads[0] not in found:
            continue
        if kind == "reload" or moves.ways_of(_traced(host, steps, copy).device) is None:
            found[(t, 0)] = copy
    return found


def _runs(call: Call) -> bool:
    """Whether a half runs it; else it is handed to it."""
    return bool(call.node.op == "call_function")


def _is_unchecked(node: fx.Node) -> bool:
    """Whether PyTorch saves it without a check of its version; those stand behind the others."""
    return bool(node.meta.get("saved_tensor_with_no_vc_check", False))
