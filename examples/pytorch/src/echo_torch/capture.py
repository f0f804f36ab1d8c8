"""The joint forward and backward graph of a training step, traced with fake tensors: no memory, and no data unless the
step reads it (`tape.py`).

The step is traced as `torch.compile` traces it, but by running its Python code: regions of `torch.utils.checkpoint`
carry the marks that TorchDynamo would give them, code that asks `torch.compiler.is_compiling()` is told so, and
compiled modules run as they were before. Whatever the step sets on its modules is undone.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils.checkpoint as checkpoints
from torch import fx, nn
from torch.fx import traceback
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from echo_torch import hooks, tape
from echo_torch.faults import StepError, explained


class _Captured(Exception):
    """Leaves the tracer with the joint graph and its outputs forward: nothing is to be compiled."""


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's own module within `torch.compile` and data parallelism."""
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while inner := getattr(module, "_orig_mod", module.module if isinstance(module, parallel) else None):
        module = inner
    return module


def paths_of(module: nn.Module) -> dict[nn.Module, str]:
    """The path of each submodule, without what `torch.compile` puts into it."""
    return {submodule: re.sub(r"(^|\.)_orig_mod(?=\.|$)", "", path) for path, submodule in module.named_modules()}


@contextlib.contextmanager
def layers_recorded(module: nn.Module) -> Iterator[None]:
    """While this is open, every traced node carries the path of the submodule it was called in."""
    open_calls: list[contextlib.ExitStack] = []

    def enter(path: str, *_: Any) -> None:
        open_calls.append(contextlib.ExitStack())
        open_calls[-1].enter_context(traceback.annotate({"layer": path}))

    def leave(*_: Any) -> None:
        open_calls.pop().close()

    def leave_all() -> None:  # also the modules that raised
        while open_calls:
            leave()

    with contextlib.ExitStack() as registered:
        for submodule, path in paths_of(module).items():
            hook = functools.partial(enter, path)
            registered.callback(submodule.register_forward_pre_hook(hook, prepend=True).remove)
            registered.callback(submodule.register_forward_hook(leave, always_call=True).remove)
        registered.enter_context(traceback.preserve_node_meta())
        registered.callback(leave_all)
        yield


# ---- What the step must not leave behind


@contextlib.contextmanager
def attributes_kept(module: nn.Module) -> Iterator[None]:
    """Undoes what is set, added or taken away on the submodules, and in lists and dicts of theirs."""
    owners = [vars(submodule) for submodule in module.modules()]
    kinds = (dict, OrderedDict, list, set)
    held = {id(value): value for owner in owners for value in owner.values() if type(value) in kinds}
    copies = [(each, copy.copy(each)) for each in (*owners, *held.values())]
    try:
        yield
    finally:
        for each, before in copies:
            each.clear()
            each.extend(before) if isinstance(each, list) else each.update(before)


def _plain_tensors(module: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Attributes with tensors that are neither parameters nor buffers, such as rotary tables."""
    registries = ("_parameters", "_buffers", "_modules")
    return [
        (vars(submodule), name)
        for submodule in module.modules()
        for name, value in vars(submodule).items()
        if name not in registries and any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
    ]


class _Part:
    """The model or the loss, and all its tensors, which the tracer replaces."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.module = call if isinstance(call, nn.Module) else nn.Module()
        self.plain = _plain_tensors(self.module)

    def tensors(self) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        named = dict(self.module.named_parameters()), dict(self.module.named_buffers())
        return *named, [owner[name] for owner, name in self.plain]

    def run(self, tensors: tuple[Any, Any, list[Any]], args: Any, kwargs: Any) -> Any:
        parameters, buffers, plain = tensors
        for (owner, name), value in zip(self.plain, plain, strict=True):
            owner[name] = value
        if self.module is self.call:
            return torch.func.functional_call(self.module, (parameters, buffers), args, kwargs)
        return self.call(*args, **kwargs)


@contextlib.contextmanager
def _replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Sets attributes, and sets them back."""
    before = {name: getattr(owner, name) for name in attributes}
    vars(owner).update(attributes)
    try:
        yield
    finally:
        vars(owner).update(before)


# ---- Checkpoints of the user's own


class _Reentrant:
    """The reentrant kind of checkpoint, traced as the other."""

    @staticmethod
    def apply(run: Any, preserve: bool, *args: Any) -> Any:
        return checkpoints.checkpoint(run, *args, use_reentrant=False)


def _recomputed(*_: Any, **__: Any) -> checkpoints.CheckpointPolicy:
    return checkpoints.CheckpointPolicy.PREFER_RECOMPUTE


@contextlib.contextmanager
def checkpoints_marked() -> Iterator[None]:
    """Regions of `torch.utils.checkpoint` are traced once, and their nodes marked for a partitioner, as `torch.compile`
    does it: the random state is the partitioner's to keep, and the reentrant kind is like the other.
    """
    regions, trace = itertools.count(), checkpoints._checkpoint_without_reentrant_generator
    everything = functools.partial(checkpoints.create_selective_checkpoint_contexts, _recomputed)

    def region(run: Any, _: bool, context_fn: Any, check: str, *more: Any, **kwargs: Any) -> Iterator[None]:
        (_, _, *args), number = more, next(regions)  # how to debug and when to stop are not the tracer's concern

        def contexts() -> tuple[Any, Any]:
            noted, again = (everything if context_fn is checkpoints.noop_context_fn else context_fn)()
            noted.ac_graph_id = number
            return noted, again

        # What the contexts note for the nodes to come ends with the region.
        with traceback.preserve_node_meta(), traceback.annotate({"checkpoint": number}):
            yield from trace(run, False, contexts, check, False, False, *args, **kwargs)

    with _replaced(checkpoints, _checkpoint_without_reentrant_generator=region, CheckpointFunction=_Reentrant):
        yield


def _number_regions(joint: fx.GraphModule) -> None:
    """Every node of a region carries its number; not all versions of PyTorch note it."""
    for node in joint.graph.nodes:
        number = node.meta.get("custom", {}).get("checkpoint")
        if number is not None and "recompute" in node.meta:
            node.meta.setdefault("ac_graph_id", number)


# ---- The trace


@contextlib.contextmanager
def _as_compiled() -> Iterator[None]:
    """Python code that asks whether it is compiled is told so, and what is compiled already runs as it was before. What
    goes wrong is told once, by us.
    """
    log = logging.getLogger("torch._subclasses.fake_tensor")
    with _replaced(torch.compiler, _is_compiling_flag=True), torch.compiler.set_stance("force_eager"):
        with _replaced(log, disabled=True):
            yield


def _fake(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    if tensor.device.type != "meta":
        made: torch.Tensor = mode.from_tensor(tensor, static_shapes=True)
        return made
    with mode:  # autograd does not trace what is on no device
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.requires_grad_(tensor.requires_grad)


def tensors_of(part: Any) -> Any:
    """The parameters, buffers and other tensors that a model or a loss holds."""
    return _Part(part).tensors()


def joint_graph(
    module: nn.Module,
    loss_fn: Callable[..., Any] | None,
    inputs: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[Any],
    **aot: Any,
) -> tuple[fx.GraphModule, list[str], int]:
    """The graph of `loss_fn(module(*inputs), *labels)` and its gradients, as AOTAutograd hands it to a partitioner.

    Without `loss_fn` the module returns its loss: see `loss_of`. Also the paths of the parameters and buffers that are
    its first placeholders, and how many outputs are the forward half's. A step that reads its data is run forward once,
    and the graph has "reads_data" in its `meta`: it is that of these data. There, too, are the places of parameters and
    buffers among the placeholders, by the name that AOTAutograd has for them. `aot`: how AOTAutograd is to trace.
    StepError: the step cannot be traced, or no parameter requires a gradient; it says where and why.
    """
    module = unwrapped(module)
    step = _Step(module, loss_fn, inputs, labels, aot)
    try:
        return step.joint(hooks.FakeTensorMode(allow_non_fake_inputs=True))  # such as what the loss captures
    except StepError as fault:
        if not fault.on_data or not step.has_data():
            raise
        first = fault
    try:
        traced = step.joint(tape.replaying(step.record()))
    except StepError as fault:
        raise (first if fault.on_data else fault) from None  # the first names the line that reads
    traced[0].meta["reads_data"] = True
    return traced


class _Step:
    """A step, which runs on any tensors in place of its own."""

    def __init__(self, module: nn.Module, loss_fn: Any, inputs: Any, labels: Sequence[Any], aot: Any) -> None:
        self.aot = aot
        self.model, self.loss = _Part(module), _Part(loss_fn or _first)
        self.who = "loss_fn" if loss_fn else f"the model ({type(module).__name__})"
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
        real = (self.model.tensors(), self.loss.tensors(), args, kwargs, tuple(labels))
        self.paths = [*real[0][0], *real[0][1]]
        held = {id(t) for parameters, buffers, _ in real[:2] for t in (*parameters.values(), *buffers.values())}
        self.leaves, self.spec = pytree.tree_flatten(real)
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.static = {at for at, tensor in enumerate(self.tensors()) if id(tensor) in held}

    def tensors(self) -> list[torch.Tensor]:
        return [self.leaves[place] for place in self.places]

    def run(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The loss; what the step sets on its modules is undone."""
        leaves = [*self.leaves]
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        of_model, of_loss, args, kwargs, labels = pytree.tree_unflatten(leaves, self.spec)
        with attributes_kept(self.model.module), attributes_kept(self.loss.module):
            made = self.model.run(of_model, args, kwargs)
            return loss_of(self.loss.run(of_loss, (made, *labels), {}), self.who)

    def has_data(self) -> bool:
        return all(tensor.device.type != "meta" and not hasattr(tensor, "fake_mode") for tensor in self.tensors())

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What goes wrong is told in one sentence."""
        try:
            with _as_compiled():
                yield
        except (StepError, _Captured):
            raise
        except Exception as fault:
            raise explained(fault, paths_of(self.model.module))  # noqa: B904 - whether the cause helps is told there

    def record(self) -> list[tape.Entry]:
        """What the step reads of its data, by running it once on copies of all but its parameters."""
        own = [t if isinstance(t, nn.Parameter) else t.clone() for t in self.tensors()]
        with self._explained():
            return tape.recorded(lambda: self.run(own))

    def joint(self, mode: Any) -> tuple[fx.GraphModule, list[str], int]:
        def step(*tensors: torch.Tensor) -> Any:
            mode.at = 0  # the tracer runs it more than once
            return self.run(tensors)

        def hand_over(joint: fx.GraphModule, *_: Any, num_fwd_outputs: int, **__: Any) -> None:
            raise _Captured(joint, num_fwd_outputs)

        fake = [_fake(tensor, mode) for tensor in self.tensors()]
        # A number that the tracer knows by itself is read in the recording alone.
        limit = 0 if hasattr(mode, "entries") else proxy_tensor.CONSTANT_NUMEL_LIMIT
        constants = _replaced(proxy_tensor, CONSTANT_NUMEL_LIMIT=limit)
        try:
            with self._explained(), mode, constants, layers_recorded(self.model.module), checkpoints_marked():
                hooks.aot_function(step, hooks.boxed_nop, partition_fn=hand_over, **self.aot)(*fake)
        except _Captured as captured:
            joint, num_fwd_outputs = captured.args
            _number_regions(joint)
            joint.meta["static_lifetime_input_indices"] = self.static
            return joint, self.paths, num_fwd_outputs
        raise StepError(
            "no gradient is asked for: the loss depends on no parameter that requires one; "
            "look for requires_grad=False, torch.no_grad() and .detach()"
        )


def _first(result: Any) -> Any:
    return result


def loss_of(result: Any, who: str) -> torch.Tensor:
    """The loss in what a step returns: a tensor of one number; in an object its `loss`, in a mapping its "loss" or else
    the sum of its losses, in a sequence its first element. `who` returned it. StepError: there is none.
    """
    found = getattr(result, "loss", result)
    if isinstance(found, Mapping):
        found = found["loss"] if "loss" in found else _sum(found)
    elif isinstance(found, list | tuple) and found:
        found = found[0]
    if isinstance(found, torch.Tensor) and found.numel() == 1 and found.is_floating_point():
        return found
    got = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(result).__name__
    advice = "return one number, such as the mean"
    if who != "loss_fn":
        advice = (
            "give loss_fn= (such as torch.nn.functional.cross_entropy) and labels=, "
            "or the inputs with which the model returns its loss (such as labels=)"
        )
    raise StepError(f"{who} returned no loss but {got}: {advice}")


def _sum(losses: Mapping[str, Any]) -> Any:
    """The sum of a model's losses by name, as those of detection return them."""
    alike = losses and all(isinstance(each, torch.Tensor) and each.numel() == 1 for each in losses.values())
    return sum(losses.values()) if alike else None
