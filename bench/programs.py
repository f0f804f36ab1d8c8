#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs benchmark programs: programs.py PROGRAM…

A benchmark whose name ends in `/N` was run on size N; `exponent` is the slope of log processor time over log N from the next
smaller size on: 1 is linear growth.
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import results

TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
PLAIN = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
         "threads", "iterations", "real_time", "cpu_time", "time_unit", "label", "aggregate_name", "aggregate_unit"}


def run(program):
    """The benchmarks of one program, as Google Benchmark reports them; what it prints goes through."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "out.json")
        subprocess.run([program, f"--benchmark_out={file}", "--benchmark_out_format=json"],
                       stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
        return json.loads(file.read_text(encoding="utf-8"))["benchmarks"]


def size(name):
    """`base/1000` or `base/1000/iterations:1` is base on size 1000."""
    match = re.fullmatch(r"(.*?)/(\d+)((?:/[a-z_]+(?::\d+)?)*)", name)
    return (match[1], int(match[2])) if match else (name, None)


def rows_of(program):
    before = {}
    for one in run(program):
        if one.get("error_occurred"):
            raise SystemExit(f"{program}: {one['name']}: {one.get('error_message')}")
        if one.get("run_type") == "aggregate" and one.get("aggregate_name") != "median":
            continue
        base, n = size(one["run_name"])
        ms = one["cpu_time"] * TO_MS[one["time_unit"]]
        exponent = None
        if n:
            if base in before and ms > 0 and before[base][0] < n:
                exponent = math.log(ms / before[base][1]) / math.log(n / before[base][0])
            before[base] = (n, ms)
        counters = {key: value for key, value in one.items() if key not in PLAIN}
        yield {"benchmark": base, "size": n, "ms": round(ms, 4),
               "us per unit": round(1000 * ms / n, 4) if n else None,
               "exponent": None if exponent is None else round(exponent, 2),
               "counters": " ".join(f"{key}={value:.4g}" for key, value in counters.items()
                                    if isinstance(value, (int, float))) or None}


def main():
    for program in sorted(sys.argv[1:]):
        name = pathlib.Path(program).name.removeprefix("bench-")
        results.write(name, list(rows_of(program)))


if __name__ == "__main__":
    main()
