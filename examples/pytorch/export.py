"""Write the training graph of a PyTorch model as an `echo-graph/1` file.

The graph is the joint forward and backward graph that `torch.compile` partitions. It is traced with fake
tensors, so a model of any size is exported in seconds, without a GPU and without the memory to train it.

    export.py resnet50 --batch 64 -o resnet50_b64.json.gz      a model of models.py or more_models.py
    export_module(module, loss_fn, inputs, labels, "mine")     any other; `write` puts the result into a file
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._functorch.compile_utils import fx_graph_cse
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))  # Needs no installation.
from echo_torch.capture import joint_graph, layers_recorded
from echo_torch.graph import Call, Value, describe, is_getitem, one_bit_inputs, read_call, tensor_arguments

# ---- Capture


@dataclass
class Joint:
    """A joint graph in execution order; `layers` names the module that a parameter or buffer belongs to.

    Where a step asks for its gradients itself, nodes say which phase they are of.
    """

    graph: fx.Graph
    layers: dict[fx.Node, str]
    phases_told: bool = False


def capture_joint(
    module: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    inputs: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[torch.Tensor],
) -> Joint:
    """The joint graph of one training step, as in `export_module`.

    Tensors that change from step to step must be inputs or labels: what the loss captures is a constant.
    """
    captured, paths, _ = joint_graph(module, loss_fn, inputs, labels)
    # PyTorch's own partitioners do both first: the names of their halves are those of this graph.
    captured.graph.eliminate_dead_code()
    graph = fx_graph_cse(captured.graph)
    owners = [path.rpartition(".")[0] for path in paths]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return Joint(graph, dict(zip(placeholders, owners, strict=False)))


def capture_step(module: torch.nn.Module, step: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Joint:
    """The graph of `step(parameters, *inputs)`, a `WholeStep` of models.py: it asks for its gradients itself."""
    mode = FakeTensorMode()
    real = (dict(module.named_parameters()), *inputs)
    fake = pytree.tree_map_only(torch.Tensor, mode.from_tensor, real)
    with mode, layers_recorded(module):
        traced = make_fx(step)(*fake)
    traced.graph.eliminate_dead_code()
    graph = fx_graph_cse(traced.graph)
    owners = [path.rpartition(".")[0] for path in real[0]]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return Joint(graph, dict(zip(placeholders, owners, strict=False)), phases_told=True)


# ---- The whole graph


def _output(value: Value, phase: str) -> dict[str, Any]:
    """One entry of `outputs`; `bytes` only where the storage is not as large as shape and dtype say."""
    entry: dict[str, Any] = {}
    if value.shape is not None:
        entry["shape"] = value.shape
    if value.dtype is not None:
        entry["dtype"] = value.dtype
    if not value.exact:
        entry["bytes"] = value.bytes
    if value.view_of is not None:
        entry["view_of"] = value.view_of
    if phase == "update" and value.view_of is None:
        entry["inplace"] = 0  # An update writes the new value where the old one lies.
    return entry


def _entry(call: Call) -> dict[str, Any]:
    entry = {
        "name": call.node.name,
        "op": "input" if call.phase == "input" else str(call.node.target),
        "phase": call.phase,
        "inputs": call.inputs,
        "outputs": [_output(value, call.phase) for value in call.outputs],
    }
    if call.phase != "input":
        entry |= {"kind": call.kind, "rerun": call.rerun}
    if call.phase == "update" and call.kind != "view":
        entry["rerun"] = "never"
    optional = {
        "layer": call.layer,
        "flops": call.flops,
        "one_bit_inputs": call.one_bit_inputs if call.phase == "backward" else [],
    }
    return entry | {key: fact for key, fact in optional.items() if fact}


def to_echo_graph(joint: Joint, name: str) -> dict[str, Any]:
    """The `echo-graph/1` object of a captured graph."""
    nodes: list[dict[str, Any]] = []
    index: dict[fx.Node, int] = {}
    tangents = {node for node in joint.graph.nodes if node.op == "placeholder" and "tangents" in node.name}
    phase = "forward"

    def place_of(node: fx.Node) -> tuple[int, int]:
        return (index[node.args[0]], node.args[1]) if is_getitem(node) else (index[node], 0)

    for node in joint.graph.nodes:
        if node.op == "output" or is_getitem(node):
            continue
        if node.op in ("placeholder", "get_attr"):
            if not isinstance(node.meta.get("val"), torch.Tensor):
                continue  # A number among the inputs: the trace holds its value.
            call = Call(node, "input", [], [describe(node.meta["val"])], layer=joint.layers.get(node, ""))
        elif isinstance(node.target, torch._ops.OpOverload):
            # Also a `detach` of a saved value belongs to the gradients that stand around it: it reads then.
            if joint.phases_told:
                phase = node.meta.get("custom", {}).get("phase", "forward")
            elif not tangents.isdisjoint(node.all_input_nodes):
                phase = "backward"
            call = read_call(node, phase, place_of)
            call.layer = node.meta.get("custom", {}).get("layer", "")
            call.one_bit_inputs = one_bit_inputs(node, tensor_arguments(node))
        else:
            raise ValueError(f"node '{node.name}', op: {node.target} is no operator with a schema")
        nodes.append(_entry(call))
        index[node] = len(nodes) - 1

    results = pytree.tree_leaves(joint.graph.output_node().args[0])
    outputs = [place_of(result) for result in results if isinstance(result, fx.Node)]
    return {
        "format": "echo-graph/1",
        "name": name,
        "producer": f"torch {torch.__version__.partition('+')[0]}",
        "nodes": nodes,
        "outputs": [list(place) for place in dict.fromkeys(outputs)],
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


def export_model(name: str, batch: int | None, length: int | None, output: Path | None, folder: Path | None) -> Path:
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
