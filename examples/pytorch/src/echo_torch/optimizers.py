"""What an optimizer keeps for the parameters that it updates, in bytes: found by one step of it on fake tensors."""

from __future__ import annotations

import difflib
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from echo_torch import hooks

aten = torch.ops.aten
READS = (aten._local_scalar_dense.default, aten.item.default, aten.is_nonzero.default)
Asked: TypeAlias = Optimizer | type[Optimizer] | str | None


@functools.cache
def _kind_of_mode() -> Any:
    """A mode of fake tensors from which numbers can be read: 0.5, 1 or False, since no state's size depends on them."""

    class Readable(hooks.FakeTensorMode):
        def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is aten.is_nonzero.default:
                return False
            if func in READS:
                return 0.5 if args[0].is_floating_point() else args[0].dtype is not torch.bool and 1
            return super().dispatch(func, types, args, kwargs or {})

    return Readable


def name_of(asked: Asked) -> str:
    """The optimizer's name for people."""
    if isinstance(asked, str):
        return _named(asked)[0].__name__
    return "none" if asked is None else getattr(asked, "__name__", type(asked).__name__)


def state_bytes(asked: Asked, parameters: Sequence[torch.Tensor]) -> int:
    """The bytes that the optimizer keeps beside the parameters; of an object that has taken a step, what it has.

    ValueError: there is no optimizer of that name, or its state cannot be found.
    """
    if asked is None or not (parameters or isinstance(asked, Optimizer)):
        return 0
    if isinstance(asked, Optimizer):
        real: Any = asked
        while isinstance(inner := getattr(real, "optimizer", None), Optimizer):  # as accelerate wraps it
            real = inner
        return bytes_of(real.state.values()) or _after_a_step(_on_fakes(real), name_of(real))
    kind, options = _named(asked) if isinstance(asked, str) else (asked, {})
    mode = _kind_of_mode()()
    return _after_a_step(_made(kind, options, [_fake(p, mode) for p in parameters]), kind.__name__)


def bytes_of(values: Iterable[Any]) -> int:
    """The bytes of the tensors in these values; each storage counts once."""
    tensors = [leaf for leaf in pytree.tree_leaves([*values]) if isinstance(leaf, torch.Tensor)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def _named(name: str) -> tuple[type[Optimizer], dict[str, Any]]:
    """The class of `torch.optim` with that name, in any case; "momentum" is SGD with it."""
    if name.lower() == "momentum":
        return torch.optim.SGD, {"momentum": 0.9}
    known = {each.lower(): found for each, found in vars(torch.optim).items() if _is_kind(found)}
    if name.lower() in known:
        return known[name.lower()], {}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean '{known[near[0]].__name__}'? " if near else ""
    names = ", ".join(sorted(found.__name__ for found in known.values()))
    raise ValueError(
        f"torch.optim has no optimizer '{name}': {meant}give one of {names}, 'momentum' (SGD with it), "
        "or the class or the object that you train with"
    )


def _is_kind(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Optimizer) and found is not Optimizer


def _made(kind: Any, options: dict[str, Any], fakes: list[torch.Tensor]) -> Optimizer:
    if not _is_kind(kind):
        raise ValueError(f"optimizer={kind!r} is no optimizer of PyTorch's: give a torch.optim.Optimizer or its name")
    try:
        made: Optimizer = kind(fakes, **options)
    except Exception as fault:
        text = f"optimizer {kind.__name__} cannot be made without options ({fault}): give the object"
        raise ValueError(text) from None
    return made


def _on_fakes(optimizer: Optimizer) -> Optimizer:
    """An optimizer like it for fake parameters, without its hooks and whatever else was put around its step."""
    mode = _kind_of_mode()()
    made: Any = object.__new__(type(optimizer))
    vars(made).update(vars(optimizer))
    for name, value in vars(optimizer).items():
        if name == "step":  # as a scheduler of learning rates replaces it
            del made.step
        elif isinstance(value, OrderedDict) and name.endswith("_hooks"):
            setattr(made, name, OrderedDict())
    made.state = defaultdict(dict)
    made.param_groups = [
        {**group, "params": [_fake(p, mode) for p in group["params"]]} for group in optimizer.param_groups
    ]
    return made


def _fake(parameter: torch.Tensor, mode: Any) -> torch.Tensor:
    """A parameter with a gradient, neither of which has memory."""
    with mode:
        device = "cpu" if parameter.device.type == "meta" else parameter.device
        made = torch.nn.Parameter(
            torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device=device),
            requires_grad=parameter.requires_grad,
        )
        made.grad = torch.empty_like(made) if made.requires_grad else None
    return made


def _after_a_step(optimizer: Optimizer, name: str) -> int:
    """The bytes of the state that a first step leaves."""
    fakes = [p for group in optimizer.param_groups for p in group["params"]]
    mode = next((p.fake_mode for p in fakes), None)
    if mode is None:
        return 0
    try:
        with mode, torch.no_grad():
            optimizer.step(lambda: 1.0)
    except Exception as fault:
        raise ValueError(
            f"the state of the optimizer {name} cannot be found without a step ({type(fault).__name__}): "
            "take one step with it and give the object, whose state is counted, or give optimizer=None"
        ) from None
    return bytes_of(optimizer.state.values())
