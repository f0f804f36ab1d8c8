#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The last line of examples/run: which graph it is of, and why there is no report where there is none."""
import gzip
import json
import pathlib
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import show_largest  # noqa: E402


class LastLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        many, few = self.folder / "many.json.gz", self.folder / "few.json"
        many.write_bytes(gzip.compress(json.dumps({"nodes": [{}] * 40}).encode()))
        few.write_text(json.dumps({"nodes": [{"name": "x" * 400}]}), encoding="utf-8")
        self.graphs = [many, few]
        self.assertGreater(few.stat().st_size, many.stat().st_size)

    def said(self, script):
        """With a program that does as the script says."""
        program = self.folder / "echo-plan"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return show_largest.words(str(program), self.folder / "report", self.graphs)

    def test_the_graph_with_most_nodes_is_shown(self):
        self.assertEqual(self.said('echo "$1 $2" >"$3.asked"'),
                         f"What became of many, in a browser: {self.folder / 'report' / 'index.html'}")
        self.assertEqual((self.folder / "report.asked").read_text(), f"{self.graphs[0]} --report\n")

    def test_why_there_is_none(self):
        self.assertEqual(self.said("echo 'echo-plan: --report needs uPlot' >&2; exit 2"),
                         "There is no report of many: echo-plan: --report needs uPlot")
        self.assertEqual(self.said("exit 3"), "There is no report of many: echo-plan returned 3")


if __name__ == "__main__":
    unittest.main()
