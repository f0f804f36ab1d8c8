"""Two models at full widths: the same bits, what was predicted, and less than PyTorch's default
partition.
"""

from __future__ import annotations

import functools
import unittest

import torch
from support import Case, default_backend  # makes the modules beside the package importable

import echo_torch  # isort: split

from measure import Training
from trained import MODELS, _bert


class Models(Case):
    def check(self, build, off: float, *, gain: float) -> None:
        torch._dynamo.config.recompile_limit = 64
        default = Training(build, default_backend()).train(3)
        for options in ({}, {"budget": 0.5}, {"budget": 0.4}):
            with self.subTest(options):
                training = Training(build, echo_torch.eager_backend(**options))
                trained = training.train(3)
                report = echo_torch.reports()[-1]
                self.assertIsNone(report.reason)
                self.assertEqual(trained.digests, default.digests)
                self.assertLess(trained.peak, default.peak)
                # What an operator frees again within itself is no storage.
                self.assertAlmostEqual(training.tracked() / trained.peak, 1, delta=off)
                self.assertAlmostEqual(trained.peak / report.peak, 1, delta=off)
                self.assertAlmostEqual(default.peak / report.default_peak, 1, delta=off)
                if not options:
                    self.assertGreater(default.peak / trained.peak, gain)

    def test_a_convolutional_network(self):
        self.check(MODELS["mobilenet_v3"], 0.03, gain=1.4)

    def test_a_transformer(self):
        self.check(functools.partial(_bert, 2), 0.01, gain=1.1)


class Estimates(unittest.TestCase):
    def test_what_is_estimated_is_what_is_planned(self):
        step = _bert(1)
        options = {"budget": 0.7, "optimizer": "adamw", "points": 4}
        found = echo_torch.estimate(step.module.train(), step.inputs, step.loss_fn, step.labels, **options)
        parameters = sum(p.numel() * 4 for p in step.module.parameters())
        counts = 4 * sum(1 for _ in step.module.parameters())  # of steps taken
        self.assertEqual(found.optimizer, 2 * parameters + counts)
        self.assertLess(found.echo_peak, found.default_peak)
        self.assertLessEqual(found.bound, found.echo_peak)
        self.assertEqual(found.echo_total, found.parameters + found.inputs + found.optimizer + found.echo_peak)
        self.assertEqual(sum(found.at_peak.values()) <= found.echo_peak, True)
        self.assertTrue(found.front and '"echo_total"' in found.json() and "whole step" in str(found))

    def test_tensors_without_a_device(self):
        with torch.device("meta"):
            module = torch.nn.Sequential(*(torch.nn.Linear(20_000, 20_000) for _ in range(4)), torch.nn.Softmax(-1))
            x = torch.empty(30_000, 20_000)
        found = echo_torch.estimate(module, (x,), lambda y: y.square().mean())
        self.assertGreater(found.default_peak, 4 * 1_600_000_000)


if __name__ == "__main__":
    unittest.main()
