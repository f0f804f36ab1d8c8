"""Trains a small transformer on all ranks of a job, by PyTorch's default partition and by Echo's:

    torchrun --nproc-per-node 2 train.py --wrap fsdp
    torchrun --nproc-per-node 8 train.py --wrap fsdp --device cuda      (by nccl)

Rank 0 prints the peak of the last step on every rank, and whether losses and parameters are the
same bits. On a CPU the peak is what the allocator handed out, on CUDA `max_memory_allocated`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import allocator_peak  # noqa: E402
from run import pytorchs  # noqa: E402

import echo_torch  # noqa: E402


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 8, dropout=0.1, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.layers = nn.Sequential(wide, nn.GELU(), narrow, nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.layers(self.second(x))


def wrapped(wrap: str, backend: Any, device: str, width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(width) for _ in range(layers))).to(device)
    if wrap == "fsdp":
        for block in model:
            block.compile(backend=backend)
            fully_shard(block)
        return fully_shard(model)
    return torch.compile(DistributedDataParallel(model), backend=backend)


def train(model: nn.Module, options: argparse.Namespace) -> tuple[list[torch.Tensor], int]:
    """Losses of some steps and this rank's parameters after them, and the last step's peak."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(10 + dist.get_rank())
    losses, peak = [], 0
    for step in range(options.steps):
        x = torch.randn(options.batch, options.length, options.width, device=options.device)

        def run(x: torch.Tensor = x) -> torch.Tensor:
            loss = model(x).square().mean()
            loss.backward()
            return loss.detach()

        if step + 1 < options.steps:
            loss = run()
        elif options.device == "cpu":
            loss, peak = allocator_peak(run)
        else:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            loss, peak = run(), torch.cuda.max_memory_allocated() - before
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    parameters = [getattr(p, "_local_tensor", p.detach()).clone() for p in model.parameters()]
    return [*losses, *parameters], peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wrap", choices=("ddp", "fsdp"), default="fsdp")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--budget", type=float, help="part of the default partition's peak")
    for name, value in (("width", 256), ("layers", 4), ("batch", 8), ("length", 64), ("steps", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    found = []
    for backend in (pytorchs(1.0), echo_torch.eager_backend(budget=options.budget)):
        torch._dynamo.reset()
        sizes = options.width, options.layers
        found.append(train(wrapped(options.wrap, backend, options.device, *sizes), options))
    (expected, before), (values, after) = found
    same = all(torch.equal(a, b) for a, b in zip(expected, values, strict=True))
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (before, after, same, [r.reason for r in echo_torch.reports()]))
    if dist.get_rank() == 0:
        for rank, (before, after, same, reasons) in enumerate(told):
            print(
                f"rank {rank}: {before / 1e6:.1f} MB by PyTorch, {after / 1e6:.1f} MB by Echo, "
                f"{'same bits' if same else 'OTHER BITS'}, {reasons.count(None)} of {len(reasons)} "
                "graphs planned"
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
