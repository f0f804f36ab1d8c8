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


def run_ranks(kind: str, count: int = 2) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = os.environ | {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, str(Path(__file__).with_name("ranks.py")), kind]
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

    def test_ranks_that_plan_otherwise_all_use_pytorchs_partition(self):
        run_ranks("disagree")

    def test_a_rank_that_does_not_ask_lets_the_others_time_out(self):
        run_ranks("late")

    def test_a_first_rank_that_does_not_ask_is_waited_for_once(self):
        run_ranks("first_late")


if __name__ == "__main__":
    unittest.main()
