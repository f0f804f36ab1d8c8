#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What a newcomer sees first, from bench/results: models under Inductor (README.md), training in engines that others wrote
(docs/results/engines.md), and what the default saves on the committed graphs (docs/results/graphs.md). Prints the tables and
writes them into these pages."""
import pathlib
import textwrap

import results
from bars import measured
from results import ROOT, load

SHOWN = ("efficientnet_b4_b16", "gpt2_b8_t512", "llama_8x2048_b4_t512", "resnet152_b32", "nmt_b128_t50",
         "mnist, convolutions", "transformer", "LoRA on 8-bit weights, graph built anew",
         "bert", "densenet121", "gpt2", "resnet50", "seq2seq", "t5_small")


def buys():
    """What the default buys on some of the committed graphs, and what PyTorch's partitioner pays for as low a peak."""
    result, peers = load("default"), load("peers-torch")
    points = {pathlib.Path(model["graph"]).name.removesuffix(".json.gz"): model["points"] for model in peers["models"].values()}
    lines = ["| training step | peak without Echo | with Echo | ratio | recomputed, of a step | PyTorch's partitioner, for as low a peak |",
             "|---|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        if row["graph"] not in SHOWN:
            continue
        theirs = "not measured"
        if row["graph"] in points:
            within = [point["overhead"] for point in points[row["graph"]] if point["peak"] <= 1e6 * row["default MB"]]
            theirs = f"{100 * min(within):.1f} %" if within else "not reached"
        lines.append(f"| {row['graph']} | {row['baseline MB']:,.0f} MB | {row['default MB']:,.0f} MB | "
                     f"{row['baseline MB'] / row['default MB']:.2f} × | {row['default overhead %']:.1f} % | {theirs} |")
    return [measured(result, peers), "", *lines]


def inductor():
    """Peaks and times of models in PyTorch under Inductor, alone and with Echo; and eager, where that is measured."""
    result, pytorch = load("inductor"), load("pytorch")
    eager = {row["model"]: row["measured_mb"] for row in pytorch["rows"] if row["by"] == "eager"}
    told = (f"{measured(result)} PyTorch {result['torch'].partition('+')[0]}, one thread of a CPU. MB are 10^6 bytes at the peak of "
            "a training step above parameters and inputs, as the allocator counts them. Times are processor time, the median over "
            "pairs of steps; the machine was not idle. With Echo a step took at most "
            f"{100 * (max(row['time'] for row in result['rows'] if row['echo_mb']) - 1):.0f} % longer. "
            "Compiling is that of the first step; what it compiles is kept on disk.")
    lines = ["| model | Inductor alone | with Echo | alone ÷ with | time of a step, with ÷ alone | compiling, with ÷ alone | "
             "eager PyTorch |", "|---|--:|--:|--:|--:|--:|--:|"]
    lines += [f"| {row['model']} | {row['default_mb']:,.0f} MB | {row['echo_mb']:,.0f} MB | "
              f"{row['default_mb'] / row['echo_mb']:.2f} × | {row['time']:.2f} × | {row['compile']:.1f} × | "
              f"{eager[row['model']]:,.0f} MB |" for row in result["rows"] if row["model"] in eager]
    return [*lines, "", *textwrap.wrap(told, 120)]


def of_pytorch(result):
    by = {(row["model"], row["by"]): row for row in result["rows"]}
    return [(f"PyTorch {result['torch'].split('+')[0]}", model, row["measured_mb"], by[model, "Echo"]["measured_mb"],
             by[model, "Echo"]["time"], by[model, "Echo"]["same_bits"])
            for (model, kind), row in by.items() if kind == "default" and (model, "Echo") in by and model in SHOWN]


def of_ggml(result):
    rows = [("ggml", row["training"], row["buffer MB"], row["with Echo"], row["step"], row["same bits"])
            for row in result["rows"] if row["training"] in SHOWN]
    tuned = {row["llama-finetune"]: row for row in result["finetune"]}
    plain, echo = tuned["not fused"], tuned["not fused, Echo"]
    return [*rows, ("llama.cpp", "llama-finetune, unmodified", echo["before MB"], echo["buffer MB"], echo["s"] / plain["s"],
                    echo["sha256"] == plain["sha256"])]


def of_onnx(result):
    plain, planned = result["rows"][:2]
    return [(result["runtime"].replace("onnxruntime", "ONNX Runtime"), "a training step, " + planned["model"],
             plain["measured MB"], planned["measured MB"], planned["measured time"], planned["same bits"])]


def of_mxnet(result):
    by = {(row["model"], row["way"]): row for row in reversed(result["rows"])}  # those without options stand first
    return [(f"MXNet {result['mxnet']}", f"{model}; its own mirror: {by[model, 'mirror']['megabytes']:,} MB", row["megabytes"],
             by[model, "echo"]["megabytes"], by[model, "echo"]["step_seconds"] / row["step_seconds"], by[model, "echo"]["same_bits"])
            for (model, way), row in reversed(by.items()) if way == "baseline"]


def of_mlx(result):
    return [(f"MLX {result['mlx']}", row["model"], row["mlx MB"], row["echo MB"], row["echo s"] / row["mlx s"], row["same bits"])
            for row in result["rows"] if row["way"] == "as it comes"]


HOSTS = {"pytorch": of_pytorch, "ggml": of_ggml, "mxnet": of_mxnet, "mlx": of_mlx, "onnx": of_onnx}


def hosts():
    """Training in engines that others wrote: what they measured."""
    loaded = {name: result for name in HOSTS if (result := load(name)) is not None}
    lines = ["| engine | training | MB, without Echo | MB, with Echo | without ÷ with | time of a step, with ÷ without | same bits |", "|---|---|--:|--:|--:|--:|---|"]
    for name, result in loaded.items():
        lines += [f"| {engine} | {what} | {before:,.1f} | {after:,.1f} | {before / after:.2f} × | {time:.2f} × | "
                  f"{'yes' if same else '**no**'} |" for engine, what, before, after, time, same in HOSTS[name](result)]
    return [measured(*loaded.values()), "", *lines]


RESULTS = ROOT / "docs" / "results"
TABLES = {"inductor": (inductor, ROOT / "README.md"), "hosts": (hosts, RESULTS / "engines.md"),
          "buys": (buys, RESULTS / "graphs.md")}


def section(name):
    """One of the tables, as its page has it."""
    return "\n".join([f"<!-- table: bench/run {name} -->", "", *TABLES[name][0](), "", results.END_OF_TABLE])


def main():
    for name, (_, page) in TABLES.items():
        print(section(name))
        results.put_section(page, section(name))


if __name__ == "__main__":
    main()
