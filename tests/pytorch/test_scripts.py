"""A few of the training scripts of bench/scripts, an epoch each: they train by Echo as by PyTorch's default
partition, to the bit, evaluate and save what they trained.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from pathlib import Path

import torch
from support import Case

import echo_torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "pieces" / "scripts"))

from all_scripts import SCRIPTS  # noqa: E402
from shared import Watch  # noqa: E402


class Epoch(Watch):
    """Trains for one epoch."""

    def epochs(self, usual: int) -> int:
        return 1


class Scripts(Case):
    def same(self, name: str, planned: bool = True) -> None:
        warnings.simplefilter("ignore")
        expected = SCRIPTS[name]("aot_eager", Epoch())
        torch._dynamo.reset()
        before = len(echo_torch.reports())
        self.assert_same_bits(expected, SCRIPTS[name]("echo_eager", Epoch()))
        reports = echo_torch.reports()[before:]
        self.assertEqual(any(report.reason is None for report in reports), planned, str(reports))

    def test_a_smaller_last_batch_and_an_evaluation(self) -> None:
        self.same("image classifier")

    def test_the_model_is_saved_whole_and_loaded(self) -> None:
        self.same("LSTM language model", planned=False)  # PyTorch leaves nn.LSTM out of its graphs

    def test_many_graphs_are_kept_until_one_backward_pass(self) -> None:
        self.same("actor-critic")

    def test_images_change_in_place_before_the_backward_pass(self) -> None:
        self.same("style transfer")

    def test_the_users_own_checkpoints(self) -> None:
        try:
            import accelerate  # noqa: F401
        except ImportError as missing:
            raise unittest.SkipTest(f"the Trainer of transformers needs accelerate: {missing}") from None
        self.same("Trainer, gradient checkpointing")


if __name__ == "__main__":
    unittest.main()
