#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What echo-plan does by default, the least peak within 5 % of recomputation, beside min_cut: default.py ECHO_PLAN GRAPH…

Each graph is planned again with its forward results taken away, as a step has them that returns its gradients alone. Next
to nothing hangs on them, so neither peak may differ by more than 1 %. Written to bench/results/default.json, with the gaps to
the certified bounds."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import replay  # noqa: E402
import results  # noqa: E402

COMMITTED = results.ROOT / "examples" / "graphs"
WAYS = {"default": ("--strategy", "budget", "--max-overhead", "0.05"), "min_cut": ("--strategy", "min_cut")}


def plan(echo_plan, graph, way):
    done = subprocess.run([echo_plan, graph, *WAYS[way], "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout)


def without_forward_results(graph):
    nodes = graph["nodes"]
    return graph | {"outputs": [[n, k] for n, k in graph["outputs"] if nodes[n]["phase"] != "forward"]}


def figures(way, report):
    peak, bound = report["peak_bytes"], report["lower_bound_bytes"]
    return {f"{way} MB": round(peak / 1e6, 3), f"{way} overhead %": round(100 * report["recompute_time_ratio"], 3),
            f"{way} bound MB": round(bound / 1e6, 3), f"{way} gap %": round(100 * (peak - bound) / bound, 2) if bound else None}


def measure(echo_plan, path, folder):
    graph = replay.load(path)
    other = os.path.join(folder, "without.json")
    with open(other, "w", encoding="utf-8") as file:
        json.dump(without_forward_results(graph), file)
    row = {"graph": pathlib.Path(path).name.removesuffix(".json.gz"), "nodes": len(graph["nodes"])}
    reports = {way: plan(echo_plan, path, way) for way in WAYS}
    row["baseline MB"] = round(reports["default"]["baseline_peak_bytes"] / 1e6, 3)
    for way, report in reports.items():
        row |= figures(way, report)
    row["default/min_cut"] = round(reports["default"]["peak_bytes"] / reports["min_cut"]["peak_bytes"], 4)
    row["default ms"] = round(reports["default"]["pass_ms"], 1)
    for way, report in reports.items():
        there = plan(echo_plan, other, way)["peak_bytes"]
        row[f"{way} without results %"] = round(100 * (there / report["peak_bytes"] - 1), 3)
    return row


def bar(rows, way):
    key = f"{way} without results %"
    worst = max(rows, key=lambda row: abs(row[key]))
    return {"bar": f"{way}: peak without forward results, per cent from that with them", "value": abs(worst[key]), "limit": 1,
            "passed": abs(worst[key]) <= 1, "on": worst["graph"]}


def gap_bar(rows, way, limit):
    """The gap to the certified bound of plans of that kind, the mean over the graphs of examples/graphs itself."""
    gaps = [row[f"{way} gap %"] for row in rows if (COMMITTED / f"{row['graph']}.json.gz").exists()]
    value = round(sum(gaps) / len(gaps), 2)
    return {"bar": f"{way}: above the certified bound, per cent, mean of {len(gaps)}", "value": value, "limit": limit,
            "passed": value <= limit, "on": "all"}


def above_min_cut(rows):
    """Graphs where `min_cut` is within 5 % of a step and has a lower peak than the default."""
    worse = [row["graph"] for row in rows if row["min_cut overhead %"] <= 5 and row["default/min_cut"] > 1]
    return {"bar": "graphs whose default is above min_cut, which is within 5 %", "value": len(worse), "limit": 0,
            "passed": not worse, "on": ", ".join(worse)}


def main():
    echo_plan, *graphs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(echo_plan, graph, folder) for graph in sorted(graphs, key=lambda path: pathlib.Path(path).name)]
    bars = [*(bar(rows, way) for way in WAYS), above_min_cut(rows), gap_bar(rows, "default", 10), gap_bar(rows, "min_cut", 2)]
    results.write("default", rows, bars=bars)
    return 0 if all(one["passed"] for one in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
