"""Results that are written over an argument which nothing reads again: one storage less at that moment, the same bits.

PyTorch's graphs never write in place. Here it is planned: `mark` says which input of a call its result may take, the
planner whether that input is dead by then, and `run_over` looks once more when the operator runs.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from echo_torch import hooks
from echo_torch.graph import MADE_OF, Call, Place, argument_names, aten, defaults_of, is_own, number

EVERYWHERE = False  # whether results are written over arguments also where that does not lower the peak
LEAST_BYTES = 1 << 16  # below that, looking twice costs more time than the memory is worth
_ACTIVATIONS = "threshold gelu silu sigmoid tanh leaky_relu elu hardtanh hardsigmoid softplus".split()
_GRADIENTS = [getattr(aten, f"{name}_backward") for name in _ACTIVATIONS]
# Overloads that write straight to where they are told, with the name of that argument.
WRITES_TO = (
    {op.Tensor: (op.out, "out") for op in (aten.add, aten.sub, aten.mul, aten.div)}
    | {aten.where.self: (aten.where.self_out, "out")}
    | {aten.mul.Scalar: (aten.mul.out, "out")}  # `mul_` rounds the number to the tensor's dtype first
    | {op.default: (op.grad_input, "grad_input") for op in _GRADIENTS}
)
# On a CPU these read a whole row before they write it, element by element, row behind row.
WRITES_TO_ON_CPU = {
    aten._log_softmax_backward_data.default: (aten._log_softmax_backward_data.out, "out"),
    aten._softmax_backward_data.default: (aten._softmax_backward_data.out, "grad_input"),
}

# Views by whose chain PyTorch holds what they are views of more often, so that `run_over` cannot tell who else does.
HELD_MORE = set(defaults_of(aten._conj, aten._neg_view, aten.view_as_complex, aten.view_as_real))
KEEPS = {aten.conj_physical.default, *MADE_OF}  # operators whose results may lie on their arguments' storage

Writer = tuple[Any, str | None]  # an overload, and its argument for the result (None: the first)


def mark(calls: Sequence[Call]) -> None:
    """Names for each call the input that its result may be written over, and by which overload."""
    roots = _roots(calls)
    last_reader = {place: index for index, call in enumerate(calls) for place in call.inputs}
    for index, call in enumerate(calls):
        if (writer := writer_of(call)) is None:
            continue
        free = [k for k in fits(call, writer) if roots[call.inputs[k]]]
        if free:  # first of all one that the graph itself does not read later
            call.over = min(free, key=lambda k: last_reader[call.inputs[k]] != index)
            call.writer = writer


def fits(call: Call, writer: Writer) -> list[int]:
    """The inputs that are laid out as the result is, so that it can take their place."""
    made, reads = call.node.meta["val"], [read.meta["val"] for read in call.reads]
    lies = strided(made)
    if not lies.is_dense or not _share_order(map(strided, reads), lies.order):
        return []
    return [
        k
        for k, read in enumerate(call.reads)
        if (writer[1] is not None or call.node.args[0] is read) and _layout(reads[k]) == _layout(made)
    ]


def _roots(calls: Sequence[Call]) -> dict[Place, bool]:
    """Whether each value lies on a storage that a pure operator of PyTorch's made in this step, and that no other
    operator reads: a collective reads on after it returned, and an operator of the user's may keep what it was given.
    `conj_physical` gives back real numbers as they are, and a sparse tensor keeps all that it is made of.
    """
    root: dict[Place, Place | None] = {}
    kept: set[Place | None] = {None}
    for index, call in enumerate(calls):
        ours = is_own(call.node.target)
        if call.phase != "input" and (not ours or call.node.target in KEEPS):
            kept.update(root[place] for place in call.inputs)
            ours = False
        ours = ours and call.node.target not in HELD_MORE
        for output, value in enumerate(call.outputs):
            base = value.view_of if value.view_of is not None else value.inplace
            made = (index, output) if call.phase != "input" and ours else None
            root[index, output] = made if base is None or made is None else root[call.inputs[base]]
    return {place: made not in kept for place, made in root.items()}


def writer_of(call: Call) -> Writer | None:
    """What writes the call's result to where it is told; None: there is no such overload."""
    target = call.node.target
    pure = call.phase != "input" and call.kind == "light" and call.rerun == "pure" and not call.part
    if not pure or target.namespace != "aten" or len(call.outputs) != 1:
        return None
    if call.outputs[0].inplace is not None or call.outputs[0].bytes < LEAST_BYTES:
        return None
    made = call.node.meta["val"]
    if made.dtype.is_complex:  # a product's last elements are rounded otherwise where it overlaps with an argument
        return None
    if target in WRITES_TO_ON_CPU and made.device.type == "cpu":
        order = strided(made).order
        return WRITES_TO_ON_CPU[target] if order == tuple(sorted(order)) else None
    if target in WRITES_TO or torch.Tag.pointwise not in target.tags:
        return WRITES_TO.get(target)
    packet = getattr(aten, target.overloadpacket.__name__ + "_", None)
    overload = packet and getattr(packet, target._overloadname, None)
    return (overload, None) if overload and argument_names(overload) == argument_names(target) else None


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    """What one tensor must share with another to take its place; symbolic sizes by their names."""
    return (
        value.dtype,
        value.device,
        value.is_conj(),
        value.is_neg(),
        *(str(n) for n in (*value.shape, *value.stride())),
    )


class Strided(NamedTuple):
    """How a tensor lies in memory. `order`: the dimensions along which it has several elements in several places,
    counted from the last as -1, those of the widest strides first. `is_dense`: whether every element has a place of its
    own, without gaps.
    """

    order: tuple[int, ...]
    is_dense: bool


@functools.lru_cache(4096)
def _strided(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Strided:
    several = [d for d in range(-len(sizes), 0) if sizes[d] != 1 and strides[d] != 0]
    order = tuple(sorted(several, key=lambda d: -strides[d]))
    places = 1
    for dimension in reversed(order):
        if strides[dimension] != places:
            return Strided(order, False)
        places *= sizes[dimension]
    return Strided(order, places == math.prod(sizes))


def strided(value: torch.Tensor) -> Strided:
    """How a traced tensor lies; symbolic sizes by their hints."""
    return _strided(tuple(map(number, value.shape)), tuple(map(number, value.stride())))


def is_dense(value: torch.Tensor) -> bool:
    """Whether every element of a tensor has a place of its own, without gaps."""
    return _strided(value.shape, value.stride()).is_dense


def _share_order(values: Iterable[Strided], order: tuple[int, ...]) -> bool:
    """Whether the dimensions of all lie in this order. Then so do those of an elementwise result; else it depends on
    the operator, and tracing is not always right about it.
    """
    orders = (value.order for value in values)
    return all(one == order or one == tuple(d for d in order if d in one) for one in orders)


# ---- While training


def _holders(over: torch.Tensor, args: list[Any]) -> tuple[int, ...]:
    """How often Python and others hold the tensor, the one that it is a view of, and their storage: views, hooks,
    arrays, capsules, other graphs.

    `args` is a list that was made for the call alone: handed on beside the tensor, it is held as often by the functions
    between and by Python's calls, which hold what they are given once more while TorchDynamo looks at frames. So its
    count is taken off.
    """
    held, storage = [over], over.untyped_storage()
    if over._base is not None:
        held.append(over._base)
    counts = [n for one in held for n in (sys.getrefcount(one), hooks.use_count(one))]
    counts[0] -= sum(value is over for value in args) + sys.getrefcount(args)
    return (*counts, sys.getrefcount(storage), hooks.storage_use_count(storage._cdata))


def _holders_alone() -> dict[int, Any]:
    """What `run_over` finds of tensors that the graph alone holds: one, and a view of another. They are real tensors of
    the CPU whatever mode of the user's is open, such as one that makes fake ones or that of inference, where a view
    does not know what it is a view of.
    """
    with torch.inference_mode(False), hooks.without_modes():
        value = torch.empty(1, device="cpu")
        counts = _holders(value, [value])
        value = value.view(-1)
        viewed = _holders(value, [value])
    return {len(counts): counts, len(viewed): viewed}


_ALONE = {} if hooks.missing else _holders_alone()


def run_over(
    over: torch.Tensor,
    order: tuple[int, ...],
    is_saved: bool,
    target: Any,
    writer: Any,
    name: str | None,
    args: list[Any],
    /,
    **kwargs: Any,
) -> torch.Tensor:
    """Runs an operator that writes its result over one of its arguments, which lie in a list that is made for this call
    alone. What somebody else holds is left alone, and what is saved where the backward pass is to run once more: then
    the operator runs as it stands. So it does where the arguments do not lie in the `order` that tracing promised,
    which happens: then the result might lie in another. And under `vmap`, whose tensors have no storage to look at and
    may be larger than the argument.
    """
    # A transform is under way: that of `is_grads_batched`, or `torch.func`'s.
    if hooks.includes_key("VmapMode") or hooks.transform() is not None:
        return target(*args, **kwargs)
    holders = _holders(over, args)
    alone = _ALONE.get(len(holders))
    shared = alone is None or any(n > one for n, one in zip(holders, alone, strict=True))
    # Memory that is not PyTorch's own (an array's, a file's) may have owners that it cannot count.
    shared = shared or not over.untyped_storage().resizable()
    lie = [_strided(x.shape, x.stride()) for x in args if isinstance(x, torch.Tensor)]
    as_told = _strided(over.shape, over.stride()) == (order, True) and _share_order(lie, order)
    if shared or not as_told or (is_saved and hooks.keeps_graph()):
        return target(*args, **kwargs)
    return writer(*args, **kwargs, **({name: over} if name is not None else {}))
