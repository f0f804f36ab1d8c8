"""What PyTorch's default partition does with a joint graph, as far as plans depend on it: which inputs it saves, and
what runs again in the checkpoints that it heeds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from torch import fx

from echo_torch import moves, reuse
from echo_torch.graph import (
    HIDDEN_VIEWS,
    MADE_OF,
    Unknown,
    argument,
    holds_memory,
    is_getitem,
    is_hidden_view,
    is_random,
    viewed_argument,
)
from echo_torch.where import named


def replayed_by(joint: fx.GraphModule, halves: Sequence[fx.GraphModule]) -> dict[fx.Node, fx.Node]:
    """For each operator of a checkpoint that PyTorch's halves run with the state of the generator: the joint graph's.

    PyTorch wraps each in a call that takes the operator as an argument, in the order of the joint graph; the number
    behind the state's name says in the backward half which one it is.
    """
    forward, backward = ([n for n in half.graph.nodes if _wraps_random(n)] for half in halves)
    plain = {node.name for node in halves[0].graph.nodes}
    free = [n for n in joint.graph.nodes if is_random(n) and is_checkpointed(n) and n.name not in plain]
    found: dict[fx.Node, fx.Node] = {}
    for node in forward:
        original = next((n for n in free if n.target in node.args), None)
        if original is None:
            raise Unknown(f"PyTorch's partition runs {named(node)}, which is not in the graph it was given")
        free.remove(original)
        found[node] = original
    originals = list(found.values())
    for node in backward:
        number = next(
            (int(m[1]) for n in node.all_input_nodes if (m := re.search(r"rng_state\w*?_(\d+)$", n.name))), -1
        )
        if not 0 <= number < len(originals):
            raise Unknown("PyTorch's default draws random numbers of a checkpoint in a way that Echo does not know")
        found[node] = originals[number]
    return found


def _wraps_random(node: fx.Node) -> bool:
    """Whether the node runs a random operator, which is an argument of it, with a state of the generator."""
    return node.op == "call_function" and "rng_state" in str(node.target)


def is_checkpointed(node: fx.Node) -> bool:
    """Whether the node stands in a region that the model marks by `torch.utils.checkpoint`."""
    return "ac_graph_id" in node.meta


def checkpoints_of(joint: fx.GraphModule) -> int:
    """How many regions the model marks by `torch.utils.checkpoint`."""
    return len({node.meta["ac_graph_id"] for node in joint.graph.nodes if is_checkpointed(node)})


def lent_inputs(joint: fx.GraphModule, backward: fx.GraphModule, static: Collection[int]) -> set[fx.Node]:
    """The inputs that the user may write to between the forward and the backward pass, as PyTorch runs it: all but
    parameters and buffers, which are those in the places `static`, and what its default saves for the backward pass.
    """
    placeholders = joint.graph.find_nodes(op="placeholder")
    by_name = {node.name: node for node in joint.graph.nodes}
    saved = {storage_of(by_name[n.name]) for n in backward.graph.find_nodes(op="placeholder") if n.name in by_name}
    return {
        node
        for at, node in enumerate(placeholders)
        if at not in static and node not in saved and "tangents" not in str(node.target) and holds_memory(node)
    }


def way_to_storage(node: fx.Node) -> list[fx.Node]:
    """The nodes from a view, through those that it is a view of, to the one that made its storage; all but the last can
    be made again at no cost.
    """
    way = [node]
    while way[-1].op == "call_function":
        source = way[-1].args[0] if is_getitem(way[-1]) else way[-1]
        viewed = viewed_argument(source.target, 0) if source.op == "call_function" else None
        if source.target in MADE_OF or (viewed is None and source.target not in HIDDEN_VIEWS):
            break
        way += [source] if source is not way[-1] else []
        way.append(argument(source, viewed) if viewed else source.args[0])
    return way


def storage_of(node: fx.Node) -> fx.Node:
    """The node that made the storage on which a value lies, as far as schemas tell."""
    while node.op == "call_function":
        if node.target is reuse.run_over or node.target in moves.CALLS or is_getitem(node):
            node = node.args[0]
            continue
        viewed = viewed_argument(node.target, 0)
        if viewed is None and not is_hidden_view(node):
            break
        node = argument(node, viewed) if viewed else node.args[0]
    return node
