"""What a graph of ATen operators means to a planner: storage, phases, what may run again.

The one place that knows facts of operators. `host.py` (planning within PyTorch) and `export.py` (files) both read
through it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from echo_torch.where import named

aten = torch.ops.aten
OWN_NAMESPACES = ("aten", "prims")


def defaults_of(*packets: Any) -> tuple[Any, ...]:
    return tuple(packet.default for packet in packets)


DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8",
    torch.float8_e5m2: "f8",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}

# The CPU's attention kernels, for which PyTorch registers no formula.
_attention = flop_registry[aten._scaled_dot_product_flash_attention]
_attention_backward = flop_registry[aten._scaled_dot_product_flash_attention_backward]
FLOP_FORMULAS = flop_registry | {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}

# Results that were as large as the largest argument before they were made smaller: their storage still is, which
# tracing does not know.
SHRUNK = defaults_of(aten.mse_loss, aten.smooth_l1_loss, aten.soft_margin_loss, aten.binary_cross_entropy, aten.col2im)
# What makes other bits under a mode of `__torch_dispatch__`, such as AOTAutograd opens for the first call of a graph:
# the kernel is made of other operators, reads complex views in them, and they do not resolve these there.
# `operators.py` looks for more of them.
OTHER_BITS = (aten.linalg_pinv.atol_rtol_tensor,)
# What its schema calls new and what lies on an argument of that name: the sparse tensor keeps what it is made of.
MADE_OF = {aten._sparse_coo_tensor_with_dims_and_tensors.default: "values"}
# Views that their schemas call copies.
HIDDEN_VIEWS = (aten._unsafe_view.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)
# What copies the whole storage on which its first argument lies, although that is a part of it.
WHOLE = defaults_of(aten.copy, aten.slice_scatter, aten.select_scatter, aten.diagonal_scatter, aten.as_strided_scatter)


class Unknown(Exception):
    """Something in the graph that Echo knows too little about: PyTorch's own partition stays."""


class Needless(Unknown):
    """PyTorch's own partition stays because there is nothing to plan: nobody need be told."""


Place = tuple[int, int]  # a node's index and the output of it


@dataclass
class Value:
    """One output. `bytes` is that of its storage; of a view, that of its elements."""

    shape: list[int] | None
    dtype: str | None
    bytes: int
    exact: bool  # shape and dtype say how many bytes it has
    view_of: int | None = None
    inplace: int | None = None


@dataclass
class Call:
    """One node of the planner's graph; `reads` are the nodes of PyTorch's that stand behind `inputs`."""

    node: fx.Node
    phase: str
    inputs: list[Place]
    outputs: list[Value]
    kind: str = "light"
    rerun: str = "pure"
    layer: str = ""
    flops: int = 0
    one_bit_inputs: list[int] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    reads: list[fx.Node] = field(default_factory=list)
    keep: bool = False
    workspace: int = 0
    time_us: float | None = None
    part: str = ""  # of an operator that is planned as two: see `host.py`
    made: tuple[int, ...] | None = None  # the operator's outputs that this part of it makes
    writes: list[int] = field(default_factory=list)  # the inputs on whose storage it writes
    over: int | None = None  # the input that the result may be written over, by `writer`
    writer: Any = None  # see `reuse.py`


def is_getitem(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def holds_memory(node: fx.Node) -> bool:
    """Whether the node makes tensors; what makes a size, another number or a module does not."""
    return isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


def is_dense(value: Any) -> bool:
    """Whether it is a tensor with a storage and strides."""
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def number(value: Any) -> int:
    """A size as a number; of a symbolic one its hint, so that no guard is added."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    if value.node.hint is None:
        raise Unknown("a tensor's size depends on data, as that of nonzero() does, so its bytes are not known ahead")
    if isinstance(value.node.hint, torch.SymInt):
        raise Unknown("a jagged tensor's sizes lie in its data, so its bytes are not known ahead")
    return int(value.node.hint)


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of arguments or of results: what `pytree.tree_leaves` says, in less time."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def device_of(node: fx.Node) -> torch.device:
    """Where the first tensor that the node makes lies; the CPU if it makes none."""
    made = (value for value in leaves(node.meta.get("val")) if isinstance(value, torch.Tensor))
    return next((value.device for value in made), torch.device("cpu"))


def is_own(target: Any) -> bool:
    """Whether the operator is one of PyTorch's own."""
    return getattr(target, "namespace", "") in OWN_NAMESPACES


def tensor_arguments(node: fx.Node) -> list[tuple[str, fx.Node]]:
    """The node's inputs in order, each with the name of the schema's argument that it is (part of)."""
    if not isinstance(node.target, torch._ops.OpOverload):
        named = [("", (node.args, node.kwargs))]
    else:
        names = argument_names(node.target)
        named = [*zip(names, node.args, strict=False)]
        named += [(name, node.kwargs.get(name)) for name in names[len(node.args) :]]
    return [
        (name, leaf)
        for name, value in named
        for leaf in leaves(value)
        if isinstance(leaf, fx.Node) and holds_memory(leaf)
    ]


@functools.cache  # to read a schema takes longer than all else that is asked of a node
def argument_names(target: Any) -> tuple[str, ...]:
    """The names of an overload's arguments, from its schema."""
    return tuple(described.name for described in target._schema.arguments)


def argument(node: fx.Node, name: str) -> Any:
    """The value of one argument of the call, else its default; None if the op has no such argument."""
    names = argument_names(node.target)
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    if name in given or name not in names:
        return given.get(name)
    return node.target._schema.arguments[names.index(name)].default_value


@functools.cache
def written_arguments(target: Any) -> tuple[str, ...]:
    """The names of the arguments that the operator writes over, from its schema."""
    described = target._schema.arguments if isinstance(target, torch._ops.OpOverload) else ()
    return tuple(a.name for a in described if a.alias_info is not None and a.alias_info.is_write)


@functools.cache
def viewed_argument(target: Any, output: int, written: bool = False) -> str | None:
    """The name of the argument on whose storage the output lies, from the op's schema. `written`: also of one that the
    operator writes over.
    """
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.returns:
        return None
    if target in MADE_OF:
        return MADE_OF[target]
    returned = schema.returns[min(output, len(schema.returns) - 1)].alias_info
    if returned is None or (returned.is_write and not written):
        return None
    for described in schema.arguments:
        if described.alias_info is None or (described.alias_info.is_write and not written):
            continue
        listed = not returned.before_set and "*" in described.alias_info.after_set
        if listed or returned.before_set & described.alias_info.before_set:
            return described.name
    return None


def _hinted(value: Any) -> Any:
    """An argument with plain numbers for its sizes: formulas must not specialise what is dynamic."""
    if isinstance(value, fx.Node):
        value = value.meta["val"]
    if isinstance(value, torch.SymInt):
        return number(value)
    if isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape):
        return torch.empty([number(n) for n in value.shape], dtype=value.dtype, device="meta")
    return value


def count_flops(node: fx.Node) -> int:
    formula = FLOP_FORMULAS.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    args, kwargs, out = fx.node.map_aggregate((node.args, node.kwargs, node.meta["val"]), _hinted)
    return int(formula(*args, **kwargs, out_val=out))


def is_collective(node: fx.Node) -> bool:
    return getattr(node.target, "namespace", "") == "_c10d_functional"


def gathers(node: fx.Node) -> bool:
    """Whether the node gathers a sharded tensor from all ranks, or waits for that: every rank does so at the same place
    of the same plan, and as often.
    """
    if is_collective(node) and node.target._opname == "wait_tensor":
        return gathers(node.args[0])
    return is_collective(node) and node.target._opname == "all_gather_into_tensor"


def kind_of(node: fx.Node, outputs: Iterable[Value]) -> str:
    """Heavy is what PyTorch counts FLOPs for, and any op that is not PyTorch's own."""
    if all(output.view_of is not None for output in outputs) and not written_arguments(node.target):
        return "view"
    return "heavy" if not is_own(node.target) or node.target.overloadpacket in FLOP_FORMULAS else "light"


def runs_for_effect(node: fx.Node) -> bool:
    """Whether it makes no tensor, as an assertion does, or a token alone."""
    made = leaves(node.meta.get("val"))
    return "assert" in node.name or not any(isinstance(v, torch.Tensor) for v in made)


def rerun_of(node: fx.Node) -> str:
    """Seeded is what draws from the generator, never what writes to an argument, runs for its effect, is not PyTorch's
    own or makes other bits under a dispatch mode.
    """
    if gathers(node):
        return "pure"
    if not is_own(node.target) or node.target._schema.is_mutable or runs_for_effect(node):
        return "never"
    if node.target in OTHER_BITS:
        return "never"
    draws = torch.Tag.nondeterministic_seeded in node.target.tags
    return "seeded" if draws and argument(node, "dropout_p") != 0.0 else "pure"


def one_bit_inputs(node: fx.Node, arguments: Sequence[tuple[str, fx.Node]]) -> list[int]:
    """The inputs that an elementwise gradient reads as a mask: booleans, and ReLU's output by its sign."""
    if node.target.overloadpacket is aten.threshold_backward and argument(node, "threshold") == 0:
        return [position for position, (name, _) in enumerate(arguments) if name == "self"]
    if torch.Tag.pointwise not in node.target.tags:
        return []
    dtypes = [value.meta["val"].dtype for _, value in arguments]
    return [position for position, dtype in enumerate(dtypes) if dtype == torch.bool]


def _written(node: fx.Node, names: Sequence[str]) -> list[int]:
    """The inputs that the node writes over. What has no schema and makes nothing, such as a kernel of the user's, may
    write over any.
    """
    if not isinstance(node.target, torch._ops.OpOverload) and runs_for_effect(node):
        return list(range(len(names)))
    return [k for k, name in enumerate(names) if name in written_arguments(node.target)]


def describe(value: Any, view_of: int | None = None, node: fx.Node | None = None) -> Value:
    """One output, of `node`. A view adds no storage: its size is that of its elements, whatever it is a view of."""
    if not isinstance(value, torch.Tensor):
        return Value(None, None, 0, exact=False)
    if value.layout != torch.strided:
        if view_of is None:
            raise Unknown(
                f"{'an input' if node is None else named(node)} is a tensor of layout {value.layout}, whose bytes are "
                "not known ahead: use a dense one there"
            )
        return describe(value._values(), view_of)
    shape = [number(extent) for extent in value.shape]
    of_elements = math.prod(shape) * value.element_size()
    size = of_elements if view_of is not None else number(value.untyped_storage().nbytes())
    dtype = DTYPES.get(value.dtype)
    return Value(shape, dtype, size, exact=dtype is not None and size == of_elements, view_of=view_of)


def _kept_storage(target: Any, read: list[fx.Node]) -> int:
    """The bytes that the first result's storage has at least, beyond what tracing knows."""
    if target in SHRUNK:
        return max(describe(value.meta["val"], view_of=0).bytes for value in read)
    return describe(read[0].meta["val"]).bytes if target in WHOLE else 0


def read_call(node: fx.Node, phase: str, place_of: Any, writes: bool = False) -> Call:
    """The call as the planner's graph has it; `place_of` gives the place of a node of PyTorch's. `writes`: what is
    written in place lies where it lay.
    """
    arguments = tensor_arguments(node)
    names, reads = [name for name, _ in arguments], [read for _, read in arguments]
    made = node.meta.get("val")
    outputs = []
    for index, value in enumerate(made if isinstance(made, tuple | list) else (made,)):
        viewed = viewed_argument(node.target, index, writes)
        # A number in place of a tensor is made one: a view of it is new.
        outputs.append(describe(value, names.index(viewed) if viewed in names else None, node))
    kept = _kept_storage(node.target, reads)
    if outputs and kept > outputs[0].bytes:
        outputs[0].bytes, outputs[0].exact = kept, False
    inputs = [place_of(read) for read in reads]
    call = Call(node, phase, inputs, outputs, kind_of(node, outputs), rerun_of(node), reads=reads)
    call.flops = count_flops(node)
    call.writes = _written(node, names) if writes else []
    return call


def is_hidden_view(node: fx.Node) -> bool:
    """Whether the results lie on the argument's storage although the schema calls it a copy."""
    waits = is_collective(node) and node.target._opname == "wait_tensor"
    return waits or node.target in HIDDEN_VIEWS


def is_random(node: fx.Node) -> bool:
    """Whether the operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
