#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What recomputation costs in an engine that runs light recomputes inside their readers: fused.py ECHO_PLAN GRAPH…

One minimum cut of each graph for an engine that cannot fuse and one for an engine that can. `not written` counts what a
fused step would have written; it would have been read at least once as well."""
import gzip
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import results

BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "u8": 1, "i8": 1, "bool": 1}


def planned(echo_plan, graph, *options):
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder, "plan.json")
        done = subprocess.run([echo_plan, graph, "--strategy", "min_cut", "--json", "--emit-plan", plan, *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return json.loads(done.stdout), json.loads(plan.read_text(encoding="utf-8"))["schedule"]


def output_bytes(node):
    return sum(o["bytes"] if "bytes" in o else math.prod(o["shape"]) * BYTES[o["dtype"]] for o in node["outputs"])


def main():
    echo_plan, *graphs = sys.argv[1:]
    rows = []
    for graph in sorted(graphs):
        with gzip.open(graph, "rt", encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        apart, _ = planned(echo_plan, graph)
        inside, steps = planned(echo_plan, graph, "--fuse")
        unwritten = sum(output_bytes(nodes[step["node"]]) for step in steps if step.get("fused"))
        rows.append({"graph": pathlib.Path(graph).name.removesuffix(".json.gz"),
                     "peak MB": apart["peak_bytes"] / 1e6, "fused peak MB": inside["peak_bytes"] / 1e6,
                     "overhead %": 100 * apart["recompute_time_ratio"],
                     "fused overhead %": 100 * inside["recompute_time_ratio"],
                     "recomputed": inside["recomputed_nodes"], "fused": inside["fused_nodes"],
                     "not written MB": unwritten / 1e6})
    results.write("fused", rows)


if __name__ == "__main__":
    main()
