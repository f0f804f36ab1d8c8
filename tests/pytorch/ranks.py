"""Run by torchrun-like environment in each rank: trains the same model without Echo and with it,
and compares.

RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python ranks.py KIND [inductor]
KIND: ddp, whole, fsdp, gathered, disagree, late or first_late; titan compares tags alone.
inductor: beside Inductor's default, whose kernels fuse otherwise, so that values differ by rounding.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from typing import Any

import torch
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from support import default_backend
from test_safety import blocks
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import echo_torch
from echo_torch import agree

agree.SECONDS = 60.0


class Gathered(nn.Module):
    """A layer that holds one rank's rows of its weight, and gathers the others' in the graph."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width // dist.get_world_size(), width) / width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = collectives.all_gather_tensor_autograd(self.weight, 0, dist.group.WORLD)
        return torch.tanh(nn.functional.linear(x, collectives.wait_tensor(weight)))


def gathered(count: int = 4, width: int = 256) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Gathered(width) for _ in range(count)))


def wrapped(kind: str, **how: Any) -> nn.Module:
    if kind == "gathered":
        return torch.compile(gathered(6, 128), **how)
    module = blocks(4, 128)
    if kind == "fsdp":
        for block in module:
            block.compile(**how)
            fully_shard(block)
        return fully_shard(module)
    if kind == "whole":  # one graph, and not one for each bucket of gradients
        return DistributedDataParallel(torch.compile(module, **how))
    return torch.compile(DistributedDataParallel(module), **how)


def train(kind: str, rows: int, **how: Any) -> list[torch.Tensor]:
    """Losses of some steps and the parameters after them, as this rank sees them."""
    from measure import allocator_peak

    torch._dynamo.reset()
    model = wrapped(kind, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values = []
    torch.manual_seed(10 + dist.get_rank())
    for step in range(3):
        x = torch.randn(rows, 128)

        def run(x: torch.Tensor = x) -> torch.Tensor:
            loss = model(x).square().mean()
            loss.backward()
            return loss.detach()

        loss, peak = (run(), 0) if step < 2 else allocator_peak(run)
        optimizer.step()
        optimizer.zero_grad()
        values.append(loss)
    parameters = [getattr(p, "_local_tensor", p.detach()).clone() for p in model.parameters()]
    return [*values, *parameters, torch.tensor(peak)]


def tag_alike() -> None:
    """Whatever befalls one rank, both tag alike, and neither waits long for the other."""
    from test_titan import tags, traced
    from torch.utils.checkpoint import CheckpointPolicy

    from echo_torch import titan

    def said(name: str, seconds: tuple[float, float] = (120.0, 120.0), rows=(512, 512)) -> bool:
        rank = dist.get_rank()
        graph = traced(module=blocks(4, 64, dropout=0.0), shape=(rows[rank], 64))[0]
        begin = time.monotonic()
        found = tags(titan.tag(graph, budget=0.6, seconds=seconds[rank]))
        assert time.monotonic() - begin < agree.SECONDS / 2, name  # nobody waited in vain
        both: list[Any] = [None, None]
        dist.all_gather_object(both, [str(one) for one in found])
        assert both[0] == both[1], f"{name}: the ranks tag otherwise"
        return CheckpointPolicy.MUST_RECOMPUTE in found

    assert said("the same graph")
    assert said("the second rank has no time", seconds=(120.0, 1e-9))
    assert not said("the first rank has no time", seconds=(1e-9, 120.0))
    assert not said("other graphs", rows=(512, 256))
    assert said("the same graph again")


def main(kind: str, engine: str = "") -> None:
    dist.init_process_group("gloo")
    warnings.simplefilter("ignore")
    if kind == "titan":
        tag_alike()
        dist.destroy_process_group()
        return
    rank = dist.get_rank()
    wrap = {"first_late": "fsdp", "gathered": "gathered"}.get(kind, kind)
    wrap = wrap if wrap in ("whole", "fsdp", "gathered") else "ddp"
    torch._inductor.config.force_disable_caches = bool(engine)  # what another process chose comes without a report
    default: dict[str, Any] = {"backend": engine or default_backend()}
    rows = 2048 if engine else 256  # kernels keep less than operators
    *expected, before = train(wrap, rows, **default)
    options: dict[str, Any] = {"budget": 0.6, "measure": kind != "gathered"}
    if kind == "disagree":  # as if one rank's plans were other ones
        options["max_overhead"] = 0.1 + 0.2 * rank
    if kind in ("late", "first_late"):
        agree.SECONDS = agree.SECONDS_TO_BEGIN = 2.0
    silent = {"late": 1, "first_late": 0}.get(kind)  # the rank that never asks
    planned = {"backend": echo_torch.eager_backend(**options)}
    if engine:
        planned = {"backend": engine, "options": {"custom_partitioner_fn": echo_torch.partitioner(**options)}}
    begin = time.monotonic()
    *values, after = train(wrap, rows, **(default if rank == silent else planned))
    waited = time.monotonic() - begin
    alike = functools.partial(torch.allclose, rtol=1e-5, atol=1e-7) if engine else torch.equal
    same = all(alike(a, b) for a, b in zip(expected, values, strict=True))
    reasons = [report.reason for report in echo_torch.reports()]
    print(f"rank {rank}: same {same}, peak {before} to {after}, planned {reasons.count(None)}, left {reasons}")
    planned_any = None in reasons
    assert same, "other bits"
    if kind in ("ddp", "whole", "fsdp", "gathered"):
        assert planned_any and after < before, reasons
    elif rank != silent:
        assert not planned_any and reasons, reasons
        assert kind == "first_late" or "ranks" in reasons[0], reasons
        assert waited < 60, f"waited {waited:.0f} s, once for each graph"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
