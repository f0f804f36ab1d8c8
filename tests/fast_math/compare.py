#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Two builds of plan-bits must print the same lines: compare.py PLAN_BITS OTHER_PLAN_BITS GRAPH…

Planning computes in whole numbers, so that a host compiled with -Ofast gets the plans that any other gets."""
import subprocess
import sys


def lines(program, graphs):
    return subprocess.run([program, *graphs], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=True).stdout.splitlines()


def main():
    program, other, *graphs = sys.argv[1:]
    usual, fast = lines(program, graphs), lines(other, graphs)
    differing = [f"{a}\n{b}" for a, b in zip(usual, fast) if a != b]
    print("\n".join(differing) or f"{len(usual)} lines, all the same")
    return 1 if differing or len(usual) != len(fast) or not usual else 0


if __name__ == "__main__":
    sys.exit(main())
