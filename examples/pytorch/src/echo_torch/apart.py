"""Keeps a matrix product apart from a sum that comes much later.

Inductor makes one operator of a product and the sum that adds to it, and runs it where the sum stands. The product's
operands then live until there. With tied embeddings these are the logits' gradient and the last hidden states: the sum
is the last operator of the backward pass, since the embedding's gradient is added.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx

from echo_torch.defaults import storage_of
from echo_torch.graph import aten, number

PRODUCTS = (aten.mm.default,)
SUM = aten.add.Tensor


def keep_apart(half: fx.GraphModule) -> None:
    """Rewrites the sums of a half that would hold back a product whose operands take more than its result. What they
    add, and the bits of it, stay the same: `prims.add` is the sum that Inductor makes no product of.
    """
    order = {node: at for at, node in enumerate(half.graph.nodes)}
    last = _last_readers(half.graph, order)
    changed = False
    for total in half.graph.find_nodes(op="call_function", target=SUM):
        if any(_is_held_back(product, other, order, last) for product, other in _sides(total)):
            total.target, total.kwargs, changed = torch.ops.prims.add.default, {}, True
    if changed:
        half.recompile()


def _sides(total: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """The product and the other side of a sum, where one side is a product that nothing else reads."""
    one, other = total.args[:2]
    if not isinstance(one, fx.Node) or not isinstance(other, fx.Node) or total.kwargs.get("alpha", 1) != 1:
        return
    for product, rest in ((one, other), (other, one)):
        if _kind(one) == _kind(other) and product.target in PRODUCTS and len(product.users) == 1:
            yield product, rest


def _kind(node: fx.Node) -> tuple[str, ...]:
    """What two sides of a sum have in common that neither broadcasts nor converts; sizes may be symbols."""
    value = node.meta.get("val")
    is_tensor = isinstance(value, torch.Tensor)
    return (*map(str, value.shape), str(value.dtype), str(value.device)) if is_tensor else (node.name,)


def _is_held_back(product: fx.Node, other: fx.Node, order: dict[fx.Node, int], last: dict[fx.Node, int]) -> bool:
    """Whether the product would wait for the other side, and its operands, which nothing else needs, with it."""
    if order[other] < order[product]:
        return False
    waiting = {
        storage_of(node): _bytes(node) for node in product.all_input_nodes if last[storage_of(node)] < order[other]
    }
    return sum(waiting.values()) > _bytes(product)


def _last_readers(graph: fx.Graph, order: dict[fx.Node, int]) -> dict[fx.Node, int]:
    """By storage, the place of the last operator that reads it, itself or as a view."""
    return {storage_of(read): order[node] for node in graph.nodes for read in node.all_input_nodes}


def _bytes(node: fx.Node) -> int:
    return number(node.meta["val"].untyped_storage().nbytes())
