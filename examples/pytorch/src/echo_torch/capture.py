"""The joint forward and backward graph of a training step, traced with fake tensors: no memory, no data."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx import traceback
from torch.utils import _pytree as pytree

from echo_torch import hooks


class _Captured(Exception):
    """Leaves the tracer with the joint graph and its outputs forward: nothing is to be compiled."""


@contextlib.contextmanager
def layers_recorded(module: torch.nn.Module) -> Iterator[None]:
    """While this is open, every traced node carries the path of the submodule it was called in."""
    open_calls: list[contextlib.ExitStack] = []

    def enter(path: str, *_: Any) -> None:
        open_calls.append(contextlib.ExitStack())
        open_calls[-1].enter_context(traceback.annotate({"layer": path}))

    def leave(*_: Any) -> None:
        open_calls.pop().close()

    with contextlib.ExitStack() as registered:
        for path, submodule in module.named_modules():
            hook = functools.partial(enter, path)
            registered.callback(submodule.register_forward_pre_hook(hook, prepend=True).remove)
            registered.callback(submodule.register_forward_hook(leave, always_call=True).remove)
        registered.enter_context(traceback.preserve_node_meta())
        yield


def joint_graph(
    module: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    inputs: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[torch.Tensor],
) -> tuple[fx.GraphModule, list[str], int]:
    """The graph of `loss_fn(module(*inputs), *labels)` and its gradients, as AOTAutograd hands it to a partitioner.

    Also the paths of the parameters and buffers that are its first placeholders, and how many outputs are the forward
    half's. ValueError: no parameter requires a gradient.
    """
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})

    def hand_over(joint: fx.GraphModule, *_: Any, num_fwd_outputs: int, **__: Any) -> None:
        raise _Captured(joint, num_fwd_outputs)

    def step(parameters: Any, buffers: Any, args: Any, kwargs: Any, labels: Any) -> torch.Tensor:
        return loss_fn(torch.func.functional_call(module, (parameters, buffers), args, kwargs), *labels)

    mode = hooks.FakeTensorMode()

    def fake_of(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "meta":
            return mode.from_tensor(tensor)
        with mode:  # autograd does not trace what is on no device
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        return made.requires_grad_(tensor.requires_grad)

    real = (dict(module.named_parameters()), dict(module.named_buffers()), args, kwargs, tuple(labels))
    fake = pytree.tree_map_only(torch.Tensor, fake_of, real)
    try:
        with mode, layers_recorded(module):
            hooks.aot_function(step, hooks.boxed_nop, partition_fn=hand_over)(*fake)
    except _Captured as captured:
        joint, num_fwd_outputs = captured.args
        return joint, [*real[0], *real[1]], num_fwd_outputs
    raise ValueError("no gradient was asked for: no parameter requires one")
