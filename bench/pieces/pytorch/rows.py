# SPDX-License-Identifier: BSL-1.0
"""Puts the rows of one model, as examples/pytorch/run wrote them, into bench/results/pytorch.json in the place of its
older ones, with the bars of the PyTorch package over all of them, and writes the table in docs/pytorch/measurements.md."""
import datetime
import json
import math
import statistics
import sys
import textwrap

import results

CONVOLUTIONAL = ("resnet50", "densenet121", "mobilenet_v3", "unet")
KEYS = ("model", "by", "predicted_mb", "measured_mb", "bound_mb", "predicted_time", "time", "same_bits", "note", "date",
        "own_share")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        told = json.load(file)
    earlier = results.load("pytorch") or {"date": None, "rows": []}
    known = {(row["model"], row["by"]): aged(row, earlier["date"]) for row in earlier["rows"]}
    known |= {(row["model"], row["mode"]): named(row) for row in told["rows"]}
    models = list(dict.fromkeys(model for model, _ in known))
    ways = list(dict.fromkeys(way for _, way in known))
    rows = [known[model, way] for model in models for way in ways if (model, way) in known]
    results.write("pytorch", rows, bars=bars_of(rows), torch=told["torch"], threads=told["threads"])
    results.put_section(results.ROOT / "docs" / "pytorch" / "measurements.md", section(results.load("pytorch")))


def named(row):
    """A row of the file; MB are 10^6 bytes."""
    def mb(key):
        return None if row[key] is None else round(row[key] / 1e6, 1)
    values = (row["model"], row["mode"], mb("predicted"), mb("measured"), mb("bound"),
              None if row["overhead"] is None else round(1 + row["overhead"], 3), row["time"], row["bits"], row["note"],
              datetime.date.today().isoformat(), round(row["own_share"], 4) if "own_share" in row else None)
    return dict(zip(KEYS, values))


def aged(row, date):
    """A row that stays, with the day that it is from."""
    if "predicted_overhead" in row:
        told = row.pop("predicted_overhead")
        row["predicted_time"] = None if told is None else round(1 + told, 3)
    row.setdefault("date", date)
    return {key: row[key] for key in KEYS}


def bars_of(rows):
    default = {row["model"]: row["measured_mb"] for row in rows if row["by"] == "default"}
    echo = [row for row in rows if row["by"].startswith("Echo") and row["measured_mb"]]
    own = [row for row in echo if row["by"] == "Echo"]
    gain = math.exp(statistics.fmean(math.log(default[row["model"]] / row["measured_mb"]) for row in own))
    timed = [row for row in own if row["time"]]
    ratios = [row["time"] / row["predicted_time"] for row in timed if row["predicted_time"]]
    return [
        bar("models", len(own), 10, at_least=True),
        bar("rows of Echo whose losses or gradients are other bits", sum(not row["same_bits"] for row in echo), 0),
        bar("measured from predicted, attention and recurrent models, %", off(echo, False), 1),
        bar("measured from predicted, convolutional models, %", off(echo, True), 3),
        bar("rows of Echo above the default's peak",
            sum(row["measured_mb"] > default[row["model"]] for row in echo), 0),
        bar("default ÷ Echo at its default, geometric mean", gain, 1.7, at_least=True),
        bar("time of Echo's default, mean over models", statistics.fmean(row["time"] for row in timed), 1.06),
        bar("time of Echo's default, the worst model", max(row["time"] for row in timed), 1.10),
        bar("Echo's own part of the time to the end of the first step, the worst model, %",
            100 * max(row["own_share"] for row in own), 5),
        {"bar": "measured ÷ predicted time, mean over models", "value": round(statistics.fmean(ratios), 3),
         "limit": None, "passed": None},
    ]


def section(result):
    """One line for each model: peaks in MB, and the time of a step beside the default partition's."""
    known = {(row["model"], row["by"]): row for row in result["rows"]}
    shares = [100 * row["own_share"] for row in result["rows"] if row["by"] == "Echo"]
    cores = result["machine"]["cores"]
    where = "one core" if cores == 1 else f"all {cores} cores"
    told = (f"PyTorch {result['torch'].partition('+')[0]}, {result['threads']} thread of an {result['machine']['cpu']}; "
            f"printed on {result['date']}. In a new process, on {where} and without measuring "
            f"costs, {min(shares):.1f} to {max(shares):.1f} % of the time to the end of the first step are Echo's own: reading "
            "the graph, planning it and building the two halves.")
    lines = ["| model | default | eager | its budget 0.5 | Echo | predicted | time | predicted | Echo 0.5 | predicted | time "
             "| predicted |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for model in dict.fromkeys(model for model, _ in known):
        its = known.get((model, "its budget 0.5"), {})
        wrong = "" if its.get("same_bits") or not its.get("measured_mb") else ", other bits"
        cells = [cell(known.get((model, way)), "measured_mb") for way in ("default", "eager", "its budget 0.5")]
        cells[-1] += wrong
        for way in ("Echo", "Echo 0.5"):
            row = known.get((model, way))
            cells += [cell(row, "measured_mb"), cell(row, "predicted_mb")]
            cells += [cell(row, key, ".2f") for key in ("time", "predicted_time")]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(["<!-- table: bench/pytorch -->", "", textwrap.fill(told, 120), "", *lines, "", results.END_OF_TABLE])


def cell(row, key, form=".1f"):
    return "-" if row is None else f"{row[key]:{form}}" if row[key] else "fails"


def off(rows, convolutional):
    return max(100 * abs(row["measured_mb"] / row["predicted_mb"] - 1) for row in rows
               if (row["model"] in CONVOLUTIONAL) == convolutional)


def bar(name, value, limit, at_least=False):
    return {"bar": name, "value": round(value, 3), "limit": limit,
            "passed": value >= limit if at_least else value <= limit}


if __name__ == "__main__":
    main()
