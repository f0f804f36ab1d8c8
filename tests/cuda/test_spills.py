#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The look at kernels finds what it looks for: spills, stack frames, missing instructions; and says which kernel."""
import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest

import spills as kernels

SAID = """
ptxas info    : Compiling entry function '_Z4goodPf' for 'sm_75'
ptxas info    : Function properties for _Z4goodPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z5spillPf' for 'sm_90'
ptxas info    : Function properties for _Z5spillPf
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 128 registers, used 0 barriers, 8 bytes cumulative stack size
"""
PTX = """
.visible .entry _Z4goodPf(
	.param .u64 _Z4goodPf_param_0
)
{
	ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
}
.visible .entry _Z5otherPf(
)
{
	ld.global.u32 %r1, [%rd1];
}
"""
GOOD = "__global__ void good(float4* x) { const float4 v = x[threadIdx.x]; x[threadIdx.x + 32] = v; }\n"
STACK = """__global__ void on_the_stack(float* x, int n) {
    float own[64];
    for (int i = 0; i < 64; ++i) own[i] = x[i * 32];
    for (int i = 0; i < n; ++i) own[(i * 7) % 64] += own[static_cast<int>(x[i]) % 64];
    for (int i = 0; i < 64; ++i) x[i] = own[i];
}
"""


class Reading(unittest.TestCase):
    def test_usage(self):
        good, spills = kernels.read_usage(SAID)
        self.assertEqual([], list(good.faults()))
        self.assertEqual(12, good.registers)
        self.assertEqual(["_Z5spillPf for sm_90: 8 bytes of stack, 16 bytes of registers spilled and 24 read back"],
                         list(spills.faults()))

    def test_instructions(self):
        bodies = kernels.read_ptx(PTX)
        self.assertEqual({"_Z4goodPf", "_Z5otherPf"}, set(bodies))
        look = lambda *expected: list(kernels.missing(bodies, expected, "a.ptx"))
        self.assertEqual([], look(("good", r"ld\.global\.v4")))
        self.assertEqual([r"_Z5otherPf in a.ptx: no instruction matches 'ld\.global\.v4'"],
                         look((".", r"ld\.global\.v4")))
        self.assertEqual(["a.ptx: no kernel's name matches 'none'"], look(("none", "ld")))


class Running(unittest.TestCase):
    def run_on(self, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "a.cu")
            source.write_text(text, encoding="utf-8")
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = kernels.main([str(source), "--arch", "sm_90", *options])
            return code, said.getvalue()

    def test_without_nvcc_it_is_skipped(self):
        code, said = self.run_on(GOOD, "--nvcc", "no-such-nvcc")
        self.assertEqual(77, code, said)

    @unittest.skipUnless(shutil.which("nvcc"), "no nvcc")
    def test_with_nvcc(self):
        code, said = self.run_on(GOOD, "--ptx", r"good=ld\.global\.v4")
        self.assertEqual(0, code, said)
        code, said = self.run_on(GOOD, "--ptx", r"good=vote")
        self.assertEqual(1, code, said)
        self.assertIn("good(float4*)", said)
        code, said = self.run_on(STACK)
        self.assertEqual(1, code, said)
        self.assertIn("on_the_stack(float*, int)", said)
        code, said = self.run_on("// nothing\n")
        self.assertEqual(1, code, said)
        code, said = self.run_on("__global__ void warns(int* x) { int unused; x[0] = 1; }\n")
        self.assertEqual(1, code, said)
        self.assertIn("unused", said)


if __name__ == "__main__":
    unittest.main()
