#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What is recorded of planted faults, and what the table of kernels refuses. No compiler is needed."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import mutants  # noqa: E402
import table  # noqa: E402

RECORDED = FOLDER.parents[2] / "bench" / "results" / "cuda-mutants.json"

# A program that reports one kernel, whose text has two.
PROGRAM = """#!/bin/sh
[ -n "$ECHO_PTX_REPORT" ] || exit 1
echo '{"one": {"cases": 2, "equal": 2, "elements": 64, "warp_instructions": 8, "sectors_loaded": 4,
 "case_warp_instructions": 8, "sectors_stored": 4, "executed": 3, "instructions": 4, "launches": 2}}' \
    > "$ECHO_PTX_REPORT"
printf '.visible .entry one(\\n%s' "$EXTRA" > "$ECHO_PTX_DUMP/program-0.ptx"
"""


class Recorded(unittest.TestCase):
    """bench/results/cuda-mutants.json, of a run of mutants.py with all programs."""

    def setUp(self):
        """The file."""
        self.result = json.loads(RECORDED.read_text(encoding="utf-8"))

    def test_enough_are_planted_and_found(self):
        """At least 200, of every kind, and 95 of 100 are found."""
        self.assertGreaterEqual(self.result["planted"], 200)
        self.assertGreaterEqual(self.result["share"], mutants.LEAST)
        self.assertAlmostEqual(
            self.result["share"], self.result["found"] / self.result["counted"], places=3
        )
        self.assertEqual(
            self.result["counted"] - self.result["found"], len(self.result["survivors"])
        )
        kinds = {"barrier", "mask", "offset", "operator", "predicate", "register", "store"}
        self.assertLessEqual(kinds, set(self.result["kinds"]))

    def test_each_that_is_not_found_has_a_reason(self):
        """A sentence."""
        for survivor in self.result["survivors"]:
            self.assertGreater(len(survivor["why"]), 20, survivor)


class Patterns(unittest.TestCase):
    """Of faults that change nothing."""

    LINES = ["mul.rn.f32 %f1, %f2, %f3;", "mov.b32 %r1, %f1;", "and.b32 %r2, %r1, 2147483647;"]

    def covered(self, before: str, after: str, kind: str) -> bool:
        """Whether one of the reasons is that of a change behind LINES."""
        fault = (len(self.LINES) + 1, before, kind, after)
        mutant = mutants.Mutant("fused", "_Z3one", [], [*self.LINES, before], fault)
        return any(one.covers(mutant) for one in mutants.patterns())

    def test_registers_and_numbers_count(self):
        """The pattern of a NaN that arithmetic made, and its near negatives."""
        before = "setp.gt.u32 %p1, %r2, 2139095040;"
        after = "setp.gt.u32 %p1, %r2, 2139095041;"
        self.assertTrue(self.covered(before, after, "constant"))
        self.assertFalse(self.covered(before, "setp.gt.u32 %p1, %r2, 2139095042;", "constant"))
        self.assertFalse(self.covered(before.replace("r2", "r1"), after, "constant"))
        self.assertFalse(self.covered(before, after, "mask"))

    def test_a_barrier_left_out_is_a_fault(self):
        """One of the kinds."""
        (fault,) = mutants.mutations("\tbar.warp.sync -1;")
        self.assertEqual(fault, ("barrier", "\t// bar.warp.sync -1;"))


class Table(unittest.TestCase):
    """table.py on programs that are scripts."""

    def run_table(self, leave_out: str = "", extra: str = "") -> tuple[int, str]:
        """Exit code and words, of all programs but one."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for program in [*table.TABLED, *(command[0] for command in table.OTHERS)]:
                if program != leave_out:
                    file = folder / f"ptx-{program}"
                    file.write_text(PROGRAM.replace("$EXTRA", extra), encoding="utf-8")
                    file.chmod(0o755)
            counts = folder / "counts.json"
            rows = [
                {"symbol": symbol, "predicted": {"H100": {"part": part}}}
                for symbol, part in (("one", 0.75), ("one", 0.5), ("echo_fused", 0.25))
            ]
            counts.write_text(json.dumps({"kernels": rows}), encoding="utf-8")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = table.main([name, "--counts", str(counts)])
            return code, said.getvalue()

    def test_all_well(self):
        """The least prediction of a symbol stands beside its cases."""
        code, said = self.run_table()
        self.assertEqual(code, 0, said)
        row = next(line.split() for line in said.splitlines() if line.startswith("fused: one"))
        self.assertEqual(row, ["fused:", "one", "2", "2", "0.125", "0.062", "0.062", "0.75", "0.5"])

    def test_what_was_not_built_is_a_failure(self):
        """Whichever it is."""
        for program in ("engine", "device_jit"):
            code, said = self.run_table(leave_out=program)
            self.assertEqual(code, 1)
            self.assertIn(f"{program} FAILED:\nwas not built", said)

    def test_a_kernel_that_never_ran_is_a_failure(self):
        """But for those that nothing launches."""
        code, said = self.run_table(extra=".visible .entry two(")
        self.assertEqual(code, 1)
        self.assertIn("two never ran", said)
        (never,) = table.NEVER_LAUNCHED
        self.assertEqual(self.run_table(extra=f".visible .entry {never}(")[0], 0)


if __name__ == "__main__":
    unittest.main()
