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

import torch

import echo_torch


def step():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.BatchNorm2d(16),
        torch.nn.GELU(),
        torch.nn.Conv2d(16, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Dropout(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 12 * 12, 10),
    )
    return module, (torch.randn(8, 3, 16, 16),), torch.nn.functional.cross_entropy, (torch.randint(10, (8,)),)


def page_of(*of, **options):
    """The estimate, the data of the page that is drawn of it, and the page."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "made", "report")
        found = echo_torch.estimate(*of, report=target, **options)
        assert [file.name for file in target.iterdir()] == ["index.html"]
        page = (target / "index.html").read_text(encoding="utf-8")
    packed = re.search(r'id="data">([^<]*)<', page)[1]
    return found, json.loads(gzip.decompress(base64.b64decode(packed))), page


class Report(unittest.TestCase):
    def test_the_page_shows_both_columns_of_the_estimate(self):
        for options in ({"max_overhead": 0.2}, {"budget": 1 << 40}):
            with mock.patch.dict(os.environ, {"PATH": ""}):  # no program is at hand
                found, data, page = page_of(*step(), **options)
            self.assertEqual(data["before"]["peak"], found.default_peak, options)
            self.assertEqual(data["plan"]["peak"], found.echo_peak, options)
            self.assertEqual([side["peak"] for side in data["sides"]], [found.default_peak, found.echo_peak])
            longer = (1 + data["plan"]["overhead"]) / (1 + data["before"]["overhead"]) - 1
            self.assertAlmostEqual(longer, found.overhead, places=9)
            self.assertIn("Sequential by PyTorch → Sequential by Echo", page)

    def test_a_folder_that_cannot_be_made(self):
        with tempfile.NamedTemporaryFile() as file, self.assertRaises(OSError):
            echo_torch.estimate(*step(), report=pathlib.Path(file.name, "report"))


if __name__ == "__main__":
    unittest.main()
