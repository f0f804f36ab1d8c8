"""Where a node of a traced graph stands in the user's model: words for messages."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

TORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)


def layer_of(node: fx.Node) -> str:
    """The path of the module in whose `forward` the node was traced."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if stack:
        return _within_model(next(reversed(stack.values()))[0])
    told = node.meta.get("custom", {})  # by `export.py`, and by torchtitan's tracer
    return _within_model(told.get("layer") or told.get("module_fqn", ""))


@functools.cache
def _within_model(path: str) -> str:
    return re.sub(r"^L\[[^]]*\]\.?", "", path)


def operator_of(node: fx.Node) -> str:
    """The operator's name as a user knows it: `addmm`, or `mine::attention` of a library of the user's."""
    packet, library = getattr(node.target, "overloadpacket", None), getattr(node.target, "namespace", "")
    name = str(getattr(packet or node.target, "__name__", node.target))
    return name if library in ("", "aten", "prims") else f"{library}::{name}"


def place_of(node: fx.Node) -> str:
    """The module and the line of the user's code, as in " in 'encoder.0' (model.py:12)"; empty if neither is known."""
    layer, frames = layer_of(node), _frames(node)
    parts = [f" in '{layer}'"] if layer else []
    if frames:
        file, line, _ = frames[-1]
        parts.append(f" ({os.path.basename(file)}:{line})")
    return "".join(parts)


def named(node: fx.Node, names: Sequence[str] = ()) -> str:
    """What a message calls a node: an operator with its place, or an input of the graph by its name in the model."""
    if node.op != "placeholder":
        return f"'{operator_of(node)}'{place_of(node)}"
    placeholders = node.graph.find_nodes(op="placeholder")
    at = placeholders.index(node)
    if at < len(names) and names[at]:
        return f"'{names[at]}'"
    value = node.meta.get("val")
    kind = f" of shape {[str(n) for n in value.shape]}" if isinstance(value, torch.Tensor) else ""
    return f"an input{kind}".replace("'", "")


def source_name(node: fx.Node) -> str:
    """How the user's code calls an input of a graph of TorchDynamo's: "x" or "model.encoder.weight"; "" if unknown."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    name = name() if callable(name) else name
    name = re.sub(r"\[['\"](\w+)['\"]\]", r".\1", str(name))
    name = re.sub(r"\._(modules|parameters|buffers)\b", "", name)
    return re.sub(r"^[LG]\.", "", name)


def names_of(graph: fx.GraphModule) -> tuple[str, ...]:
    """How the user's code calls the inputs of a graph of TorchDynamo's."""
    return tuple(source_name(node) for node in graph.graph.find_nodes(op="placeholder"))


def function_of(nodes: Iterable[fx.Node]) -> str:
    """The user's function that was compiled, as "forward (train.py:12)", else the module's class, else nothing."""
    nodes = list(nodes)
    for node in nodes:
        if frames := _frames(node):
            file, line, function = frames[0]
            return f"{function} ({os.path.basename(file)}:{line})"
    stacks = (node.meta.get("nn_module_stack") for node in nodes)
    return next((_class_name(next(iter(stack.values()))[1]) for stack in stacks if stack), "")


def _class_name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind)).rpartition(".")[2]


def _frames(node: fx.Node) -> list[tuple[str, str, str]]:
    """The frames of the user's code that led to the node, the outermost first."""
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in found if not frame[0].startswith(TORCH)]
    return own or found
