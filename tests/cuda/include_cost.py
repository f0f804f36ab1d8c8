#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""A unit that includes all of echo/cuda compiles within 20 s; half more is let pass, since cores may be shared.

    include_cost.py NVCC INCLUDE [BOOST]

What counts is processor time, since other work on the machine does not lengthen that by much; where it is too much, it is
measured once more.
"""
import pathlib
import resource
import subprocess
import sys
import tempfile

MOST = 20.0  # seconds, on a machine that does nothing else
SHARED = 1.5  # a core that is shared takes so much longer


def main(nvcc, include, *boost):
    root = pathlib.Path(include)
    headers = sorted(path.relative_to(root).as_posix()
                     for pattern in ("*.hpp", "*.cuh") for path in (root / "echo" / "cuda").rglob(pattern))
    least = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, "all.cu")
        unit.write_text("".join(f"#include <{header}>\n" for header in headers), encoding="utf-8")
        outside = [f"-isystem={path}" for path in boost if path != "/usr/include"]  # known, and not to be moved ahead
        command = [nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_90", "-Werror", "all-warnings",
                   f"-I{include}", *outside, "-c", str(unit), "-o", str(unit.with_suffix(".o"))]
        for _ in range(2):
            before = spent()
            subprocess.run(command, check=True)
            least = min(least, spent() - before)
            if least <= SHARED * MOST:
                break
    print(f"{len(headers)} headers: {least:.1f} s of processor time, at most {MOST:.0f}")
    return 0 if least <= SHARED * MOST else 1


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
