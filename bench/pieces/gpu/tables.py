#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The section of a page about a GPU, from gpu.json: tables.py prints it, tables.py --readme FILE writes it into FILE between
the line `<!-- table: bench/gpu -->` and the next `<!-- end of table -->`. Without results it says that there are none."""
import json
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"
sys.path.append(str(RESULTS.parent))

import results  # noqa: E402

BEGIN, END = "<!-- table: bench/gpu -->", results.END_OF_TABLE
NAMES = {"nmt": "NMT", "transformer": "Transformer", "ds2": "DeepSpeech2", "resnet": "ResNet-152", "resnet50": "ResNet-50"}
# Of the paper: footprint of the baseline over Echo's.
PAPER_RATIO = {"nmt": 3.13, "transformer": 1.59, "ds2": 1.56, "resnet": 2.13}
TIME = {("nmt", "echo"): 1.01, ("nmt", "fused"): 0.85, ("transformer", "echo"): 1.05, ("resnet", "echo"): 1.05}
NEAR = 0.03
CLASSES = ("matrix products", "convolutions", "element by element", "sums and softmax", "data movement", "optimizer")


def kernel_class(op):
    if op.startswith(("fully_connected", "batch_dot")):
        return "matrix products"
    if op.startswith("convolution"):
        return "convolutions"
    if op in ("sgd", "adam", "clip_factor", "update_statistics"):
        return "optimizer"
    if op in ("split", "concat", "transpose", "tile", "tile_gradient", "repeat", "fill", "causal_bias") or op.startswith(("sequence", "embedding")):
        return "data movement"
    if op.startswith(("softmax", "ctc", "batch_", "reduce", "pooling", "count_nonzero")):
        return "sums and softmax"
    return "element by element"


def of_plan(result, model, plan):
    return next((row for row in result["models"].get(model, ()) if row["plan"] == plan), None)


def largest(result, model, plan, wall):
    return next((row for row in result["batches"] if row["largest"] and (row["model"], row["plan"], row["wall"]) == (model, plan, wall)), None)


def bar(what, value, sense, limit):
    passed = None if value is None else value <= limit if sense == "≤" else value >= limit
    return {"bar": what, "value": value, "sense": sense, "limit": limit, "passed": passed}


def bars(result):
    """Each bar with what was measured for it; no value where nothing was."""
    made = []
    for (model, plan), limit in TIME.items():
        row = of_plan(result, model, plan)
        made.append(bar(f"{NAMES[model]}, {plan}: time of a step over the baseline's", row and row["time_ratio"], "≤", limit))
    for model, limit in PAPER_RATIO.items():
        made.append(bar(f"{NAMES[model]}, echo: baseline's footprint over its own, by the driver", footprint_ratio(result, model, "echo"), "≥", limit))
    for model, rows in result["models"].items():
        if not rows:
            continue
        made.append(bar(f"{NAMES[model]}: bytes of arenas beyond their predictions, all plans",
                        sum(abs(row["arena_bytes"] - row["planned_arena_bytes"]) for row in rows), "≤", 0))
        far = [abs(row["driver_bytes"] / (row["arena_bytes"] + row["resident_bytes"]) - 1) for row in rows if row["driver_bytes"] is not None]
        made.append(bar(f"{NAMES[model]}: driver beside the prediction without context, worst plan", max(far) if far else None, "≤", NEAR))
        made.append(bar(f"{NAMES[model]}: plans with other losses than the baseline", sum(not row["same_losses"] for row in rows), "≤", 0))
    for wall in dict.fromkeys(row["wall"] for row in result["batches"] if row["largest"]):
        for model in dict.fromkeys(row["model"] for row in result["batches"] if row["wall"] == wall):
            base = largest(result, model, "baseline", wall)
            best = [row["samples_per_s"] for row in result["batches"] if row["largest"] and (row["model"], row["wall"]) == (model, wall) and row["plan"] != "baseline"]
            if base and best:
                made.append(bar(f"{NAMES[model]}, {wall}: throughput at the largest batch over the baseline's at its own",
                                max(best) / base["samples_per_s"], "≥", 1))
    return made


def footprint_ratio(result, model, plan):
    base, row = of_plan(result, model, "baseline"), of_plan(result, model, plan)
    if not base or not row or base["footprint_bytes"] is None or row["footprint_bytes"] is None:
        return None
    return base["footprint_bytes"] / row["footprint_bytes"]


def mib(value):
    return "–" if value is None else f"{value / 2**20:,.0f}" if value >= 2**24 else f"{value / 2**20:.2f}"


def number(value, form="{:.3g}", unit=""):
    return "–" if value is None else form.format(value) + unit


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|" + "|".join("---" if k == 0 else "--:" for k in range(len(head))) + "|",
            *(f"| {' | '.join(cells)} |" for cells in rows)]


def of_bars(result):
    rows = [(one["bar"], number(one["value"], "{:.4g}"), f"{one['sense']} {one['limit']:g}",
             {True: "passed", False: "**failed**", None: "not measured"}[one["passed"]]) for one in result["bars"]]
    return table(("bar", "measured", "asked", ""), rows)


def of_models(result):
    rows = []
    for model, all_rows in result["models"].items():
        for row in all_rows:
            ratio = footprint_ratio(result, model, row["plan"])
            paper = f"{PAPER_RATIO[model]:.2f}×" if row["plan"] == "echo" and model in PAPER_RATIO else ""
            rows.append((f"{NAMES[model]}, {row['batch']}", row["plan"], mib(row["peak_bytes"]), mib(row["arena_bytes"]), mib(row["resident_bytes"]),
                         mib(row["driver_bytes"]), number(ratio, "{:.2f}", "×"), paper, f"{row['ms']:.1f}", f"{row['time_ratio']:.3f}",
                         f"{row['samples_per_s']:.1f}", number(row["watts"], "{:.0f}"), number(row["joules_per_step"], "{:.1f}"),
                         "yes" if row["same_losses"] else "**no**"))
    lines = ["Steps in turns with the baseline's, medians. Peak, arena, residents (parameters, gradients, optimizer state, data) and what the driver "
             "says was taken for them, in MiB; `smaller` is the baseline's footprint by the driver, context and libraries included, over the plan's:", ""]
    lines += table(("model, batch", "plan", "peak", "arena", "residents", "driver", "smaller", "paper", "ms", "over baseline", "samples/s", "W", "J a step", "same losses"), rows)
    return [*lines, "", "The paper (RTX 2080 Ti): NMT at batch 128 has 1,192 samples/s, 983 with Mirror, about 1 % less than the baseline with Echo, and 33 % more "
            "where the recomputation was fused by hand; footprints of 10.0, 7.4 and 3.2 GB. DeepSpeech2 loses at most 2 %."]


def of_fused(result):
    rows = []
    for model in result["models"]:
        row = of_plan(result, model, "fused")
        if row:
            ops = ", ".join(f"{count} {name}" for name, count in sorted(row["fused_ops"].items(), key=lambda item: -item[1]))
            rows.append((NAMES[model], str(row["fused_nodes"]), ops or "none", mib(row["fused_bytes_not_moved"])))
    if not rows:
        return []
    return ["What runs inside its readers in the plan `fused`, and how many MiB less a step reads and writes for it:", "",
            *table(("model", "nodes", "of them", "not moved"), rows)]


def of_profiles(result):
    lines = []
    rows = []
    for model, all_rows in result["models"].items():
        for row in all_rows:
            if "profile" not in row:
                continue
            by = dict.fromkeys(CLASSES, 0.0)
            for op, spent in row["profile"]["ops"].items():
                by[kernel_class(op)] += spent["us"]
            total = sum(by.values())
            if total > 0:
                rows.append((NAMES[model], row["plan"], f"{total / 1e3:.1f}", *(f"{100 * by[name] / total:.0f}" for name in CLASSES)))
    if rows:
        lines += ["Where the time goes, kernel by kernel (each waited for, so that a step is slower), % by class (paper: half of NMT's in fully-connected layers):", "",
                  *table(("model", "plan", "ms", *CLASSES), rows)]
    rows = []
    for model in result["models"]:
        row = of_plan(result, model, "baseline")
        if not row or "profile" not in row:
            continue
        by = {name: sum(spent.values()) for name, spent in row["profile"]["layers"].items()}
        total = sum(by.values())
        top = sorted(by.items(), key=lambda item: -item[1])[:6]
        if total > 0:
            rows.append((NAMES[model], ", ".join(f"{name} {100 * us / total:.0f} %" for name, us in top)))
    if rows:
        lines += ["", "By layer, baseline:", "", *table(("model", "layers that take most"), rows)]
    return lines


def of_batches(result):
    if not result["batches"]:
        return []
    rows = [(NAMES[row["model"]], row["plan"], row["wall"], f"{row['batch']}{', the largest' if row['largest'] else ''}", f"{row['ms']:.1f}",
             f"{row['samples_per_s']:.1f}", mib(row["predicted_bytes"]), mib(row["driver_bytes"])) for row in result["batches"]]
    return ["Throughput against batch (paper: NMT with Echo at 256 has 1.27 times the baseline's throughput at 128, its largest; DeepSpeech2 at 32 has 1.3 times that at "
            "24; ResNet-50 saturates from 32):", "", *table(("model", "plan", "within", "batch", "ms", "samples/s", "predicted MiB", "driver MiB"), rows)]


def of_learning(result):
    if not result["learning"]:
        return []
    rows = [(row["plan"], str(row["batch"]), f"{row['wanted']:g}", f"{row['loss']:.3f}", str(row["steps"]),
             f"{row['seconds']:.1f}" if row["reached"] else f"not in {row['seconds']:.0f}", number(row["joules"], "{:.0f}")) for row in result["learning"]]
    return ["Time and energy to a fixed loss, NMT on its generated task (paper: 1.56 times faster to the same BLEU at twice the batch with fused recomputation; 65 % less energy "
            "than four GPUs with one):", "", *table(("plan", "batch", "loss asked", "reached", "steps", "s", "J"), rows)]


def of_torch(result):
    if not result["torch"]:
        return []
    rows = [(row["model"], str(row["batch"]), f"{row['ms']:.1f}", mib(row["bytes"]), number(row.get("engine_ms"), "{:.1f}")) for row in result["torch"]]
    return [f"PyTorch {result['torch'][0]['version']}, eager, without TF32, beside the engine's baseline:", "",
            *table(("step", "batch", "PyTorch, ms", "PyTorch, MiB at most", "engine, ms"), rows)]


def section(result):
    if result is None:
        return "\n".join([BEGIN, "", "**No card yet.** `bench/gpu` waits for one, and writes its tables here.", "", END])
    card = result["card"]
    clocks = [row["busy_clock_MHz"] for rows in result["models"].values() for row in rows if row["busy_clock_MHz"] is not None]
    clock = f"{min(clocks)} to {max(clocks)} MHz in steps" if clocks else "clock unknown"
    where = (f"The host proof of bench/gpu ({result['machine']['cpu']}): figures say nothing of a GPU." if result["host"] else
             f"{card['device']}, driver {card.get('driver') or 'of unknown version'}, {clock}, memory "
             f"{number(card.get('memory_clock_MHz'), '{:.0f}', ' MHz')}; {result['date']}; {result['seconds']:.0f} s in all. Power: {card['power']}.")
    if not result["host"]:
        where += (" Context and libraries take " + mib(card.get("context_bytes")) + " MiB" +
                  (", as nvidia-smi shows it." if card["nvidia_smi"] else "; there is no nvidia-smi, so that the context itself is not in it."))
        if (card["used_before_bytes"] or 0) > 2**30:
            where += f" Others held {mib(card['used_before_bytes'])} MiB of the card at first."
    lines = [BEGIN, "", where]
    for part in (of_bars, of_models, of_fused, of_profiles, of_batches, of_learning, of_torch):
        made = part(result)
        if made:
            lines += ["", *made]
    if result["left_out"]:
        lines += ["", "Left out:", "", *(f"- {one['what']}: {one['why']}" for one in result["left_out"])]
    return "\n".join([*lines, "", END])


def main():
    file = RESULTS / "gpu.json"
    text = section(json.loads(file.read_text(encoding="utf-8")) if file.exists() else None)
    if sys.argv[1:2] != ["--readme"]:
        print(text)
        return
    results.put_section(pathlib.Path(sys.argv[2]), text)


if __name__ == "__main__":
    main()
