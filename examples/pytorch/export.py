"""Write the training graph of a PyTorch model as an `echo-graph/1` file.

The graph is the joint forward and backward graph that `torch.compile` partitions. It is traced with fake
tensors, so a model of any size is exported in seconds, without a GPU and without the memory to train it.

    export.py resnet50 --batch 64 -o resnet50_b64.json.gz      a model of models.py or more_models.py
    export_module(module, loss_fn, inputs, labels, "mine")     any other; `write` puts the result into a file
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_function
from torch._functorch.compile_utils import fx_graph_cse
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils import flop_counter

aten = torch.ops.aten
OWN_NAMESPACES = ("aten", "prims")

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
FLOP_FORMULAS = flop_counter.flop_registry | {
    aten._scaled_dot_product_flash_attention_for_cpu: flop_counter.flop_registry[
        aten._scaled_dot_product_flash_attention
    ],
    aten._scaled_dot_product_flash_attention_for_cpu_backward: flop_counter.flop_registry[
        aten._scaled_dot_product_flash_attention_backward
    ],
}

# Gradients of which an argument matters only by whether it is greater than zero, if the named scalar is zero.
SIGN_READERS = {
    aten.threshold_backward: ("self", "threshold"),
}


# ---- Capture


@dataclass
class Joint:
    """A joint graph in execution order; `layers` names the module that a parameter or buffer belongs to.

    Where a step asks for its gradients itself, nodes say which phase they are of.
    """

    graph: fx.Graph
    layers: dict[fx.Node, str]
    phases_told: bool = False


class _Captured(Exception):
    """Leaves the tracer once it has handed over the joint graph: nothing is to be compiled."""


@contextlib.contextmanager
def _layers_recorded(module: torch.nn.Module) -> Iterator[None]:
    """While this is open, every traced node carries the path of the submodule it was called in."""
    open_calls: list[contextlib.ExitStack] = []

    def enter(path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            call = contextlib.ExitStack()
            call.enter_context(traceback.annotate({"layer": path}))
            open_calls.append(call)

        return hook

    def leave(*_: Any) -> None:
        open_calls.pop().close()

    with contextlib.ExitStack() as hooks:
        for path, submodule in module.named_modules():
            hooks.callback(submodule.register_forward_pre_hook(enter(path), prepend=True).remove)
            hooks.callback(submodule.register_forward_hook(leave, always_call=True).remove)
        hooks.enter_context(traceback.preserve_node_meta())
        yield


def capture_joint(
    module: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    inputs: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[torch.Tensor],
) -> Joint:
    """The joint graph of one training step, as in `export_module`.

    Every tensor that the loss reads must be a label: one that it captures is refused by the tracer.
    """
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    captured: list[fx.GraphModule] = []

    def keep(joint: fx.GraphModule, *_: Any, **__: Any) -> None:
        captured.append(joint)
        raise _Captured

    def step(parameters: Any, buffers: Any, args: Any, kwargs: Any, labels: Any) -> torch.Tensor:
        return loss_fn(torch.func.functional_call(module, (parameters, buffers), args, kwargs), *labels)

    def compile_nothing(graph: fx.GraphModule, _: Any) -> fx.GraphModule:
        return graph

    mode = FakeTensorMode()
    real = (dict(module.named_parameters()), dict(module.named_buffers()), args, kwargs, tuple(labels))
    fake = pytree.tree_map_only(torch.Tensor, mode.from_tensor, real)
    with mode, _layers_recorded(module), contextlib.suppress(_Captured):
        aot_function(step, compile_nothing, compile_nothing, partition_fn=keep)(*fake)
    if not captured:
        raise ValueError("no gradient was asked for: no parameter requires one")

    # PyTorch's own partitioners do both first: the names of their halves are those of this graph.
    captured[0].graph.eliminate_dead_code()
    graph = fx_graph_cse(captured[0].graph)
    owners = [path.rpartition(".")[0] for path in itertools.chain(real[0], real[1])]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return Joint(graph, dict(zip(placeholders, owners, strict=False)))


def capture_step(module: torch.nn.Module, step: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Joint:
    """The graph of `step(parameters, *inputs)`, a `WholeStep` of models.py: it asks for its gradients itself."""
    mode = FakeTensorMode()
    real = (dict(module.named_parameters()), *inputs)
    fake = pytree.tree_map_only(torch.Tensor, mode.from_tensor, real)
    with mode, _layers_recorded(module):
        traced = make_fx(step)(*fake)
    traced.graph.eliminate_dead_code()
    graph = fx_graph_cse(traced.graph)
    owners = [path.rpartition(".")[0] for path in real[0]]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return Joint(graph, dict(zip(placeholders, owners, strict=False)), phases_told=True)


# ---- Facts of one node


def _is_getitem(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def _values(node: fx.Node) -> list[Any]:
    """What the node makes, one entry for each output; a tensor that the op leaves out is None."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, tuple | list) else [value]


def _tensor_arguments(node: fx.Node) -> list[tuple[str, fx.Node]]:
    """The node's inputs in order, each with the name of the schema's argument that it is (part of)."""
    named = [(argument.name, node.kwargs.get(argument.name)) for argument in node.target._schema.arguments]
    named[: len(node.args)] = [(name, value) for (name, _), value in zip(named, node.args, strict=False)]
    leaves = ((name, leaf) for name, value in named for leaf in pytree.tree_leaves(value))
    return [(name, leaf) for name, leaf in leaves if isinstance(leaf, fx.Node)]


def _argument(node: fx.Node, name: str) -> Any:
    """The value of one argument of the call, else its default; None if the op has no such argument."""
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name == name and position < len(node.args):
            return node.args[position]
        if argument.name == name:
            return node.kwargs.get(name, argument.default_value)
    return None


def _viewed_argument(node: fx.Node, output: int) -> str | None:
    """The name of the argument on whose storage the output lies, from the op's schema."""
    schema = node.target._schema
    if not schema.returns:
        return None
    returned = schema.returns[min(output, len(schema.returns) - 1)].alias_info
    if returned is None or returned.is_write:
        return None
    for argument in schema.arguments:
        if argument.alias_info is None or argument.alias_info.is_write:
            continue
        listed = not returned.before_set and "*" in argument.alias_info.after_set
        if listed or returned.before_set & argument.alias_info.before_set:
            return argument.name
    return None


def _flops(node: fx.Node) -> int:
    formula = FLOP_FORMULAS.get(node.target.overloadpacket)
    if formula is None:
        return 0
    args, kwargs, out = pytree.tree_map_only(
        fx.Node, lambda argument: argument.meta["val"], (node.args, node.kwargs, node.meta["val"])
    )
    return int(formula(*args, **kwargs, out_val=out))


def _kind(node: fx.Node, outputs: Iterable[dict[str, Any]]) -> str:
    """Heavy is what PyTorch counts FLOPs for, and any op that is not PyTorch's own."""
    if all("view_of" in output for output in outputs):
        return "view"
    heavy = node.target.overloadpacket in FLOP_FORMULAS or node.target.namespace not in OWN_NAMESPACES
    return "heavy" if heavy else "light"


def _rerun(node: fx.Node) -> str:
    """Seeded is what draws from the generator, never what writes to an argument or is not PyTorch's own."""
    if node.target._schema.is_mutable or node.target.namespace not in OWN_NAMESPACES:
        return "never"
    draws = torch.Tag.nondeterministic_seeded in node.target.tags
    return "seeded" if draws and _argument(node, "dropout_p") != 0.0 else "pure"


def _one_bit_inputs(node: fx.Node, arguments: Sequence[tuple[str, fx.Node]]) -> list[int]:
    """The inputs that an elementwise gradient reads as a mask: booleans, and ReLU's output by its sign."""
    by_sign, threshold = SIGN_READERS.get(node.target.overloadpacket, ("", ""))
    if by_sign and _argument(node, threshold) == 0:
        return [position for position, (name, _) in enumerate(arguments) if name == by_sign]
    if torch.Tag.pointwise not in node.target.tags:
        return []
    dtypes = [value.meta["val"].dtype for _, value in arguments]
    return [position for position, dtype in enumerate(dtypes) if dtype == torch.bool]


# ---- The whole graph


def _output(value: Any) -> dict[str, Any]:
    """One entry of `outputs`; `bytes` only where the storage is not as large as shape and dtype say."""
    if not isinstance(value, torch.Tensor):
        return {"bytes": 0}
    entry: dict[str, Any] = {"shape": [int(extent) for extent in value.shape]}
    if value.dtype in DTYPES:
        entry["dtype"] = DTYPES[value.dtype]
    size = value.untyped_storage().nbytes()
    if value.dtype not in DTYPES or size != value.numel() * value.element_size():
        entry["bytes"] = int(size)
    return entry


def _view_output(value: torch.Tensor, position: int) -> dict[str, Any]:
    """A view adds no storage: its size is that of its elements, whatever it is a view of."""
    entry: dict[str, Any] = {"shape": [int(extent) for extent in value.shape], "view_of": position}
    if value.dtype in DTYPES:
        entry["dtype"] = DTYPES[value.dtype]
    else:
        entry["bytes"] = value.numel() * value.element_size()
    return entry


def _in_place(entry: dict[str, Any]) -> dict[str, Any]:
    """An update writes the new value where the old one lies."""
    outputs = [output | {"inplace": 0} for output in entry["outputs"]]
    return entry | {"outputs": outputs, "rerun": "never"}


def _call(node: fx.Node, phase: str, value_of: Callable[[fx.Node], list[int]]) -> dict[str, Any]:
    arguments = _tensor_arguments(node)
    names = [name for name, _ in arguments]
    outputs = []
    for index, value in enumerate(_values(node)):
        viewed = _viewed_argument(node, index)
        outputs.append(_output(value) if viewed is None else _view_output(value, names.index(viewed)))
    entry = {
        "name": node.name,
        "op": str(node.target),
        "phase": phase,
        "inputs": [value_of(value) for _, value in arguments],
        "outputs": outputs,
        "kind": _kind(node, outputs),
        "rerun": _rerun(node),
    }
    optional = {
        "layer": node.meta.get("custom", {}).get("layer"),
        "flops": _flops(node),
        "one_bit_inputs": _one_bit_inputs(node, arguments) if phase == "backward" else [],
    }
    return entry | {key: fact for key, fact in optional.items() if fact}


def _input(node: fx.Node, layer: str) -> dict[str, Any]:
    outputs = [_output(node.meta["val"])]
    entry = {"name": node.name, "op": "input", "phase": "input", "inputs": [], "outputs": outputs}
    return entry | ({"layer": layer} if layer else {})


def to_echo_graph(joint: Joint, name: str) -> dict[str, Any]:
    """The `echo-graph/1` object of a captured graph."""
    nodes: list[dict[str, Any]] = []
    index: dict[fx.Node, int] = {}
    tangents = {node for node in joint.graph.nodes if node.op == "placeholder" and "tangents" in node.name}
    phase = "forward"

    def value_of(node: fx.Node) -> list[int]:
        return [index[node.args[0]], node.args[1]] if _is_getitem(node) else [index[node], 0]

    for node in joint.graph.nodes:
        if node.op == "output" or _is_getitem(node):
            continue
        if node.op in ("placeholder", "get_attr"):
            if not isinstance(node.meta.get("val"), torch.Tensor):
                continue  # A number among the inputs: the trace holds its value.
            nodes.append(_input(node, joint.layers.get(node, "")))
        elif isinstance(node.target, torch._ops.OpOverload):
            # Also a `detach` of a saved value belongs to the gradients that stand around it: it reads then.
            if joint.phases_told:
                phase = node.meta.get("custom", {}).get("phase", "forward")
            elif not tangents.isdisjoint(node.all_input_nodes):
                phase = "backward"
            entry = _call(node, phase, value_of)
            nodes.append(_in_place(entry) if phase == "update" and entry["kind"] != "view" else entry)
        else:
            raise ValueError(f"node '{node.name}', op: {node.target} is no operator with a schema")
        index[node] = len(nodes) - 1

    results = pytree.tree_leaves(joint.graph.output_node().args[0])
    outputs = [value_of(result) for result in results if isinstance(result, fx.Node)]
    return {
        "format": "echo-graph/1",
        "name": name,
        "producer": f"torch {torch.__version__.partition('+')[0]}",
        "nodes": nodes,
        "outputs": [list(value) for value in dict.fromkeys(map(tuple, outputs))],
    }


def export_module(
    module: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    inputs: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[torch.Tensor],
    name: str,
) -> dict[str, Any]:
    """The `echo-graph/1` object of one training step: `loss_fn(module(*inputs), *labels)` and its gradients.

    Inputs given as a mapping are keyword arguments. Call `module.train()` first if the step is to have
    dropout and batch statistics. Inputs and labels give shapes and dtypes; their data is never read.
    ValueError if no parameter requires a gradient, or if the trace holds a call that is no operator with a
    schema.
    """
    return to_echo_graph(capture_joint(module, loss_fn, inputs, labels), name)


def write(graph: Mapping[str, Any], path: Path) -> None:
    """Writes all of the graph or nothing, compressed if the path ends in `.gz`: the same bytes every time."""
    text = json.dumps(graph, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as packed:
                packed.write(text)
        else:
            raw.write(text)
    os.replace(temporary, path)


# ---- The command


def all_models() -> dict[str, Any]:
    import models
    import more_models

    return models.MODELS | more_models.MODELS


def export_model(
    name: str, batch: int | None, length: int | None, output: Path | None, folder: Path | None
) -> Path:
    """Exports a model by name to `output`, else under the name that its sizes give it: in `folder`, or here."""
    from models import WholeStep

    model = all_models()[name]
    sizes = {"batch": batch or model.batch, "length": length or model.length}
    step = model.build(sizes["batch"], sizes["length"])
    step.module.train()
    title = f"{name} b{sizes['batch']}" + (f" t{sizes['length']}" if model.length else "")
    file = model.file.format(name=name, **sizes) + ".json.gz"
    joint = capture_step(*step) if isinstance(step, WholeStep) else capture_joint(*step)
    path = output or (folder / file if folder else Path(file.rpartition("/")[2]))
    write(to_echo_graph(joint, title), path)
    return path


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no positive number")
    return int(text)


def main() -> int:
    models = all_models()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", choices=models, metavar="MODEL", help="one of --list")
    parser.add_argument("-o", "--output", type=Path, help="file to write, compressed if it ends in .gz")
    parser.add_argument("-b", "--batch", type=_size, help="samples in the batch")
    parser.add_argument("-t", "--length", type=_size, help="tokens in a sequence")
    parser.add_argument("--list", action="store_true", help="name the models and their default sizes")
    parser.add_argument("--all", action="store_true", help="write every graph of examples/graphs anew")
    options = parser.parse_args()
    if options.list:
        for name, model in models.items():
            print(f"{name:20} batch {model.batch}" + (f", length {model.length}" if model.length else ""))
        return 0
    chosen = any((options.model, options.output, options.batch, options.length))
    if chosen if options.all else not options.model:
        parser.error("give one MODEL, or --all alone")
    if options.length and not models[options.model].length:
        parser.error(f"{options.model} takes no sequence: --length does not apply")
    folder = Path(__file__).resolve().parent.parent / "graphs" if options.all else None
    for name in models if options.all else [options.model]:
        print(export_model(name, options.batch, options.length, options.output, folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
