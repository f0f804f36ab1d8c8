"""What autograd keeps beside Echo's graphs, and whose parameters it reaches through none of them."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from echo_torch import breaks
from echo_torch.breaks import Break
from echo_torch.steps import MUCH, Outside

LOSS = "what follows the last graph, such as the loss, is computed outside of the compiled model"
LOSS_CURE = "compile a function that returns the loss: torch.compile(lambda *batch: loss_of(model, *batch), …)"
RUNS = "it runs beside the graphs, as in eager mode"
RUNS_CURE = "compile the module or the function that calls it, too"

Storages = dict[int, int]  # storage → bytes


@dataclass
class Beside:
    """What one backward pass reaches. Bytes."""

    inside: list[torch.Tensor] = field(default_factory=list)  # parameters that a graph of Echo's reads
    outside: list[torch.Tensor] = field(default_factory=list)  # and those that none does
    saved: int = 0  # kept by other nodes, and by no graph
    behind: int = 0  # of that, what had run when the first backward half began, from shapes
    only_loss: bool = True  # nothing is trained behind the last graph


def look(first: Any, kinds: set[type], inside: Storages, inputs: set[int]) -> Beside:
    """What the backward pass reaches whose first node of Echo's is about to run; `kinds` are the types of such nodes.
    What lies on storages that graphs keep or were given is not counted, nor are parameters.
    """
    below = set(nodes_below([first]))
    above = [node for node in nodes_below(_roots()) if node not in below]
    nodes = [*below, *above]
    found = Beside()
    near = {id(leaf) for node in nodes if type(node) in kinds for leaf, _ in node.next_functions}
    for leaf in nodes:
        if hasattr(leaf, "variable"):
            (found.inside if id(leaf) in near else found.outside).append(leaf.variable)
    known = {key for p in (*found.inside, *found.outside) for key in storage(p)} | inputs | inside.keys()
    others = [node for node in nodes if type(node) not in kinds]
    kept: Storages = {}
    for node in nodes:
        for value in saved_by(node):
            kept |= {key: size for key, size in storage(value).items() if key not in known}
    gone = dict(pair for node in above if node in others for pair in made_before(node) if type(pair[0]) not in kinds)
    found.behind = sum(gone.values())
    found.saved = sum(kept.values()) + found.behind
    found.only_loss = not any(hasattr(node, "variable") for node in above)
    return found


def storage(value: torch.Tensor) -> Storages:
    """The storage on which a tensor lies; none where it has none."""
    try:
        lies_on = value.untyped_storage()
        return {lies_on._cdata: lies_on.nbytes()} if lies_on.device.type != "meta" else {}
    except (NotImplementedError, RuntimeError):  # sparse, or a subclass around others
        return {}


def address(value: torch.Tensor) -> int | None:
    """Where a tensor's memory begins; None where it has none. Unlike `storage` it leaves no Python object on the
    storage, which autograd takes for somebody who holds it: such a gradient is not added to in place.
    """
    try:
        return value.data_ptr() - value.storage_offset() * value.element_size()
    except (NotImplementedError, RuntimeError):  # sparse, or a subclass around others
        return None


def size(value: torch.Tensor | None) -> int:
    return sum(storage(value).values()) if value is not None else 0


def _roots() -> list[Any]:
    """The nodes at which backward passes that run now began: on this thread's stack, or on another's where a device
    has a thread of its own.
    """
    found = _begun_below(sys._getframe(1))
    if not found:
        others = {thread: frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()}
        found = [node for frame in others.values() for node in _begun_below(frame)]
        others.clear()
    return found


def _begun_below(frame: Any) -> list[Any]:
    """Those on one stack. No frame is held when it returns: what runs there would stay in memory."""
    found: list[Any] = []
    while frame is not None:
        if frame.f_code.co_name == "_engine_run_backward":
            outputs = frame.f_locals.get("t_outputs", ())
            found += [getattr(output, "grad_fn", None) or getattr(output, "node", None) for output in outputs]
        frame = frame.f_back
    return found


def nodes_below(roots: Iterable[Any]) -> Iterator[Any]:
    """The nodes of the autograd graph from these down, each once."""
    seen: set[Any] = set()
    open_nodes = [node for node in roots if node is not None]
    while open_nodes:
        node = open_nodes.pop()
        if node not in seen:
            seen.add(node)
            yield node
            open_nodes += [below for below, _ in node.next_functions if below is not None]


# Of what nodes of a kind save. Kinds come and go with the graphs that are compiled.
_NAMES: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _saved_names(node: Any) -> tuple[str, ...]:
    kind = type(node)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
    return _NAMES[kind]


def saved_by(node: Any) -> Iterator[torch.Tensor]:
    """The tensors that a node of autograd keeps. No unpack hook of the user's is called."""
    for name in _saved_names(node):
        for one in _raw(node, name) or ():
            if one is not None and isinstance(value := one.data, torch.Tensor):
                yield value


def _raw(node: Any, name: str) -> tuple[Any, ...] | None:
    """What a node saves under that name, still packed; None: it is gone."""
    try:
        raw = getattr(node, name)
    except RuntimeError:  # so it is with functions that are written in Python
        return None
    return tuple(raw) if isinstance(raw, tuple | list) else (raw,)


def made_before(node: Any) -> Iterator[tuple[Any, int]]:
    """What a node had saved that has run: {node, bytes} of the results, its own or those it read. Shapes tell: the
    tensors are gone.
    """
    gone = [name for name in _saved_names(node) if _is_gone(node, name)]
    if any(name.removeprefix("_raw_saved_").startswith(("result", "output")) for name in gone):
        yield node, _bytes_of(node)
    if any(not name.removeprefix("_raw_saved_").startswith(("result", "output")) for name in gone):
        for below, _ in node.next_functions:
            if below is not None and not hasattr(below, "variable"):
                yield below, _bytes_of(below)


def _is_gone(node: Any, name: str) -> bool:
    raw = _raw(node, name)
    if raw is None:
        return True
    if not any(one is not None and one.data is None for one in raw):
        return False
    try:  # nothing is left that a hook could unpack
        getattr(node, name.replace("_raw_saved_", "_saved_"))
    except RuntimeError:
        return True
    return False


def _bytes_of(node: Any) -> int:
    made = node._input_metadata  # of the gradients that it takes: of what it made
    return sum(torch.Size(one.shape).numel() * one.dtype.itemsize for one in itertools.islice(made, 1))


# ---- Whose parameters


def modules_of(parameters: Sequence[torch.Tensor], found: Sequence[Break]) -> list[Outside]:
    """The largest modules whose trained parameters are all among these, with what keeps each outside. Parameters of no
    module are left out.
    """
    if not parameters:
        return []
    wanted = {id(p) for p in parameters}
    modules = breaks.every_module()
    parents = {id(child): (module, name) for module in modules for name, child in module._modules.items()}
    largest: dict[int, nn.Module] = {}
    for module in modules:
        if any(id(p) in wanted for p in module._parameters.values()):
            while (above := parents.get(id(module))) and _all_among(above[0], wanted):
                module = above[0]
            largest[id(module)] = module
    return [_named(module, parents, found) for module in largest.values()]


def _all_among(module: nn.Module, wanted: set[int]) -> bool:
    return all(id(p) in wanted for p in module.parameters() if p.requires_grad)


def _named(module: nn.Module, parents: dict[int, tuple[nn.Module, str]], found: Sequence[Break]) -> Outside:
    names: list[str] = []
    at = module
    while above := parents.get(id(at)):
        at = above[0]
        names.insert(0, above[1])
    path = ".".join(name for name in names if name != "_orig_mod")
    name = f"{path} ({type(module).__name__})" if path else type(module).__name__
    numbers = sum(p.numel() for p in module.parameters() if p.requires_grad)
    fits = [one for one in found if breaks.explains(one, module)] or (list(found) if len(found) == 1 else [])
    if not fits and any(isinstance(part, nn.RNNBase) for part in module.modules()):
        fits = [Break(breaks.RECURRENT, cure=breaks.RECURRENT_CURE)]
    why = fits[0] if fits else Break(RUNS, cure=RUNS_CURE)
    return Outside(name, why.reason, why.where, why.cure, numbers)


def outside_of(seen: Beside, kept: int, found: Sequence[Break]) -> list[Outside]:
    """All that is outside: modules, then the breaks that explain none of them, then the loss where it keeps much."""
    parts = modules_of(seen.outside, found)
    told = {(part.reason, part.where) for part in parts}
    parts += [Outside("", b.reason, b.where, b.cure) for b in found if (b.reason, b.where) not in told]
    if seen.only_loss and seen.behind > MUCH * (seen.saved + kept):
        parts.append(Outside("", LOSS, cure=LOSS_CURE))
    return parts
