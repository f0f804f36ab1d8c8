#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The engine's steps whose values wait in a file: offload.py ENGINE_OFFLOAD FOLDER [--quick]. See bench/engine."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
os.environ["OMP_WAIT_POLICY"] = "passive"  # a thread that waits in a loop takes a core from those that copy

import results  # noqa: E402

MODELS = ("nmt", "transformer", "resnet")
SHARE = 4  # of the batch of the preset `small`, one is taken
STEPS = 4  # of either, in turns
PART = 0.25  # of the baseline's peak
MEMORY, TIME = 0.03, 0.15


def bar(what, value, limit):
    return {"bar": what, "value": value, "limit": limit, "passed": value <= limit}


def rows_of(model, made):
    """A row for each plan, and its bars."""
    rows, bars = [], []
    for one in made["plans"]:
        ratios = [a / b for a, b in zip(one["ms"], one["baseline_ms"])]
        measured, replayed = statistics.median(ratios), 1 + one["recompute_time_ratio"] + one["stall_time_ratio"]
        row = {"model": model, "plan": one["plan"], "baseline_peak_MB": one["baseline_peak_bytes"] / 1e6,
               "peak_MB": one["peak_bytes"] / 1e6, "arena_MB": one["arena_bytes"] / 1e6, "process_MB": (one["process_bytes"] - one["beside_bytes"]) / 1e6,
               "beside_MB": one["beside_bytes"] / 1e6,
               "file_MB": one["host_bytes"] / 1e6, "offloaded_MB": one["offloaded_bytes"] / 1e6, "offloaded": one["offloaded"],
               "reloaded": one["reloaded"], "recomputed": one["recomputed"], "encoded": one["encoded"], "met": one["met"],
               "recompute_part": one["recompute_time_ratio"], "stall_part": one["stall_time_ratio"],
               "replayed_ratio": replayed, "time_ratio": measured, "time_ratios": ratios,
               "baseline_ms": statistics.median(one["baseline_ms"]), "planning_s": one["planning_s"],
               "out_MB_s": made["out_bytes_per_us"], "in_MB_s": made["in_bytes_per_us"], "both_ways": made["both_ways"],
               "direct": made["direct"]}
        if not one["same_bits"]:
            sys.exit(f"engine-offload: {model}, {one['plan']}: other bits than without")
        rows.append(row)
        called = f"{model}, {one['plan']}"
        bars += [bar(f"{called}: memory of the process from the plan's peak", abs(row["process_MB"] / row["peak_MB"] - 1), MEMORY),
                 bar(f"{called}: time of a step from the replay's", abs(measured / replayed - 1), TIME)]
    return rows, bars


BEGIN, END = "<!-- table: bench/engine --offload -->", results.END_OF_TABLE


def section(result):
    """The table of docs/results/engine.md."""
    cores = f"{result['machine']['cores']} cores of an {result['machine']['cpu']}"
    lines = [BEGIN, "", f"Measured on {result['date']}, {cores}; other programs ran on the machine, {result['load']:.1f} at a time on "
             "average. Bits of losses and parameters are those of the baseline.", "",
             "| a training step | plan | peak, baseline's | plan's | memory of the process | file | copies out, back | recomputed | "
             "time over the baseline's | replay's |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [f"| {r['model']} | {r['plan']} | {r['baseline_peak_MB']:.0f} MB | {r['peak_MB']:.0f} MB | {r['process_MB']:.0f} MB | "
              f"{r['file_MB']:.0f} MB | {r['offloaded']}, {r['reloaded']} | {r['recomputed']} | {r['time_ratio']:.3f} | "
              f"{r['replayed_ratio']:.3f} |" for r in result["rows"]]
    lines += ["", "| file | past the page cache | written | read | copies both ways at once |", "|---|---|--:|--:|---|"]
    seen = {r["model"]: r for r in result["rows"]}
    lines += [f"| {model} | {'yes' if r['direct'] else 'no'} | {r['out_MB_s'] / 1e3:.2f} GB/s | {r['in_MB_s'] / 1e3:.2f} GB/s | "
              f"{'yes' if r['both_ways'] else 'no'} |" for model, r in seen.items()]
    lines += ["", "| bar | measured | asked | |", "|---|--:|--:|--:|"]
    lines += [f"| {b['bar']} | {b['value']:.4f} | ≤ {b['limit']:g} | {'passed' if b['passed'] else '**failed**'} |"
              for b in result["bars"]]
    return "\n".join([*lines, "", END])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="engine-offload")
    parser.add_argument("folder", nargs="?", default="", help="where the file lies; without it, in TMPDIR")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--readme", action="store_true")
    options = parser.parse_args()
    if not options.readme:
        rows, bars = [], []
        for model in MODELS:
            command = [options.program, model, *(("tiny", "1") if options.quick else ("small", str(SHARE))), str(STEPS), str(PART), "--offload", options.folder]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
            for known, more in zip((rows, bars), rows_of(model, json.loads(done.stdout))):
                known += more
        results.table(bars)
        if options.quick:
            return
        results.save("engine-offload", {"date": datetime.date.today().isoformat(), "machine": results.machine(),
                                        "load": os.getloadavg()[2], "bars": bars, "rows": rows})
    results.put_section(ROOT / "docs" / "results" / "engine.md", section(results.load("engine-offload")))


if __name__ == "__main__":
    main()
