"""A memory policy for torchtitan's graph trainer, which a configuration asks for by its name:

    import echo_torch.titan
    echo_torch.titan.register()                    # or register(budget="20GiB")

    def my_config():
        config = graph_trainer_llama3_8b()
        config.compile.memory_policy = "echo"      # the command line knows the trainer's own alone
        return config

The trainer traces one graph with forward pass, loss and gradients, lets a memory policy tag the forward nodes, and runs
again those that are tagged so, each once, before its first reader of the backward pass. With `offload="25GB/s"`, nodes
are tagged as well whose values its own pass moves to the host's memory and back, by its own rules of when. So of a plan
only the choice is taken, and its peak is that of the trainer's order before later passes change it, which is replayed
here. Costs are modelled, not measured.

The first rank chooses for all. Where ranks trace different graphs, as those of a pipeline do, all of them keep what
they make: else some would wait for weights that the others do not gather again.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy
from typing_extensions import Unpack

from echo_torch import costs, moves
from echo_torch.agree import Agreement
from echo_torch.graph import Call, Place, Unknown, device_of, gathers, is_getitem, is_random
from echo_torch.host import Host, base_of
from echo_torch.link import Link
from echo_torch.options import Asked, BudgetError, Options, options_of, rate_of
from echo_torch.partition import agreed, check_budget, reports, said
from echo_torch.report import Report
from echo_torch.say import size, warn_once

LOSS = ("loss", "lm_head")  # modules whose gradients do not have anything made again for them
TRIES = 5  # plans for one budget


class OneGraph(Host):
    """A whole step in one graph, whose backward nodes are marked. `gathers_again`: weights that were gathered from all
    ranks may be gathered once more.
    """

    writes_anywhere = True  # what follows from that the planner knows

    def __init__(self, graph: fx.GraphModule, keep: Any = (), gathers_again: bool = True) -> None:
        self.gathers_again = gathers_again
        super().__init__(graph, 0, traced=True, keep=keep)

    def _is_backward(self, node: fx.Node) -> bool:
        return bool(node.meta.get("autograd_backward"))

    def _may_split(self, node: fx.Node) -> bool:
        return False  # a tag is that of a whole operator

    def _is_kept(self, node: fx.Node, layer: str) -> bool:
        by_sharding = not self.gathers_again and gathers(node)
        return super()._is_kept(node, layer) or by_sharding

    def _append(self, call: Call) -> None:
        if str(call.node.target).startswith("ao.offload"):
            call.outputs[0].bytes = 0  # it lies in the host's memory
        # The passes that read the tags refuse a graph in which an operator that is marked as random is to run again,
        # also where it draws nothing, as attention without dropout.
        if is_random(call.node):
            call.rerun = "never"
        super()._append(call)


def tag(graph: fx.GraphModule, *, config: Any = None, **asked: Unpack[Asked]) -> fx.GraphModule:
    """Tags every forward node of the graph: kept, made again, or moved to the host's memory. Where Echo does not know
    enough, or ranks do not agree, all are kept that nobody has tagged, with a warning.

    `config` is the trainer's; the options are those of `echo_torch.options.Options` but `measure`. ValueError: an
    option makes no sense. BudgetError: with `strict`, the budget is not met.
    """
    settings = _settings(asked)
    ranks = digest = why = None
    again: set[fx.Node] = set()
    away: set[fx.Node] = set()
    report = Report()
    reports.add(report)
    try:
        ranks = Agreement()
        read = functools.cache(lambda: OneGraph(graph, settings.keep, _gathers_again(config)))
        chosen = ranks.share(lambda: _chosen(read, settings, config))
        if chosen["fault"] is not None:
            raise Unknown(chosen["fault"])
        again = {read().calls[index].node for index in chosen["again"]}
        away = _nodes_of(read(), map(tuple, chosen["away"]))
        piece = sorted(_calls_of(read(), _gradients(read(), set(chosen["again"]))))
        digest = read().digest(read().facts(), chosen, piece)
    except Exception as fault:  # a fault of ours never stops training
        why = said(fault)
    if not agreed(ranks, digest) and why is None:
        why = "the ranks trace different graphs, or not all of them answer in time"
    report.reason = why
    if why is None:
        report.default_peak, report.peak, report.bound = chosen["peaks"]
        report.nodes, report.recomputed = len(read().calls), len(chosen["again"])
        report.offloaded = len(away)
        report.offloaded_bytes = sum(node.meta["val"].nbytes for node in away)
        check_budget(settings, *chosen["peaks"])
    elif settings.strict and settings.budget is not None:
        raise BudgetError(f"the budget is not met where all is kept: {why}")
    else:
        warn_once(f"Echo keeps all that the forward pass makes: {why}")
    _write(graph, again if why is None else None, away)
    return graph


def _settings(asked: Asked) -> Options:
    if asked.get("measure"):
        raise ValueError("measure=True: this policy counts with modelled costs; leave it out")
    settings = options_of({**asked, "measure": False})
    if settings.offload is True:
        raise ValueError("offload=True measures the link, and this policy measures nothing: give a rate, as '25GB/s'")
    if settings.offload:
        _passes()
    return settings


def _passes() -> tuple[Any, Any]:
    """The trainer's modules that carry the tags out. ImportError: there is no torchtitan."""
    trainer = "torchtitan.experiments.graph_trainer."
    mover: Any = importlib.import_module(trainer + "cpu_offload")
    runner: Any = importlib.import_module(trainer + "selective_activation_remat")
    return mover, runner


def _gathers_again(config: Any) -> bool:
    """Whether the trainer's configuration lets go of gathered weights after the forward pass."""
    if config is None:
        return True
    from torchtitan.distributed.fsdp import get_fsdp_reshard_after_forward_policy

    parallelism = config.parallelism
    return get_fsdp_reshard_after_forward_policy(
        parallelism.fsdp_reshard_after_forward, pp_enabled=parallelism.pipeline_parallel_degree > 1
    )


def _write(graph: fx.GraphModule, again: set[fx.Node] | None, away: set[fx.Node]) -> None:
    """The tags of all forward nodes. None: there is no plan, and tags that are there already stay."""
    save, recompute, move = (
        CheckpointPolicy.MUST_SAVE,
        CheckpointPolicy.MUST_RECOMPUTE,
        CheckpointPolicy.MUST_CPU_OFFLOAD,
    )
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.meta.get("autograd_backward"):
            continue
        if again is None:
            node.meta.setdefault("recompute", save)
        else:
            node.meta["recompute"] = move if node in away else recompute if base_of(node) in again else save


def _chosen(read: Callable[[], OneGraph], settings: Options, config: Any) -> dict[str, Any]:
    """What one rank tells all: the calls to make again, the values to move, the peaks where all is kept and with these,
    and the certified bound; or why there is no plan, so that nobody waits for one.
    """
    try:
        host = read()
        core = host.core(host.facts(costs.alignment_of(host)))
        kept = core.replay(list(range(len(host.calls))), writes_over=False)[0]
        budget = settings.bytes_of(kept)
        if budget is not None and kept <= budget:
            return {"fault": None, "again": [], "away": [], "peaks": [kept, kept, kept]}
        found = [_planned(host, core, settings, budget, None, config)]
        if link := _link(host, settings):
            found.append(_planned(host, core, settings, budget, link, config))
        peak, again, away, bound = min(found, key=lambda each: each[0])
        if peak >= kept:
            raise Unknown(f"it needs {size(kept)} so, and nothing less was found")
        values = [list(place) for place in away]  # as the other ranks read them
        return {"fault": None, "again": again, "away": values, "peaks": [kept, peak, found[-1][3]]}
    except Exception as fault:
        return {"fault": said(fault), "again": [], "away": [], "peaks": []}


def _link(host: OneGraph, settings: Options) -> Link | None:
    """On which values move; None: the trainer's pass cannot, or nobody has asked for it."""
    if not settings.offload:
        return None
    device = next((device_of(call.node) for call in host.calls if call.phase != "input"), torch.device("cpu"))
    if moves.ways_of(device) is None:
        warn_once(f"Echo moves nothing to the host's memory: the step runs on the device {device}")
        return None
    rate = rate_of("offload", settings.offload)
    return rate, rate, settings.most_on_host


def _planned(
    host: OneGraph, core: Any, settings: Options, budget: int | None, link: Link | None, config: Any
) -> tuple[int, list[int], list[Place], int]:
    """The least peak that was found by the trainer's order, the calls that are made again and the values that move for
    it, and the certified bound. For a budget that is missed by that order, plans of less are tried.
    """
    end = time.monotonic() + settings.seconds
    found: list[tuple[int, list[int], list[Place], int]] = []
    limit = budget
    while len(found) < TRIES:
        left = end - time.monotonic()
        try:
            plan = core.plan(settings.strategy, limit, settings.most_overhead, left, link=link)
            again = _for_one_piece(host, _made_again(host, plan))
            away = _moved(host, plan, again) if link else []
            peak = _peak_of_passes(host, again, away, config) if away else _peak_of_order(host, core, again)
        except RuntimeError:  # such as that the time is over
            if not found:
                raise
            break
        found.append((peak, sorted(again), away, plan.lower_bound_bytes))
        if budget is None or limit is None or peak <= budget or plan.peak_bytes > limit:
            break
        limit = max(1, limit * budget // peak)
    return min(found, key=lambda each: each[0])


def _peak_of_order(host: OneGraph, core: Any, again: set[int]) -> int:
    return int(core.replay(_order(host, again), writes_over=False)[0])


def _peak_of_passes(host: OneGraph, again: set[int], away: list[Place], config: Any) -> int:
    """That of what the trainer's own passes make of a copy of the graph."""
    copy = fx.Graph()
    nodes: dict[fx.Node, fx.Node] = {}
    copy.output(copy.graph_copy(host.joint.graph, nodes))
    made = fx.GraphModule(host.joint, copy)
    remade = {nodes[host.calls[index].node] for index in again}
    _write(made, remade, {nodes[node] for node in _nodes_of(host, away)})
    mover, runner = _passes()
    options = {
        "prefetch_lookahead": "cpu_offload_prefetch_n_layers",
        "defer_n_layers": "cpu_offload_defer_n_layers",
    }
    compile_of = getattr(config, "compile", None)
    given = {name: getattr(compile_of, key) for name, key in options.items() if hasattr(compile_of, key)}
    made = runner.selective_activation_remat_pass(mover.apply_cpu_offload_pass(made, **given))
    for node in made.graph.nodes:
        node.meta.pop("recompute", None)
    trained = OneGraph(made, host.keep, host.gathers_again)
    core = trained.core(trained.facts(costs.alignment_of(trained)))
    return int(core.replay(list(range(len(trained.calls))), writes_over=False)[0])


def _nodes_of(host: OneGraph, places: Iterable[Any]) -> set[fx.Node]:
    """The nodes that stand for these values themselves."""
    wanted = set(places)
    return {
        node
        for node, place in host.place.items()
        if place in wanted and isinstance(node.meta.get("val"), torch.Tensor) and base_of(node) in host.parts
    }


def _moved(host: OneGraph, plan: Any, again: set[int]) -> list[Place]:
    """What waits in the host's memory from the forward pass on for gradients, as far as the trainer's pass can move it.
    That pass frees a storage behind the last reader that it knows of.
    """
    mover, _ = _passes()
    found = set()
    for _, kind, places, _ in plan.steps:
        if kind != "offload":
            continue
        step, output = places[0]
        index, how, *_ = plan.steps[step]
        call = host.calls[index]
        if how == "run" and call.phase == "forward" and index not in again and call.kind != "view":
            found.add((index, output))
    results = {host.calls[index].node for index, _ in host.results()}

    def is_known(node: fx.Node) -> bool:
        """Whether it, and all that look at it, are what the pass takes for such, and nobody writes there."""
        for user in node.users:
            if user in results or user.op != "call_function":
                return False
            calls = [host.calls[i] for i in host.parts.get(user, ())]
            if any(call.writes for call in calls) or is_getitem(user):
                return False
            looks_at_it = any(value.view_of is not None for call in calls for value in call.outputs)
            if looks_at_it and not (mover._is_view(user) and is_known(user)):
                return False
        return True

    able = {
        host.place[node]
        for node in _nodes_of(host, found)
        if mover._can_offload_node(node) and base_of(node) not in results and is_known(node)
    }
    return sorted(able)


def _gradients(host: OneGraph, again: set[int]) -> set[fx.Node]:
    """Those for which the trainer's pass has something made again. They stand in one piece behind those of the loss: of
    several pieces, the one that reads most of what is to be made again.
    """
    pieces: list[list[fx.Node]] = [[]]
    for node in host.joint.graph.nodes:
        if node.meta.get("custom", {}).get("module_fqn") in LOSS:
            pieces = [[]]
        elif host._is_backward(node):
            pieces[-1].append(node)
        elif pieces[-1]:
            pieces.append([])
    remade = {host.calls[index].node for index in again}

    def count(piece: Iterable[fx.Node]) -> int:
        return sum(base_of(read) in remade for node in piece for read in node.all_input_nodes)

    return set(max(pieces, key=count))


def _calls_of(host: OneGraph, nodes: set[fx.Node]) -> set[int]:
    return {index for node in nodes for index in host.parts.get(node, ())}


def _for_one_piece(host: OneGraph, again: set[int]) -> set[int]:
    """Without what gradients outside that piece read: the pass would hand them what is made later, and stops where
    several pieces have something made again.
    """
    piece = _gradients(host, again)
    outside = {
        base_of(read)
        for node in host.joint.graph.nodes
        if host._is_backward(node) and node not in piece
        for read in node.all_input_nodes
    }
    return {index for index in again if host.calls[index].node not in outside}


def _order(host: OneGraph, again: set[int]) -> list[int]:
    """The calls as the trainer runs them: what is made again just before its first reader among the gradients of the
    layers, and not at all before that where nobody else reads it.
    """
    calls, layers = host.calls, _calls_of(host, _gradients(host, again))
    before: dict[int, list[int]] = {}
    made: set[int] = set()
    for i in sorted(layers):
        wanted = [maker for maker, _ in calls[i].inputs]
        before[i] = []
        while wanted:
            maker = wanted.pop()
            if maker in again and maker not in made:
                made.add(maker)
                before[i].append(maker)
                wanted += [place for place, _ in calls[maker].inputs]
    read = {index for index, _ in host.results()}
    for i in reversed(range(len(calls))):
        if i not in made or i in read:
            read.update(maker for maker, _ in calls[i].inputs if i not in layers or maker not in made)
    order = []
    for i in range(len(calls)):
        order += sorted(before.get(i, ()))
        if i not in made or i in read:
            order.append(i)
    return order


def _made_again(host: OneGraph, plan: Any) -> set[int]:
    """What runs again, and the views that only gradients have made: they would hold what they show."""
    steps = [(index, kind == "recompute", host.calls[index]) for index, kind, *_ in plan.steps]
    first = next((t for t, (*_, call) in enumerate(steps) if call.phase == "backward"), len(steps))
    calls = {
        index
        for t, (index, is_again, call) in enumerate(steps)
        if is_again or (t > first and call.phase == "forward" and call.kind == "view")
    }
    made = {host.calls[index].node for index in calls}
    # What is gathered from all ranks and the wait for it are one.
    made -= {node for node in made if gathers(node) and not _whole(node, made)}
    return {index for index in calls if host.calls[index].node in made}


def _whole(node: fx.Node, made: set[fx.Node]) -> bool:
    if node.target._opname == "wait_tensor":
        return node.args[0] in made
    return all(user in made for user in node.users)


def register(**asked: Unpack[Asked]) -> None:
    """Makes the policy known as "echo". ImportError: there is no torchtitan."""
    from torchtitan.experiments.graph_trainer.registry import register_memory_policy

    _settings(asked)

    @register_memory_policy("echo")
    def policy(graph: fx.GraphModule, *, config: Any) -> fx.GraphModule:
        return tag(graph, config=config, **asked)
