#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What recomputation costs in an engine that runs light recomputes inside their readers: fused.py ECHO_PLAN GRAPH…

One minimum cut of each graph for an engine that cannot fuse and one for an engine that can. `not written` counts what a
fused step would have written; it would have been read at least once as well."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import replay  # noqa: E402
import results  # noqa: E402


def planned(echo_plan, graph, *options):
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder, "plan.json")
        done = subprocess.run([echo_plan, graph, "--strategy", "min_cut", "--json", "--emit-plan", plan, *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return json.loads(done.stdout), json.loads(plan.read_text(encoding="utf-8"))["schedule"]


def main():
    echo_plan, *graphs = sys.argv[1:]
    rows = []
    for graph in sorted(graphs):
        nodes = replay.read_graph(replay.load(graph)).nodes
        apart, _ = planned(echo_plan, graph)
        inside, steps = planned(echo_plan, graph, "--fuse")
        unwritten = sum(out.bytes for step in steps if step.get("fused") for out in nodes[step["node"]].outputs)
        rows.append({"graph": pathlib.Path(graph).name.removesuffix(".json.gz"),
                     "peak MB": apart["peak_bytes"] / 1e6, "fused peak MB": inside["peak_bytes"] / 1e6,
                     "overhead %": 100 * apart["recompute_time_ratio"],
                     "fused overhead %": 100 * inside["recompute_time_ratio"],
                     "recomputed": inside["recomputed_nodes"], "fused": inside["fused_nodes"],
                     "not written MB": unwritten / 1e6})
    results.write("fused", rows)


if __name__ == "__main__":
    main()
