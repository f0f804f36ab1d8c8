#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""By how much a step takes longer than by the best plan within its limit that is known: regret.py BENCH_REGRET COUNT GRAPH…

bench/regret.cpp says what is known and what is checked, on the graphs given and on COUNT random ones, split over the cores.
The counts go into bench/results/regret.json. What is known of random graphs is kept beside the program until that changes:
where many were asked for and the run was cut short, the next one goes on."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import results

SHARE = 10  # random graphs for one process
LARGER = 150  # random graphs of which those above 256 nodes are checked as well


def run(program, *what):
    done = subprocess.run([program, *map(str, what)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"regret: {program} {' '.join(map(str, what))} returned {done.returncode}")
    return json.loads(done.stdout)


def run_share(program, kept, what, first, count):
    """The counts of random graphs, as kept or anew."""
    file = kept / f"{what}-{first}-{count}.json"
    if not file.exists():
        part = file.with_suffix(".part")
        part.write_text(json.dumps(run(program, what, first, count)), encoding="utf-8")
        part.rename(file)
    return json.loads(file.read_text(encoding="utf-8"))


def example(one):
    """One limit in words."""
    if one is None:
        return None
    return (f"{one['limit']}: {100 * one['overhead']:.3f} % at {one['peak']}, "
            f"{one['by']} {100 * one['best']:.3f} % at {one['best_peak']}")


def row(name, one):
    return {"graph": name, "nodes": one.get("nodes"), "points": one["points"], "regretted": one["regretted"],
            "missed": one["missed"], "worst %": round(100 * one["most"], 3), "there": example(one["worst"]),
            "miss": example(one["miss"])}


def together(shares):
    """The random graphs of all processes as one row."""
    total = {key: sum(one[key] for one in shares) for key in ("points", "regretted", "missed")}
    worst = max(shares, key=lambda one: one["most"])
    miss = next((one["miss"] for one in shares if one["miss"]), None)
    return total | {"most": worst["most"], "worst": worst["worst"], "miss": miss}


def bars_of(what, rows):
    part = 100 * sum(one["regretted"] for one in rows) / sum(one["points"] for one in rows)
    worst = max(rows, key=lambda one: one["worst %"])
    return [{"bar": f"limits of {what} with more than 0.5 % of a step of regret, per cent", "value": round(part, 3), "limit": 1,
             "passed": part <= 1},
            {"bar": f"the most regret at a limit of {what}, per cent of a step", "value": worst["worst %"], "limit": 2,
             "passed": worst["worst %"] <= 2, "on": worst["graph"]}]


def main():
    program, count, graphs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    kept = pathlib.Path(program).parent / "regret" / hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    graphs.sort(key=os.path.getsize, reverse=True)  # what takes longest begins first
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        of_files = [pool.submit(run, program, graph) for graph in graphs]
        of_larger, of_random = ([pool.submit(run_share, program, kept, what, first, min(SHARE, most - first))
                                 for first in range(0, most, SHARE)]
                                for what, most in (("larger", LARGER), ("random", count)))
        files = sorted((row(pathlib.Path(graph).name.removesuffix(".json.gz"), future.result())
                        for graph, future in zip(graphs, of_files)), key=lambda one: one["graph"])
        larger = row("random graphs of 257 to 1200 nodes", together([future.result() for future in of_larger]))
        shares = [future.result() for future in of_random]
    rows = [*files, larger]
    bars = bars_of("committed graphs", files) + bars_of("random graphs of 257 to 1,200 nodes", [larger])
    if shares:
        drawn = row(f"{count} random graphs", together(shares))
        rows, bars = [*rows, drawn], bars + bars_of("smaller random graphs", [drawn])
    results.write("regret", rows, command=f"bench/run regret {count}",
                  broken_random_graphs=sum(one["broken"] for one in shares), bars=bars)
    return 0 if all(one["passed"] for one in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
