#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""All that compiles kernels does so with one list of flags, .ci/nvcc.flags, under which no product and
sum are rounded together: the gradient of tanh, which has both, is read for it. flags.py NVCC
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = sys.argv.pop() if len(sys.argv) > 1 else "nvcc"
FLAGS = ROOT / ".ci" / "nvcc.flags"
SCRIPTS = (
    "bench/gpu",
    "tests/cuda/run",
    "tests/cuda/spills.py",
    "tests/cuda/counts/count.py",
    "tests/cuda/ptx/CMakeLists.txt",  # the interpreted kernels
    "examples/CMakeLists.txt",  # the engine's
)
UNIT = """#include <echo/cuda/fused.cuh>
#include <echo/ops/activations.hpp>
using namespace echo::cuda::fused;
using slope = fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>>;
void run_slope(float* dx, const float* dy, const float* y, const extents& e,
               echo::cuda::stream_ref s) {
    run<slope>(results(whole(dx, e)), operands(whole(dy, e), whole(y, e)), e, s);
}
"""


def words_for_nvcc(script: str) -> list[str]:
    """The flags that a script says it gives nvcc."""
    return subprocess.run(
        [ROOT / script, "--flags"], capture_output=True, text=True, check=True
    ).stdout.split()


def ptx(flags: list[str]) -> str:
    """tanh's gradient as nvcc makes it."""
    with tempfile.TemporaryDirectory() as folder:
        unit, out = pathlib.Path(folder, "unit.cu"), pathlib.Path(folder, "unit.ptx")
        unit.write_text(UNIT, encoding="utf-8")
        subprocess.run([NVCC, *flags, "-arch=compute_80", "-ptx", "-o", out, unit], check=True)
        return out.read_text(encoding="utf-8")


class OneList(unittest.TestCase):
    """The list, and who takes it."""

    def test_everything_takes_it(self):
        """Nothing has flags of its own beside it."""
        for script in SCRIPTS:
            text = (ROOT / script).read_text(encoding="utf-8")
            self.assertIn("nvcc.flags", text, script)
            self.assertNotIn("--expt-relaxed-constexpr", text, script)
            self.assertNotIn("fmad", text, script)

    def test_the_scripts_say_it(self):
        """Where they are asked for it."""
        for script in ("bench/gpu", "tests/cuda/run"):
            words = words_for_nvcc(script)
            self.assertEqual(words[words.index("-optf") + 1], str(FLAGS), script)

    def test_no_product_and_sum_are_one(self):
        """With a script's own flags: a product without .rn may become one with the sum behind it,
        when ptxas comes to it. Without --fmad=false there is such a product, so the test would find
        it.
        """
        fusible = re.compile(r"\bfma\.[\w.]+|\b(?:mul|add|sub)\.f32")
        flags = words_for_nvcc("bench/gpu")
        self.assertEqual(fusible.findall(ptx(flags)), [])
        loose = [flag for flag in FLAGS.read_text(encoding="utf-8").split() if "fmad" not in flag]
        self.assertIn("mul.f32", fusible.findall(ptx([*loose, f"-I{ROOT / 'include'}"])))


if __name__ == "__main__":
    unittest.main()
