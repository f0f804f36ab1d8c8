#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""A fault that is planted by hand in a kernel's PTX is named with kernel, line and lane: one that
stores outside of an array, and one that stores a wrong value. planted.py PROGRAM, which is ptx-one_bit; 77
where it was not built.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "ptx-one_bit")
KERNEL = "_ZN4echo4cuda6detail10run_kernelINS0_6kernel11decode_bodyIfEEEEvT_"
STORE = re.compile(r"st\.global\.v4\.u32 \[(%rd\d+)\+\d+\], \{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\};")


def run(**more: str) -> subprocess.CompletedProcess:
    """The program, with what the interpreter is told by the environment."""
    return subprocess.run(
        [PROGRAM], capture_output=True, text=True, check=False, env={**os.environ, **more}
    )


class ByHand(unittest.TestCase):
    """Changes of a store in the kernel that decodes bits to floats."""

    def setUp(self):
        """The kernel's text, and its last store of 16 bytes."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        run(ECHO_PTX_ONLY="none", ECHO_PTX_DUMP=made.name)
        (text,) = self.folder.glob("*.ptx")
        self.lines = text.read_text(encoding="utf-8").split("\n")
        begin = next(n for n, line in enumerate(self.lines) if f".entry {KERNEL}(" in line)
        end = next(n for n in range(begin, len(self.lines)) if self.lines[n].startswith("}"))
        self.at = max(n for n in range(begin, end) if STORE.search(self.lines[n]))
        self.store = STORE.search(self.lines[self.at])

    def words_of(self, after: str) -> list[str]:
        """What is said of the line when it is another."""
        plant = self.folder / "plant"
        plant.write_text(f"{KERNEL}\n{self.at + 1}\n{self.lines[self.at]}\n{after}\n", encoding="utf-8")
        done = run(ECHO_PTX_ONLY="float", ECHO_PTX_PLANT=str(plant))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return (done.stdout + done.stderr).splitlines()

    def test_without_a_fault_nothing_is_said(self):
        """The same line in the place of itself."""
        plant = self.folder / "plant"
        line = self.lines[self.at]
        plant.write_text(f"{KERNEL}\n{self.at + 1}\n{line}\n{line}\n", encoding="utf-8")
        done = run(ECHO_PTX_ONLY="float", ECHO_PTX_PLANT=str(plant))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_an_access_outside_of_an_array(self):
        """At the line itself."""
        place, *of = self.store.groups()
        words = self.words_of(f"st.global.v4.u32 [{place}+1048576], {{{', '.join(of)}}};")
        said = [line for line in words if line.startswith("PTX: ")]
        self.assertTrue(said, words)
        self.assertIn(KERNEL, said[0])
        self.assertIn(f"PTX line {self.at + 1},", said[0])
        self.assertRegex(said[0], r"lane \d+: writes 16 bytes at 0x")

    def test_a_wrong_value(self):
        """By the one who wrote it."""
        place = re.search(r"\[[^]]*\]", self.store[0])[0]
        _, a, b, c, d = self.store.groups()
        words = self.words_of(f"st.global.v4.u32 {place}, {{{b}, {a}, {c}, {d}}};")
        said = [line for line in words if "DIFFERS" in line]
        self.assertTrue(said, words)
        self.assertIn(KERNEL, said[0])
        self.assertRegex(said[0], rf"written at PTX line {self.at + 1} by lane \d+ of warp \d+")


if __name__ == "__main__":
    if not PROGRAM.exists():
        print(f"skipped: {PROGRAM} was not built")
        sys.exit(77)
    unittest.main()
