# SPDX-License-Identifier: BSL-1.0
"""Writes bench/results/pytorch.json from the rows of examples/pytorch/run, with the bars of the PyTorch package, and the
table in examples/pytorch/README.md."""
import json
import math
import statistics
import sys

import results

CONVOLUTIONAL = ("resnet50", "densenet121", "mobilenet_v3", "unet")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        told = json.load(file)
    measured = told["rows"]
    echo = [row for row in measured if row["mode"].startswith("Echo") and row["measured"]]
    default = {row["model"]: row["measured"] for row in measured if row["mode"] == "default"}
    own = [row for row in echo if row["mode"] == "Echo"]
    gain = math.exp(statistics.fmean(math.log(default[row["model"]] / row["measured"]) for row in own))
    rows = [{
        "model": row["model"],
        "by": row["mode"],
        "predicted_mb": None if row["predicted"] is None else round(row["predicted"] / 1e6, 1),
        "measured_mb": None if row["measured"] is None else round(row["measured"] / 1e6, 1),
        "bound_mb": None if row["bound"] is None else round(row["bound"] / 1e6, 1),
        "time": row["time"],
        "predicted_overhead": None if row["overhead"] is None else round(row["overhead"], 3),
        "same_bits": row["bits"],
        "note": row["note"],
    } for row in measured]
    times = {row["model"]: row["time"] for row in own}
    bars = [
        bar("rows of Echo whose losses or gradients are other bits", sum(not row["bits"] for row in echo), 0),
        bar("measured from predicted, attention and recurrent models, %", off(echo, False), 1),
        bar("measured from predicted, convolutional models, %", off(echo, True), 3),
        bar("rows of Echo above the default's peak", sum(row["measured"] > default[row["model"]] for row in echo), 0),
        bar("default ÷ Echo at its default, geometric mean", gain, 1.7, at_least=True),
        bar("time of Echo's default, mean over models", statistics.fmean(times.values()), 1.06),
        bar("time of Echo's default, the worst model", max(times.values()), 1.10),
    ]
    results.write("pytorch", rows, bars=bars, torch=told["torch"], threads=told["threads"])
    written = json.loads((results.ROOT / "bench" / "results" / "pytorch.json").read_text(encoding="utf-8"))
    results.put_section(results.ROOT / "examples" / "pytorch" / "README.md", section(written))


def section(result):
    """One line for each model: peaks in MB, and the time of a step beside the default partition's."""
    modes = ("eager", "its budget 0.5", "Echo", "Echo 0.5")
    rows = {(row["model"], row["by"]): row for row in result["rows"]}
    lines = ["| model | default | eager | its budget 0.5 | Echo | predicted | time | Echo 0.5 | predicted | time |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for model in dict.fromkeys(row["model"] for row in result["rows"]):
        default, eager, its, echo, half = (rows[model, mode] for mode in ("default", *modes))
        wrong = "" if its["same_bits"] or not its["measured_mb"] else ", other bits"
        cells = [peak(default), peak(eager), peak(its) + wrong]
        for row in (echo, half):
            cells += [peak(row), peak(row, "predicted"), f"{row['time']:.2f}"]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    told = (f"Printed on {result['date']}, PyTorch {result['torch'].partition('+')[0]}, {result['threads']} thread of an "
            f"{result['machine']['cpu']}.")
    return "\n".join(["<!-- table: bench/pytorch -->", "", told, "", *lines, "", results.END_OF_TABLE])


def peak(row, key="measured"):
    return f"{row[f'{key}_mb']:.1f}" if row[f"{key}_mb"] else "fails"


def off(rows, convolutional):
    return max(100 * abs(row["measured"] / row["predicted"] - 1) for row in rows
               if (row["model"] in CONVOLUTIONAL) == convolutional)


def bar(name, value, limit, at_least=False):
    return {"bar": name, "value": round(value, 3), "limit": limit,
            "passed": value >= limit if at_least else value <= limit}


if __name__ == "__main__":
    main()
