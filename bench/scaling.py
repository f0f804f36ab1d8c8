#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""How the whole pass grows with the graph, file reading apart: scaling.py ECHO_PLAN

For every shape of bench/make_graph.py: the time of the pass per node at each size, the exponent between the smallest and
the largest, and the memory of the whole process, reading included."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import results

SHAPES = ("chain", "light-chain", "fan", "transformer")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
EXPONENT_TO = 100_000
ROUNDS = {1_000: 9, 10_000: 5, 100_000: 3, 1_000_000: 1}


def measure(echo_plan, graph, rounds):
    """The least time of the pass, in ms, and the peak memory of the process, in MB."""
    best, memory = math.inf, 0
    for _ in range(rounds):
        process = subprocess.Popen([echo_plan, graph, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        report = json.load(process.stdout)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"scaling: {echo_plan} failed on {graph}")
        best, memory = min(best, report["pass_ms"]), max(memory, usage.ru_maxrss / 1000)
    return best, memory


def main():
    echo_plan = sys.argv[1]
    make_graph = pathlib.Path(__file__).with_name("make_graph.py")
    rows = []
    for shape in SHAPES:
        row, times = {"shape": shape}, {}
        for size in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                graph = os.path.join(folder, "graph.json")
                subprocess.run([sys.executable, make_graph, shape, str(size), graph], check=True)
                times[size], memory = measure(echo_plan, graph, ROUNDS[size])
            row[f"us per node at {size}"] = round(1000 * times[size] / size, 3)
        row["exponent"] = round(math.log(times[EXPONENT_TO] / times[SIZES[0]]) / math.log(EXPONENT_TO / SIZES[0]), 3)
        row["MB at 1000000"] = round(memory)
        rows.append(row)
    results.write("scaling", rows, exponent=f"of the pass from {SIZES[0]} to {EXPONENT_TO} nodes")


if __name__ == "__main__":
    main()
