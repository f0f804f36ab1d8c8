"""Two processes by gloo: the same losses and parameters as without Echo, less memory, and never a
hang.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

import torch
import torch.distributed as dist
from support import Case  # noqa: F401  makes the modules beside the package importable
from torch.testing._internal.distributed.fake_pg import FakeStore

import echo_torch


def run_ranks(*arguments: str, program: str = "ranks.py", count: int = 2) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = os.environ | {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    ranks = [
        subprocess.Popen(
            command,
            env=base | {"RANK": str(rank)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(count)
    ]
    try:
        texts = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, text in zip(ranks, texts, strict=True):
        if rank.returncode:
            raise AssertionError(f"rank returned {rank.returncode}:\n{text[-3000:]}")
    return texts


class Ranks(unittest.TestCase):
    def test_data_parallel(self):
        run_ranks("ddp")

    def test_fully_sharded(self):
        run_ranks("fsdp")

    def test_weights_that_are_gathered_again(self):
        run_ranks("gathered")

    def test_tags_for_the_graph_trainer(self):
        run_ranks("titan")

    def test_ranks_that_plan_otherwise_all_use_pytorchs_partition(self):
        run_ranks("disagree")

    def test_a_rank_that_does_not_ask_lets_the_others_time_out(self):
        run_ranks("late")

    def test_a_first_rank_that_does_not_ask_is_waited_for_once(self):
        run_ranks("first_late")


class AtScale(unittest.TestCase):
    """Planned for 64 ranks in one process: no other rank, no memory."""

    def setUp(self):
        dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)

    def test_sharded_weights_are_gathered_again(self):
        from ranks import gathered

        with torch.device("meta"):
            module, x = gathered(6, 4096), torch.empty(64, 4096)
        weight = 4096 * 4096 * 4

        def estimate(**options):
            return echo_torch.estimate(module, (x,), lambda y: y.square().mean(), **options)

        some, kept = estimate(budget=0.5), estimate(budget=0.5, keep="*")
        self.assertEqual(some.parameters, 6 * weight // 64)
        self.assertGreater(some.default_peak, 6 * weight)  # PyTorch keeps what it gathered
        self.assertLess(some.echo_peak, 4 * weight)
        self.assertGreater(kept.echo_peak, 6 * weight)


if __name__ == "__main__":
    unittest.main()
