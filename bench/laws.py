#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Random graphs through budget, min_cut and echo, split over the cores: laws.py BENCH_LAWS [COUNT]

bench/laws.cpp says what is drawn and what is checked. The counts go into bench/results/laws.json, with the command."""
import collections
import json
import os
import subprocess
import sys

import results


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    cores = len(os.sched_getaffinity(0))
    share = -(-count // cores)
    running = [subprocess.Popen([program, str(first), str(min(share, count - first))], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True) for first in range(0, count, share)]
    counted = collections.Counter()
    for process in running:
        said, _ = process.communicate()
        if not said:
            sys.exit(f"laws: {program} ended with {process.returncode}")
        counted.update(json.loads(said))
    broken = counted.pop("graphs that broke a law")
    bars = [{"bar": "random graphs through budget, min_cut and echo", "value": counted["graphs"], "limit": 1_000_000,
             "passed": counted["graphs"] >= 1_000_000},
            {"bar": "of them with a worse peak, or rejected by verify or the second replay", "value": broken, "limit": 0,
             "passed": broken == 0}]
    results.write("laws", [{"counted": what, "times": times} for what, times in sorted(counted.items())],
                  command=f"bench/run laws {count}", bars=bars)
    return 0 if broken == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
