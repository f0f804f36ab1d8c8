#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The time of the pass on committed graphs: graphs.py ECHO_PLAN GRAPH…"""
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import replay  # noqa: E402
import results  # noqa: E402

STRATEGIES = ("mirror", "echo", "min_cut")
ROUNDS = 5


def nodes(graph):
    return len(replay.load(graph)["nodes"])


def reports(echo_plan, graph, strategy):
    for _ in range(ROUNDS):
        done = subprocess.run([echo_plan, graph, "--strategy", strategy, "--json"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        yield json.loads(done.stdout)


def main():
    echo_plan, *graphs = sys.argv[1:]
    rows = []
    for graph in sorted(graphs):
        count = nodes(graph)
        for strategy in STRATEGIES:
            made = list(reports(echo_plan, graph, strategy))
            spent = statistics.median(report["pass_ms"] for report in made)
            rows.append({"graph": pathlib.Path(graph).name.removesuffix(".json.gz"), "strategy": strategy,
                         "nodes": count, "load ms": round(statistics.median(report["load_ms"] for report in made), 2),
                         "pass ms": round(spent, 2), "pass us per node": round(1000 * spent / count, 3)})
    results.write("graphs", rows, rounds=ROUNDS)


if __name__ == "__main__":
    main()
