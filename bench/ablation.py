#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What each pass of the search for budgets is worth: ablation.py BENCH_ABLATION GRAPH…

bench/ablation.cpp plans every graph with all passes and without each of them. A row of bench/results/ablation.json is one pass
that was off, compared with all passes on: the peak within a share of recomputation and where a budget is missed, the time of a
step where both meet the budget, replays, and the processor time of planning. Time is the median of the ratios of all questions."""
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys

import results


def run(program, graph):
    done = subprocess.run([program, graph], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def changes(graphs, off):
    """Of the peak, and of the time of a step, in per cent, with the graph and the question of each; ratios of work and time."""
    peaks, steps, replays, seconds = [], [], [], []
    for graph, by_pass in graphs.items():
        for question, with_all in by_pass[""].items():
            without = by_pass[off][question]
            where = f"{graph}, {question}"
            if with_all["met"] and without["met"] and question.startswith("budget"):
                steps.append((100 * (without["step"] / with_all["step"] - 1), where))
            else:
                peaks.append((100 * (without["peak"] / with_all["peak"] - 1), where))
            replays.append(without["replays"] / max(1, with_all["replays"]))
            seconds.append(without["s"] / with_all["s"])
    return peaks, steps, replays, seconds


def row(graphs, off):
    peaks, steps, replays, seconds = changes(graphs, off)
    mean = {"peak": statistics.mean(one for one, _ in peaks), "step": statistics.mean(one for one, _ in steps)}
    return {"off": off, "peak %": round(mean["peak"], 3), "worst peak %": round(max(peaks)[0], 2), "peak of": max(peaks)[1],
            "step %": round(mean["step"], 4), "worst step %": round(max(steps)[0], 3), "step of": max(steps)[1],
            "replays": round(statistics.mean(replays), 3), "time": round(statistics.median(seconds), 3)}


def main():
    program, *paths = sys.argv[1:]
    paths.sort(key=os.path.getsize, reverse=True)  # what takes longest begins first
    graphs = {}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for one in pool.map(lambda path: run(program, path), paths):
            graphs |= one
    passes = [off for off in next(iter(graphs.values())) if off]
    results.write("ablation", [row(graphs, off) for off in passes], graphs=len(graphs),
                  replays_of_default={name: by_pass[""]["5 %"]["replays"] for name, by_pass in sorted(graphs.items())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
