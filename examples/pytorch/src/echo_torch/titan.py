"""A memory policy for torchtitan's graph trainer: `--compile.memory_policy echo`.

    import echo_torch.titan
    echo_torch.titan.register()                    # or register(budget="20GiB")

The trainer traces one graph with forward pass, loss and gradients, lets a memory policy tag the
forward nodes, and runs again those that are tagged so, each once, before its first reader of the
backward pass. So of a plan only the choice is taken, not its order, and peaks are not what the plan
predicts. Costs are modelled, not measured: all ranks choose alike.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from echo_torch.graph import Unknown, gathers, is_getitem
from echo_torch.host import Host
from echo_torch.partition import Options, warn_once


class OneGraph(Host):
    """A whole step in one graph, whose backward nodes are marked."""

    def __init__(self, graph: fx.GraphModule, keep: Any = ()) -> None:
        for node in graph.graph.nodes:
            if node.meta.get("autograd_backward"):
                node.meta["partitioner_tag"] = "must_be_in_backward"
        super().__init__(graph, 0, traced=True, keep=keep)

    def _may_split(self, node: fx.Node) -> bool:
        return False  # a tag is that of a whole operator


def tag(graph: fx.GraphModule, *, config: Any = None, **options: Any) -> fx.GraphModule:
    """Tags every forward node of the graph: kept, or made again. Where Echo does not know enough,
    all are kept, with a warning. ValueError: an option makes no sense.
    """
    settings = Options(**options)
    again: set[fx.Node] = set()
    try:
        again = _made_again(OneGraph(graph, settings.keep), settings)
    except (Unknown, RuntimeError) as why:
        warn_once(f"Echo keeps all that the forward pass makes: {why}")
    save, recompute = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE
    for node in graph.graph.nodes:
        if node.op == "call_function" and not node.meta.get("autograd_backward"):
            maker = node.args[0] if is_getitem(node) else node
            node.meta["recompute"] = recompute if maker in again else save
    return graph


def _made_again(host: OneGraph, settings: Options) -> set[fx.Node]:
    core = host.core()
    peak = core.replay(list(range(len(host.calls))), writes_over=False)[0]
    budget = settings.bytes_of(peak)
    if budget is not None and peak <= budget:
        return set()
    plan = core.plan(settings.strategy, budget, settings.max_overhead, settings.seconds)
    made = {host.calls[index].node for index, is_again, *_ in plan.steps if is_again}
    # What is gathered from all ranks and the wait for it are one.
    return made - {node for node in made if gathers(node) and not _whole(node, made)}


def _whole(node: fx.Node, made: set[fx.Node]) -> bool:
    if node.target._opname == "wait_tensor":
        return node.args[0] in made
    return all(user in made for user in node.users)


def register(**options: Any) -> None:
    """Makes the policy known as "echo". ImportError: there is no torchtitan."""
    from torchtitan.experiments.graph_trainer.registry import register_memory_policy

    Options(**options)

    def policy(graph: fx.GraphModule, *, config: Any) -> fx.GraphModule:
        return tag(graph, config=config, **options)

    register_memory_policy("echo")(policy)
