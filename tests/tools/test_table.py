#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What examples/table.py holds against the default: its price, and another plan that needs less at that price."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import table  # noqa: E402


def report(peak, overhead):
    return {"peak_bytes": peak, "recompute_time_ratio": overhead}


class Beaten(unittest.TestCase):
    def of(self, default, **others):
        return table.beaten({table.DEFAULT: report(*default)} | {name: report(*other) for name, other in others.items()})

    def test_what_keeps_the_promise(self):
        self.assertIsNone(self.of((100, 0.05)))
        self.assertIsNone(self.of((100, 0.05), mirror=(100, 0), echo=(120, 0.01), min_cut=(50, 0.0501)))

    def test_another_plan_that_needs_less_at_that_price(self):
        for overhead in (0, 0.05):
            self.assertIn("min_cut needs 99 bytes", self.of((100, 0.01), echo=(100, 0), min_cut=(99, overhead)))

    def test_a_default_that_takes_more(self):
        self.assertIn("5.001 %", self.of((100, 0.05001)))


if __name__ == "__main__":
    unittest.main()
