#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Every bar of speed, arena, laws, limits and defaults beside what was measured, and what fused recomputation saves, from
bench/results: prints the tables, and writes them between the lines `<!-- table: bench/run … -->` and the next
`<!-- end of table -->`: what the default buys into README.md, the others into docs/results. The bars against peers have a
page of their own (bench/peers)."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end of table -->"


def load(name):
    file = ROOT / "bench" / "results" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def bar(what, value, limit):
    return {"bar": what, "value": value, "limit": limit, "passed": value <= limit}


def counters(result, benchmark):
    """What a row of Google Benchmark counted, as numbers, with its `ms`."""
    row = next(row for row in result["rows"] if row["benchmark"].startswith(benchmark))
    return {key: float(value) for key, value in (pair.split("=") for pair in (row["counters"] or "").split())} | {"ms": row["ms"]}


def of_arena(result):
    hard = {limit: counters(result, f"hard/echo_{limit}/all")["geomean"] for limit in ("5s", "0.2s")}
    own = counters(result, "graphs/echo_0.2s/all")
    best = min(counters(result, f"graphs/{peer}/all")["mean_waste_ppm"]
               for peer in ("size_first_fit", "size_best_fit", "xla_decreasing_size", "tvm_hill_climb"))
    return [bar("arena over bound, challenging set A-K, 5 s each, geometric mean", hard["5s"], 1.012),
            bar("the same, 0.2 s each", hard["0.2s"], 1.09),
            bar("arena over bound, plans of all committed graphs, 0.2 s, worst", 1 + own["worst_waste_ppm"] / 1e6, 1.002),
            bar("their mean waste over that of the best greedy planner", own["mean_waste_ppm"] / best, 0.5)]


def of_plan_memory(result):
    worst = max(row["ms"] for row in result["rows"] if row["size"] == 60000)
    return [bar("60,000 buffers at limit 0, ms", worst, 300)]


SOURCES = {"scaling": lambda result: result["bars"], "arena": of_arena, "plan_memory": of_plan_memory,
           "laws": lambda result: result["bars"], "regret": lambda result: result["bars"],
           "default": lambda result: result["bars"]}


def measured(*loaded):
    """When and where."""
    dates = {f"{result['date']} on {result['machine']['cores']} cores of an {result['machine']['cpu']}" for result in loaded
             if "cores" in result["machine"]}
    return f"Measured on {', and on '.join(sorted(dates))}."


def bars():
    lines = ["| bar | measured | asked | |", "|---|--:|--:|--:|"]
    loaded = {name: result for name in SOURCES if (result := load(name)) is not None}
    for name, result in loaded.items():
        for one in SOURCES[name](result):
            sign = "≥" if one["limit"] >= 1_000_000 else "≤"
            lines.append(f"| {one['bar']} | {one['value']:,.6g} | {sign} {one['limit']:,g} | "
                         f"{'passed' if one['passed'] else '**failed**'} |")
    return [measured(*loaded.values()), "", *lines]


def fused():
    result = load("fused")
    if result is None:
        return ["Not measured yet."]
    lines = ["| graph | peak MB | fused | overhead % | fused | recomputed | of them fused | not written MB |",
             "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        lines.append(f"| {row['graph']} | {row['peak MB']:,.1f} | {row['fused peak MB']:,.1f} | {row['overhead %']:.2f} | "
                     f"{row['fused overhead %']:.2f} | {row['recomputed']} | {row['fused']} | {row['not written MB']:,.1f} |")
    return [measured(result), "", *lines]


def buys():
    """What the default buys on some of the committed graphs, and what PyTorch's partitioner pays for as low a peak."""
    result, peers = load("default"), load("peers-fronts")
    points = {pathlib.Path(row["graph"]).name.removesuffix(".json.gz"): row["points"] for row in peers["rows"]}
    lines = ["| training step | without Echo | with Echo | ratio | recomputed | PyTorch's partitioner, as low |",
             "|---|--:|--:|--:|--:|--:|"]
    for row in result["rows"]:
        if row["graph"] not in SHOWN:
            continue
        theirs = "not measured"
        if row["graph"] in points:
            within = [point["torch"] for point in points[row["graph"]] if point["peak"] <= 1e6 * row["default MB"]]
            theirs = f"{100 * min(within):.1f} %" if within else "not reached"
        lines.append(f"| {row['graph']} | {row['baseline MB']:,.0f} MB | {row['default MB']:,.0f} MB | "
                     f"{row['baseline MB'] / row['default MB']:.2f} × | {row['default overhead %']:.1f} % | {theirs} |")
    return [measured(result, peers), "", *lines]


def of_pytorch(result):
    by = {(row["model"], row["by"]): row for row in result["rows"]}
    return [(f"PyTorch {result['torch'].split('+')[0]}", model, row["measured_mb"], by[model, "Echo"]["measured_mb"],
             by[model, "Echo"]["time"], by[model, "Echo"]["same_bits"])
            for (model, kind), row in by.items() if kind == "default" and (model, "Echo") in by]


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


HOSTS = {"pytorch": of_pytorch, "ggml": of_ggml, "mxnet": of_mxnet, "onnx": of_onnx}


def hosts():
    """Inside engines that others wrote: what they measured."""
    loaded = {name: result for name in HOSTS if (result := load(name)) is not None}
    lines = ["| engine | training | MB, without | MB, with Echo | ratio | time of a step | same bits |", "|---|---|--:|--:|--:|--:|---|"]
    for name, result in loaded.items():
        lines += [f"| {engine} | {what} | {before:,.1f} | {after:,.1f} | {before / after:.2f} × | {time:.2f} × | "
                  f"{'yes' if same else '**no**'} |" for engine, what, before, after, time, same in HOSTS[name](result)]
    return [measured(*loaded.values()), "", *lines]


SHOWN = ("efficientnet_b4_b16", "gpt2_b8_t512", "llama_8x2048_b4_t512", "resnet152_b32", "nmt_b128_t50",
         "mnist, convolutions", "transformer", "LoRA on 8-bit weights, graph built anew")
PLACES = {"hosts": (hosts, "README.md"), "buys": (buys, "README.md"), "bars": (bars, "docs/results/bars.md"), 
          "fused": (fused, "docs/results/fused.md")}


def main():
    for name, (make, place) in PLACES.items():
        file = ROOT / place
        text = file.read_text(encoding="utf-8")
        mark = f"<!-- table: bench/run {name} -->"
        begin = text.find(mark)
        end = text.find(END, begin)
        if begin < 0 or end < 0:
            sys.exit(f"{place} holds no line '{mark}' with '{END}' behind it")
        section = "\n".join([mark, "", *make(), "", END])
        print(section)
        file.write_text(text[:begin] + section + text[end + len(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
