#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What moving values to the host's memory gives on the committed graphs: offload.py ECHO_PLAN GRAPH…

Each graph is planned within 5 % of a step by recomputation alone, by moves alone (nothing may run again), and by both, over
a link of 25 GB/s each way; then for half and for 40 % of the peak without Echo, by recomputation alone and by both. Times are
those of the model of docs/formats.md. Written to bench/results/offload.json."""
import json
import math
import pathlib
import subprocess
import sys

import results

LINK = ("--offload", "25GB/s")
WAYS = {"recompute": (), "offload": (*LINK, "--keep", "*"), "both": LINK}
BUDGETS = {"50%": 0.5, "40%": 0.4}


def plan(echo_plan, graph, *asked):
    """The report; and whether the budget that was asked for is kept."""
    done = subprocess.run([echo_plan, graph, *asked, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout), done.returncode == 0


def time_of(report):
    return 100 * (report["recompute_time_ratio"] + report.get("stall_time_ratio", 0))


def measure(echo_plan, path):
    reports = {way: plan(echo_plan, path, *asked)[0] for way, asked in WAYS.items()}
    both = reports["both"]
    row = {"graph": pathlib.Path(path).name.removesuffix(".json.gz"), "baseline MB": round(both["baseline_peak_bytes"] / 1e6, 3)}
    for way, report in reports.items():
        row[f"{way} MB"] = round(report["peak_bytes"] / 1e6, 3)
    row |= {"bound MB": round(both["lower_bound_bytes"] / 1e6, 3), "recompute %": round(100 * both["recompute_time_ratio"], 3),
            "stall %": round(100 * both["stall_time_ratio"], 3), "host MB": round(both["host_bytes"] / 1e6, 3),
            "out %": round(100 * both["out_time_ratio"], 1),
            "plan time": round(both["plan_ms"] / reports["recompute"]["plan_ms"], 3)}
    for name in BUDGETS:
        for way in ("recompute", "both"):
            report, met = plan(echo_plan, path, "--budget", name, *WAYS[way])
            row[f"{way} for {name}"] = round(time_of(report), 3) if met else None
    return row


def mean(values):
    """The geometric one."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def bars(rows):
    ratio = mean(row["both MB"] / row["recompute MB"] for row in rows)
    above = [row["graph"] for row in rows if row["both MB"] > min(row["recompute MB"], row["offload MB"]) * 1.0000001]
    time = mean(row["plan time"] for row in rows)
    return [{"bar": "with moves over 25 GB/s ÷ by recomputation alone, 5 % of a step, geometric mean of the peaks",
             "value": round(ratio, 3), "limit": 0.6, "passed": ratio <= 0.6, "on": "all"},
            {"bar": "graphs on which moves and recomputation together are above either alone", "value": len(above), "limit": 0,
             "passed": not above, "on": ", ".join(above)},
            {"bar": "planning with moves ÷ without", "value": round(time, 2), "limit": 1.5, "passed": time <= 1.5, "on": "all"}]


def main():
    echo_plan, *graphs = sys.argv[1:]
    rows = [measure(echo_plan, graph) for graph in sorted(graphs, key=lambda path: pathlib.Path(path).name)]
    least = mean(row["bound MB"] / row["recompute MB"] for row in rows)
    results.write("offload", rows, bars=bars(rows), **{"bound ÷ recomputation": round(least, 3)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
