"""What the tests of the PyTorch package share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("ECHO_TORCH_CACHE", tempfile.mkdtemp(prefix="echo-torch-"))

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "pytorch"))
torch.set_num_threads(1)

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._dynamo.backends.debugging import boxed_nop  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402


def default_backend(
    partition_fn: Any = min_cut_rematerialization_partition, keep_mutations: bool = True
) -> Any:
    """PyTorch's default partition, or another one, run as Echo's halves are. `keep_mutations`: what
    is written to inputs stands in the graph, or behind it.
    """
    return aot_autograd(
        fw_compiler=boxed_nop,
        partition_fn=partition_fn,
        keep_inference_input_mutations=keep_mutations,
    )


class Case(unittest.TestCase):
    """A test that trains the same thing by PyTorch's default partition and by Echo."""

    def setUp(self) -> None:
        torch._dynamo.reset()

    def assert_same_bits(self, one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
        self.assertEqual(len(one), len(other))
        for position, (a, b) in enumerate(zip(one, other, strict=True)):
            self.assertTrue(torch.equal(a, b), f"value {position} differs")

    def runs(self, program: str) -> str:
        """Runs it in a process of its own; what that said on its error stream."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def trains_alike(self, train: Callable[[Any], list[torch.Tensor]], *backends: Any) -> None:
        torch._dynamo.reset()
        expected = train(default_backend())
        for backend in backends:
            torch._dynamo.reset()
            self.assert_same_bits(expected, train(backend))
