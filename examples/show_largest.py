#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes the report of the graph with most nodes and names it; where there is none, one line says why.

    python3 examples/show_largest.py ECHO_PLAN FOLDER GRAPH…
"""
import gzip
import json
import pathlib
import subprocess
import sys


def node_count(graph: pathlib.Path) -> int:
    text = gzip.decompress(graph.read_bytes()) if graph.suffix == ".gz" else graph.read_bytes()
    return len(json.loads(text)["nodes"])


def words(program: str, folder: pathlib.Path, graphs: list[pathlib.Path]) -> str:
    """What is said at the end of examples/run."""
    largest = max(graphs, key=node_count)
    name = largest.name.removesuffix(".gz").removesuffix(".json")
    done = subprocess.run([program, largest, "--report", folder], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        return f"There is no report of {name}: {said[-1] if said else f'echo-plan returned {done.returncode}'}"
    return f"What became of {name}, in a browser: {folder / 'index.html'}"


if __name__ == "__main__":
    print(f"\n{words(sys.argv[1], pathlib.Path(sys.argv[2]), [pathlib.Path(graph) for graph in sys.argv[3:]])}")
