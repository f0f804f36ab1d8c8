#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Host code never sees CUDA: what a compiler opens for Echo's headers, with the toolkit on its path if there is one.

    host_headers.py COMPILER INCLUDE [TOOLKIT…]     INCLUDE holds echo/, TOOLKIT cuda_runtime_api.h
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

COMPILER, INCLUDE, TOOLKIT = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
NVCC = next((path for folder in TOOLKIT if (path := shutil.which("nvcc", path=f"{folder}/../bin:{os.environ['PATH']}"))),
            None)
del sys.argv[1:]

# The headers of cuda/ that say on their first lines that they need none of CUDA's.
FREE = re.compile(r"echo/cuda/((kernel|jit)/\w+|jit|arena|bound_plan|error|stream_ref)\.hpp")
CUDA = re.compile(r"(^|/)(cuda\w*|nvrtc\w*|nvtx3|nvToolsExt\w*|nvml|cudnn\w*|vector_types|driver_types)(\.h|\.hpp|/)")


def opened(headers):
    """The files that the compiler opens for a unit with these headers, by the names it has for them."""
    text = "".join(f"#include <{header}>\n" for header in headers)
    command = [COMPILER, "-std=c++20", "-M", f"-I{INCLUDE}", *[f"-isystem{path}" for path in TOOLKIT], "-xc++", "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return found.replace("\\\n", " ").split()[1:]


def preprocess(command, header):
    """What a compiler complains of in a unit with this header alone."""
    return subprocess.run([*command, "-std=c++20", "-E", f"-I{INCLUDE}", "-o", "/dev/null"],
                          input=f"#include <{header}>\n", capture_output=True, text=True, check=False).stderr


def foreign(headers):
    """Those of CUDA among them: the toolkit's, and what has a name of the toolkit's."""
    own = str(INCLUDE)
    return [name for name in opened(headers)
            if not name.startswith(own) and (CUDA.search(name) or any(name.startswith(path) for path in TOOLKIT))]


def headers(wanted):
    names = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.glob("echo/**/*.hpp"))
    return [name for name in names if wanted(name)]


class HostHeaders(unittest.TestCase):
    def test_the_umbrella_opens_nothing_of_cuda(self):
        self.assertEqual([], foreign(["echo/echo.hpp"]))
        self.assertFalse([name for name in opened(["echo/echo.hpp"]) if "/echo/cuda/" in name])

    def test_no_header_outside_cuda_does(self):
        outside = headers(lambda name: not name.startswith("echo/cuda/"))
        self.assertGreater(len(outside), 50)
        self.assertEqual([], foreign(outside))
        self.assertFalse([name for name in opened(outside) if "/echo/cuda/" in name])

    def test_nor_do_the_bodies_of_the_kernels(self):
        free = headers(FREE.fullmatch)
        self.assertGreater(len(free), 10)
        self.assertEqual([], foreign(free))

    def test_a_cuh_says_what_it_needs(self):
        units = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.glob("echo/cuda/*.cuh"))
        self.assertGreater(len(units), 2)
        for unit in units:
            plain = preprocess([COMPILER, "-xc++", "-"], unit)
            self.assertIn("needs a CUDA compiler", plain)
            if NVCC:
                self.assertIn("compile with --expt-relaxed-constexpr", preprocess([NVCC, "-x", "cu", "-"], unit))
                self.assertEqual("", preprocess([NVCC, "--expt-relaxed-constexpr", "-x", "cu", "-"], unit))

    @unittest.skipUnless(TOOLKIT, "no toolkit")
    def test_those_that_need_it_are_seen_to(self):
        self.assertTrue(foreign(["echo/cuda/check.hpp"]))
        self.assertTrue(foreign(["echo/cuda/device.hpp"]))


if __name__ == "__main__":
    unittest.main()
