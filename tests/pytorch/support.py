"""What the tests of the PyTorch package share."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

if "ECHO_TORCH_CACHE" not in os.environ:  # Processes that a test starts share it.
    os.environ["ECHO_TORCH_CACHE"] = tempfile.mkdtemp(prefix="echo-torch-")
    atexit.register(shutil.rmtree, os.environ["ECHO_TORCH_CACHE"], ignore_errors=True)

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "pytorch"))
torch.set_num_threads(1)

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._dynamo.backends.debugging import boxed_nop  # noqa: E402
from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402


def default_backend(partition_fn: Any = min_cut_rematerialization_partition, keep_mutations: bool = True) -> Any:
    """PyTorch's default partition, or another one, run as Echo's halves are. `keep_mutations`: what
    is written to inputs stands in the graph, or behind it.
    """
    return aot_autograd(
        fw_compiler=boxed_nop,
        partition_fn=partition_fn,
        keep_inference_input_mutations=keep_mutations,
    )


# What torchtitan imports with everything else, by the library that it comes from: kernels in Triton,
# data sets, curves and pictures. Nothing of it runs here, so it may be missing.
NOT_NEEDED = {
    "triton": ("torchtitan.distributed.minimal_async_ep.kernels",),
    "datasets": ("datasets", "datasets.distributed"),
    "tensorboard": ("torch.utils.tensorboard",),
    "PIL": ("PIL",),
}


def what_torchtitan_does_not_need() -> dict[str, Any]:
    """Stand-ins for `sys.modules`. Others must not find them there: they would take the library for
    installed.
    """
    return {
        module: unittest.mock.MagicMock(__spec__=ModuleSpec(module, None))
        for library, modules in NOT_NEEDED.items()
        if importlib.util.find_spec(library) is None
        for module in modules
        if module not in sys.modules
    }


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
