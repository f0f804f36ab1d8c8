# SPDX-License-Identifier: BSL-1.0
"""Trains the models of zoo_models.py by PyTorch's default partition and by Echo's: zoo.py [MODEL…]

Each way of each model is three steps of training, two models at a time, every model in a process of its own. Peaks are
MB (10^6 bytes) above parameters and inputs, by the CPU allocator's own count; one is predicted where a model is one graph.
Times are not measured."""
import concurrent.futures
import datetime
import json
import math
import subprocess
import sys
import textwrap
import warnings

import results
from bars import bar

PAGE = results.ROOT / "docs" / "pytorch" / "measurements.md"
BUDGET = 0.4
SECONDS = 1200  # for one model
KEYS = ("model", "graphs", "nodes", "default_mb", "echo_mb", "predicted_mb", "least_mb", "same_bits", "note", "date")


def main():
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(trained(sys.argv[2])))
        return 0
    from_here()
    from zoo_models import MODELS

    names = sys.argv[1:] or list(MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        raise SystemExit(f"zoo: no model '{unknown[0]}': choose from {', '.join(MODELS)}")
    earlier = results.load("zoo") or {"rows": []}
    known = {row["model"]: row for row in earlier["rows"]}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row in pool.map(in_own_process, names):
            print(row, flush=True)
            known[row["model"]] = row
    rows = [known[name] for name in MODELS if name in known]
    import torch

    results.write("zoo", rows, bars=bars_of(rows), gain=gain_of(rows), torch=torch.__version__)
    results.put_section(PAGE, section(results.load("zoo")))
    return 0


def from_here():
    """Lets the modules of examples/pytorch be imported."""
    sys.path.insert(0, str(results.ROOT / "examples" / "pytorch"))


def in_own_process(name, program=__file__, keys=KEYS):
    def failed(why):
        return dict.fromkeys(keys) | {"model": name, "note": why}

    try:
        done = subprocess.run([sys.executable, program, "--one", name], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return failed(f"took more than {SECONDS} s")
    if done.returncode != 0:
        return failed(done.stderr.strip().rpartition("\n")[2][:120])
    return json.loads(done.stdout.strip().rpartition("\n")[2])


def trained(name):
    """The row of one model: the same steps by PyTorch's default partition, by Echo's default and within a budget."""
    from_here()
    import torch
    from measure import Training
    from zoo_models import MODELS

    import echo_torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    def steps(backend):
        torch._dynamo.reset()
        before = len(echo_torch.reports())
        result = Training(MODELS[name], backend).train(3)
        return result, echo_torch.reports()[before:]

    def mb(count):
        return None if count is None else round(count / 1e6, 4)

    default, _ = steps("aot_eager")
    echo, reports = steps(echo_torch.eager_backend())
    least, _ = steps(echo_torch.eager_backend(budget=BUDGET))
    same = default.digests == echo.digests == least.digests
    note = ""
    if not same and steps("aot_eager")[0].digests != steps("aot_eager")[0].digests:
        note, same = "other bits at every run, with Echo or without", None
    peaks = [report.default_peak if report.reason else report.peak for report in reports]
    values = (name, len(reports), sum(report.nodes for report in reports), mb(default.peak), mb(echo.peak),
              mb(peaks[0]) if len(peaks) == 1 else None, mb(least.peak), same,
              note or next((report.reason for report in reports if report.reason), "") or "",
              datetime.date.today().isoformat())
    return dict(zip(KEYS, values))


def bars_of(rows):
    whole = [row for row in rows if row["echo_mb"]]
    off = [100 * abs(row["echo_mb"] / row["predicted_mb"] - 1) for row in whole if row["predicted_mb"]]
    higher = [row for row in whole if max(row["echo_mb"], row["least_mb"]) > 1.001 * row["default_mb"]]
    return [
        bar("models whose losses, gradients and buffers are the same bits", sum(row["same_bits"] is True for row in whole),
            50, "≥"),
        bar("models where they are other bits", sum(row["same_bits"] is False for row in whole), 0),
        bar("models that do not train", len(rows) - len(whole), 0),
        bar("models above the default's peak", len(higher), 0),
        bar("measured from predicted, the worst model, %", round(max(off, default=0), 3), 3),
    ]


def gain_of(rows):
    """The geometric mean of how many times less memory Echo needs at its default."""
    times = [row["default_mb"] / row["echo_mb"] for row in rows if row["echo_mb"]]
    return round(math.prod(times) ** (1 / max(len(times), 1)), 3)


def section(result):
    """The table of docs/pytorch/measurements.md."""
    rows = result["rows"]
    one = sum(row["graphs"] == 1 for row in rows)
    worst = next(bar["value"] for bar in result["bars"] if bar["bar"].startswith("measured from predicted"))
    dates = sorted({row["date"] for row in rows if row["date"]})
    told = (f"{len(rows)} models, PyTorch {result['torch'].partition('+')[0]}, measured on {' and '.join(dates)}; a graph is "
            f"counted as often as it is compiled. Of the {one} that are one graph the measured peak lies at most {worst:.2g} % "
            f"from the predicted one. By default Echo needs {result['gain']:.2f} × less (geometric mean).")
    lines = ["| model | same bits | graphs | nodes | default | Echo | predicted | Echo, budget 0.4 |",
             "|---|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        cells = [row["model"], {True: "yes", False: "**no**", None: row["note"]}[row["same_bits"]]]
        cells += ["-" if row[key] is None else f"{row[key]:,}" for key in ("graphs", "nodes")]
        cells += ["-" if row[key] is None else f"{row[key]:,.1f}"
                  for key in ("default_mb", "echo_mb", "predicted_mb", "least_mb")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(["<!-- table: bench/zoo -->", "", textwrap.fill(told, 120), "", *lines, "", results.END_OF_TABLE])


if __name__ == "__main__":
    sys.exit(main())
