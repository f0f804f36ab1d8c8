#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The engine's steps beside PyTorch's and its own without Echo: engine.py ENGINE_STEPS PYTHON [--quick]. See bench/engine."""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(__file__).resolve().parent
ROOT = LIBRARY.parents[2]
sys.path.insert(0, str(ROOT / "bench"))
os.environ["OMP_WAIT_POLICY"] = "passive"  # a thread that waits in a loop takes a core from the other process

import results  # noqa: E402

# What is measured: an engine's model beside a peer's, and bars.
PEERS = (("ResNet-50, 16 images of 64", "resnet", "resnet"), ("LSTM language model", "lstm", "lstm"),
         ("the same, cell by cell", "cells", "cells"))
MODELS = ("nmt", "transformer", "resnet")
STEPS = 5  # of either
TIME_OVER_PEER, LOSS, GRADIENTS, TIME_OF_ECHO, TIME_AT_HALF, FILLED = 1.3, 1e-4, 2, 1.05, 1.15, 2e9


class Steps:
    """A process that runs steps when it is told to."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"engine: {self.process.args[0]} stopped with status {self.process.wait()}")
        return json.loads(line)

    def __call__(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def beside(program, python, model, peer, rounds):
    """Steps of both in turns, from the same parameters and data."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Steps(program, "peer", model, folder)
        torch = Steps(python, LIBRARY / "torch_steps.py", peer, folder)
        ours, theirs, answers = [], [], []
        losses = [one(1)["losses"][0] for one in (engine, torch)]
        gradients = torch("gradients")
        for one in (engine, torch):
            one(2)  # the first are slower: kernels are made
        for k in range(rounds):
            for one, ms in ((engine, ours), (torch, theirs))[::1 if k % 2 else -1]:
                answers.append(one(1))
                ms.append(answers[-1]["ms"][0])
        memory = [engine(1), torch("peak")]
        engine.end()
        torch.end()
    return {"engine_ms": statistics.median(ours), "torch_ms": statistics.median(theirs),
            "time_ratio": statistics.median(a / b for a, b in zip(ours, theirs)), "time_ratio_of_least": min(ours) / min(theirs),
            "engine_tensor_MB": memory[0]["tensor_bytes"] / 1e6, "torch_tensor_MB": memory[1]["tensor_bytes"] / 1e6,
            "engine_process_MB": memory[0]["process_bytes"] / 1e6, "torch_process_MB": memory[1]["process_bytes"] / 1e6,
            "loss": losses[0], "loss_difference": abs(losses[0] - losses[1]), "engine_gradient_error": gradients["engine"],
            "torch_gradient_error": gradients["torch"], "rounds": rounds}


def compare_peers(options):
    rows, bars = [], []
    for called, model, peer in PEERS:
        row = {"model": called, **beside(options.program, options.python, model, peer, 5 if options.quick else 11)}
        rows.append(row)
        print(f"{called}: {row['engine_ms']:.1f} ms beside {row['torch_ms']:.1f} ms, {row['time_ratio']:.3f}", flush=True)
        bars += [bar(f"{called}: time over PyTorch's", row["time_ratio"], TIME_OVER_PEER),
                 bar(f"{called}: tensors over PyTorch's, bytes at the peak", row["engine_tensor_MB"] / row["torch_tensor_MB"], 1),
                 bar(f"{called}: memory of the process over PyTorch's", row["engine_process_MB"] / row["torch_process_MB"], 1),
                 bar(f"{called}: difference of losses", row["loss_difference"], LOSS),
                 bar(f"{called}: distance of gradients from those in double, over PyTorch's",
                     row["engine_gradient_error"] / row["torch_gradient_error"], GRADIENTS)]
    return rows, bars


def compare_strategies(options):
    rows, bars = [], []
    for model in MODELS:
        command = [options.program, "echo", model, "tiny" if options.quick else "small", str(STEPS)]
        made = json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout)
        print(f"{model}, baseline: arena {made['baseline_arena_bytes'] / 1e6:.0f} MB", flush=True)
        for one in made["strategies"]:
            ratios = [a / b for a, b in zip(one["ms"], one["baseline_ms"])]
            ratio = statistics.median(ratios)
            rows.append({"model": model, "strategy": one["strategy"], "ms": statistics.median(one["ms"]),
                         "baseline_ms": statistics.median(one["baseline_ms"]), "time_ratio": ratio, "time_ratios": ratios,
                         "arena_MB": one["arena_bytes"] / 1e6, "baseline_arena_MB": made["baseline_arena_bytes"] / 1e6,
                         "part": one["peak_bytes"] / made["baseline_peak_bytes"], "recomputed": one["recomputed"],
                         "fused": one["fused"], "encoded": one["encoded"], "predicted_overhead": one["predicted_overhead"]})
            print(f"{model}, {one['strategy']}: {rows[-1]['ms']:.0f} ms beside {rows[-1]['baseline_ms']:.0f} ms, {ratio:.3f} "
                  f"({', '.join(f'{r:.3f}' for r in ratios)}), arena {rows[-1]['arena_MB']:.0f} MB", flush=True)
            if not one["same_losses"]:
                sys.exit(f"engine: {model} with {one['strategy']} has other losses than without")
            limit = TIME_AT_HALF if one["strategy"] == "budget" else TIME_OF_ECHO
            bars.append(bar(f"{model}, {one['strategy']}: time over the baseline's", ratio, limit))
            if one["strategy"] == "budget":
                bars.append(bar(f"{model}, budget: peak over the baseline's", rows[-1]["part"], 0.5))
        if not options.quick:
            bars.append(bar(f"{model}: feature maps, bytes", made["feature_map_bytes"], FILLED, least=True))
    return rows, bars


def bar(what, value, limit, least=False):
    passed = value >= limit if least else value <= limit
    return {"bar": what, "value": value, "limit": limit, "passed": passed}


BEGIN, END = "<!-- table: bench/engine -->", results.END_OF_TABLE


def section(result):
    """The tables of docs/results/engine.md."""
    cores = f"{result['machine']['cores']} cores of an {result['machine']['cpu']}"
    lines = [BEGIN, "", f"Measured on {result['date']}, {cores}: PyTorch {result['torch']} on the CPU beside the engine, steps in "
             "turns, medians; the same parameters and data.", "",
             "| a training step | engine | PyTorch | ratio | tensors, engine | PyTorch | losses differ by |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    lines += [f"| {r['model']} | {r['engine_ms']:.0f} ms | {r['torch_ms']:.0f} ms | {r['time_ratio']:.2f} | "
              f"{r['engine_tensor_MB']:.0f} MB | {r['torch_tensor_MB']:.0f} MB | {r['loss_difference']:.0e} |" for r in result["peers"]]
    lines += ["", "With Echo and without, bit by bit the same losses. Both run in turns of 25 ms, in which the other stands still, so "
              "that what slows the machine slows both; medians of the steps:", "",
              "| a training step | strategy | time | baseline's | ratio | recomputed, fused | arena | baseline's | peak |",
              "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    lines += [f"| {r['model']} | {r['strategy']} | {r['ms'] / 1e3:.1f} s | {r['baseline_ms'] / 1e3:.1f} s | {r['time_ratio']:.3f} | "
              f"{r['recomputed']}, {r['fused']} | {r['arena_MB']:.0f} MB | {r['baseline_arena_MB']:.0f} MB | "
              f"{100 * r['part']:.0f} % |" for r in result["strategies"]]
    lines += ["", "| bar | measured | asked | |", "|---|--:|--:|--:|"]
    lines += [f"| {b['bar']} | {b['value']:.4g} | {'≥' if b['limit'] >= FILLED else '≤'} {b['limit']:g} | "
              f"{'passed' if b['passed'] else '**failed**'} |" for b in result["bars"]]
    return "\n".join([*lines, "", END])


def write_readme():
    result = json.loads((ROOT / "bench" / "results" / "engine.json").read_text(encoding="utf-8"))
    results.put_section(ROOT / "docs" / "results" / "engine.md", section(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", help="engine-steps")
    parser.add_argument("python", nargs="?", help="a Python with PyTorch")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--readme", action="store_true")
    options = parser.parse_args()
    if options.readme:
        write_readme()
        return
    version = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip()
    peers, bars = compare_peers(options)
    strategies, more = compare_strategies(options)
    result = {"date": datetime.date.today().isoformat(), "machine": results.machine(), "torch": version, "bars": bars + more,
              "peers": peers, "strategies": strategies}
    results.table(result["bars"])
    if not options.quick:
        results.save("engine", result)


if __name__ == "__main__":
    main()
