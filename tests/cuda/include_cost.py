#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What a unit pays that includes all of echo/cuda: processor seconds of nvcc, in units of what it pays for a unit that uses
the standard library alone (YARDSTICK of tests/include_cost.py). A slower or busier machine lengthens both.

    include_cost.py NVCC [BOOST]    fails where it pays more than LIMIT and ROOM
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import include_cost  # noqa: E402

LIMIT = 5.5


def main(nvcc, *boost):
    root = include_cost.ROOT / "include"
    headers = sorted(path.relative_to(root).as_posix()
                     for pattern in ("*.hpp", "*.cuh") for path in (root / "echo" / "cuda").rglob(pattern))
    text = "".join(f"#include <{header}>\n" for header in headers)
    options = ("-x", "cu", "--expt-relaxed-constexpr", "-arch=sm_90", "-Werror", "all-warnings",
               *(f"-isystem={path}" for path in boost if path != "/usr/include"))  # known, and not to be moved ahead
    most = LIMIT * include_cost.ROOM
    yardstick = least = float("inf")
    for _ in range(include_cost.ROUNDS):
        yardstick = min(yardstick, include_cost.cost(nvcc, include_cost.YARDSTICK, options)[0])
        least = min(least, include_cost.cost(nvcc, text, options)[0])
        if least <= most * yardstick:
            break
    print(f"{len(headers)} headers: {least / yardstick:.2f} yardsticks of {yardstick:.2f} s, limit {LIMIT}")
    return 0 if least <= most * yardstick else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
