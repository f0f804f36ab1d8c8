# SPDX-License-Identifier: BSL-1.0
"""`estimate(report=…)`: the page is of the very plan that is estimated."""

import base64
import gzip
import json
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import echo_torch
import torch

BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "examples" / "echo-plan"


def step():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.GELU(), torch.nn.Conv2d(16, 16, 3),
        torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Flatten(), torch.nn.Linear(16 * 12 * 12, 10))
    return module, (torch.randn(8, 3, 16, 16),), torch.nn.functional.cross_entropy, (torch.randint(10, (8,)),)


class Report(unittest.TestCase):
    def test_without_the_program_it_is_said_at_once(self):
        with mock.patch.dict(os.environ, {"PATH": "", "ECHO_PLAN": ""}), self.assertRaisesRegex(FileNotFoundError, "ECHO_PLAN"):
            echo_torch.estimate(*step(), report="nowhere")

    @unittest.skipUnless(BUILT.exists(), "echo-plan is not built")
    def test_the_page_shows_the_plan_that_is_estimated(self):
        for options in ({"max_overhead": 0.2}, {"budget": 1 << 40}):
            with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"ECHO_PLAN": str(BUILT)}):
                target = pathlib.Path(folder, "report")
                try:
                    found = echo_torch.estimate(*step(), report=target, **options)
                except RuntimeError as problem:
                    self.skipTest(str(problem))  # built without uPlot
                page = (target / "index.html").read_text(encoding="utf-8")
            packed = re.search(r'id="data">([^<]*)<', page)[1]
            plan = json.loads(gzip.decompress(base64.b64decode(packed)))["plan"]
            self.assertEqual(plan["peak"], found.echo_peak, options)
            self.assertAlmostEqual(plan["overhead"], found.overhead, places=9)


if __name__ == "__main__":
    unittest.main()
