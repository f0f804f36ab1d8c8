#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The table and the file at the end of `bench/gpu --all`, from results of made-up figures: they say
what was measured beside what was predicted, and what is missing. And without a card the command
says so.
"""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pieces" / "gpu"))

import day  # noqa: E402


def row(size, value, met):
    """A line of a benchmark."""
    return {
        "benchmark": "one_bit",
        "name": "encode",
        "type": "float",
        "bytes": size,
        "quantity": "share of copy bandwidth",
        "value": value,
        "against": "copy",
        "bar": ">= 0.95",
        "met": met,
    }


CUDA = {
    "card": {"card": "NVIDIA H100 80GB HBM3"},
    "rows": [row(64 << 20, 0.5, False), row(1 << 30, 0.97, True)],
}
GPU = {
    "card": {"device": "NVIDIA H100 80GB HBM3 (sm_90)"},
    "left_out": [{"what": "ds2", "why": "out of time"}],
    "models": {
        "nmt": [{"plan": "baseline", "same_losses": True}, {"plan": "echo", "same_losses": False}]
    },
    "bars": [
        {"bar": "NMT, echo: time", "value": 1.2, "sense": "≤", "limit": 1.01, "passed": False},
        {"bar": "NMT, fused: time", "value": None, "sense": "≤", "limit": 0.85, "passed": None},
    ],
}


class Day(unittest.TestCase):
    """Table and file."""

    def setUp(self):
        """A folder as the two parts leave it."""
        self.scope = tempfile.TemporaryDirectory()
        self.addCleanup(self.scope.cleanup)
        self.folder = pathlib.Path(self.scope.name)

    def write(self, name, content):
        """A result of a part."""
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content), encoding="utf-8")

    def test_the_table(self):
        """The largest tensor counts; a missed bar, other losses and what is left out are said."""
        self.write("cuda/cuda.json", CUDA)
        self.write("gpu/gpu.json", GPU)
        text = day.table(self.folder, {"tests/cuda/run": 0, "bench/gpu": 1})
        self.assertIn("NVIDIA H100 80GB HBM3", text.splitlines()[0])
        for words in (
            "tests/cuda/run",
            "passed",
            "FAILED",
            "0.970 share of copy bandwidth",
            "1.00 predicted",
            ">= 0.95 met",
            "1.200",
            "≤ 1.01 MISSED",
            "not measured",
            "no: nmt with echo",
            "left out: ds2",
        ):
            self.assertIn(words, text)
        self.assertNotIn("0.500", text)

    def test_nothing_came(self):
        """The table says so."""
        text = day.table(self.folder, {"tests/cuda/run": 77, "bench/gpu": 124})
        self.assertIn("unknown card", text)
        self.assertIn("not run", text)
        self.assertIn("status 124", text)

    def test_one_file(self):
        """It has all that lies in the folder, and no earlier one of its kind."""
        self.write("gpu/gpu.json", GPU)
        (self.folder / "echo-old.tar.gz").write_bytes(b"old")
        made = day.pack(self.folder, "NVIDIA H100, today\n")
        self.assertRegex(made.name, r"^echo-nvidia-h100-\d{4}-\d\d-\d\d\.tar\.gz$")
        with tarfile.open(made) as packed:
            names = sorted(name.split("/", 1)[1] for name in packed.getnames())
        self.assertEqual(names, ["gpu/gpu.json", "table.txt"])

    def test_without_a_card(self):
        """One line, and 77."""
        said = subprocess.run(
            [ROOT / "bench" / "gpu", "--all", "--out", self.folder],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        )
        self.assertEqual(said.returncode, 77, said.stdout + said.stderr)
        self.assertEqual(len(said.stdout.splitlines()), 1)
        self.assertIn("not run", said.stdout)


if __name__ == "__main__":
    unittest.main()
