# SPDX-License-Identifier: BSL-1.0
"""Trains models under Inductor, alone and with Echo: inductor.py [MODEL…]

Models are those of examples/pytorch/trained.py, or those named, of zoo_models.py too. One model after the other, each in a process of its own with an empty cache of Inductor's. Peaks are MB (10^6 bytes) above
parameters and inputs, by the CPU allocator's own count; times are processor time, the median over pairs of steps."""
import datetime
import json
import math
import statistics
import sys
import textwrap
import time
import warnings

import results
import zoo
from bars import bar

PAGE = zoo.PAGE
PAIRS = 9
KEYS = ("model", "default_mb", "judged_default_mb", "echo_mb", "judged_mb", "time", "judged_time", "gradients", "same_bits",
        "compile", "note", "date")


def main():
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(row_of(sys.argv[2])))
        return 0
    MODELS, names = models()
    names = sys.argv[1:] or names
    if unknown := [name for name in names if name not in MODELS]:
        raise SystemExit(f"inductor: no model '{unknown[0]}': choose from {', '.join(MODELS)}")
    earlier = results.load("inductor") or {"rows": []}
    known = {row["model"]: row for row in earlier["rows"]}
    for name in names:
        row = zoo.in_own_process(name, __file__, KEYS)
        print(row, flush=True)
        known[name] = row
        rows = [known[name] for name in MODELS if name in known]
        import torch

        results.write("inductor", rows, bars=bars_of(rows), gain=mean_of(rows, gain), torch=torch.__version__)
        results.put_section(PAGE, section(results.load("inductor")))
    return 0


def models():
    """All models by name, and the names of those that are measured where none is named."""
    zoo.from_here()
    import trained
    import zoo_models

    return trained.MODELS | zoo_models.MODELS, list(trained.MODELS)


def row_of(name):
    """The row of one model."""
    MODELS, _ = models()
    import torch
    from measure import Training

    import echo_torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    def ready(backend):
        """A training that is compiled, its first gradients, the peak of a step and the seconds that compiling took."""
        with torch._inductor.utils.fresh_cache():
            training = Training(MODELS[name], backend)
            torch.manual_seed(2)
            begun = time.process_time()
            training.backward()
            took = time.process_time() - begun
            gradients = [p.grad.clone() for p in training.parameters if p.grad is not None]
            return training, gradients, training.train(2).peak, took

    torch.compile(torch.square)(torch.zeros(2))  # what a process does once
    default, expected, default_peak, default_took = ready("inductor")
    before = len(echo_torch.reports())
    echo, found, peak, took = ready("echo")
    reports = echo_torch.reports()[before:]
    pairs = []
    for _ in range(PAIRS):
        first = default.timed()
        pairs.append(echo.timed() / first)
    # Of all gradients together: those of a bias before a normalization are zero but for rounding.
    off = (math.hypot(*((a - b).norm().item() for a, b in zip(found, expected)))
           / math.hypot(*(b.norm().item() for b in expected)))
    report = reports[0] if len(reports) == 1 else None
    judged = report is not None and report.default_peak is not None
    values = (name, mb(default_peak), mb(report.default_peak) if judged else None, mb(peak),
              mb(report.best_peak) if judged else None, round(statistics.median(pairs), 3),
              round(1 + report.overhead, 3) if judged else None, off,
              all(torch.equal(a, b) for a, b in zip(found, expected)), round(took / default_took, 2),
              next((report.reason for report in reports if report.reason), "") or "", datetime.date.today().isoformat())
    return dict(zip(KEYS, values))


def mb(count):
    return round(count / 1e6, 4)


def gain(row):
    return row["default_mb"] / row["echo_mb"]


def mean_of(rows, value):
    """The geometric mean."""
    found = [value(row) for row in rows if row["echo_mb"]]
    return round(math.prod(found) ** (1 / max(len(found), 1)), 3)


def bars_of(rows):
    whole = [row for row in rows if row["echo_mb"]]
    compared = [row["gradients"] for row in whole if row["gradients"] is not None]
    off = [100 * abs(row[measured] / row[judged] - 1) for row in whole if row["judged_mb"]
           for measured, judged in (("default_mb", "judged_default_mb"), ("echo_mb", "judged_mb"))]
    return [
        bar("models that do not train", len(rows) - len(whole), 0),
        bar("models above Inductor's default", sum(row["echo_mb"] > 1.001 * row["default_mb"] for row in whole), 0),
        bar("default ÷ Echo, geometric mean", mean_of(rows, gain), 1.6, "≥"),
        bar("time of a step, geometric mean", mean_of(rows, lambda row: row["time"]), 1.06),
        bar("time of a step, the worst model", max((row["time"] for row in whole), default=1), 1.1),
        bar("measured from judged, the worst model, %", round(max(off, default=0), 3), 1),
        bar("models whose gradients are not compared", len(whole) - len(compared), 0),
        bar("gradients beside Inductor's, relative norm of all, the worst model", max(compared, default=1), 1e-6),
        bar("compiling beside Inductor, the worst model", max((row["compile"] for row in whole), default=1), 2),
    ]


def section(result):
    """The table of docs/pytorch/measurements.md."""
    rows = result["rows"]
    dates = sorted({row["date"] for row in rows if row["date"]})
    value = {each["bar"]: each["value"] for each in result["bars"]}
    told = (f"{len(rows)} models, PyTorch {result['torch'].partition('+')[0]}, measured on {' and '.join(dates)}. By default Echo "
            f"needs {result['gain']:.2f} × less than Inductor's default (geometric mean), at "
            f"{value['time of a step, geometric mean']:.3f} of its time. The measured peak lies at most "
            f"{value['measured from judged, the worst model, %']:.2g} % from the judged one.")
    lines = ["| model | default | judged | Echo | judged | ratio | time | judged | gradients | compiling |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        if not row["echo_mb"]:
            lines.append(f"| {row['model']} | {row['note']} |" + " |" * 8)
            continue
        sizes = ["-" if row[key] is None else f"{row[key]:,.1f}"
                 for key in ("default_mb", "judged_default_mb", "echo_mb", "judged_mb")]
        times = ["-" if row[key] is None else f"{row[key]:.3f}" for key in ("time", "judged_time")]
        compared = "-" if row["gradients"] is None else f"{row['gradients']:.0e}"
        same = "same bits" if row["same_bits"] else compared
        cells = [row["model"], *sizes, f"{gain(row):.2f}", *times, same, f"{row['compile']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(["<!-- table: bench/inductor -->", "", textwrap.fill(told, 120), "", *lines, "", results.END_OF_TABLE])


if __name__ == "__main__":
    sys.exit(main())
