#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The lines that the benchmarks of bench/cuda print, as a table beside their bars, and as bench/results/cuda.json.

    report.py LINES

1 where a bar is not met, or nothing was measured for one. The bars are for a Hopper GPU and tensors of 64 MiB and more.
"""
import datetime
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEAST = 64 << 20  # bytes of the tensor

# Which rows a bar is for: benchmark, the beginning of the name, against what; then what to reach.
BARS = (
    ("one_bit", "encode", "copy", ">=", 0.95),
    ("one_bit", "relu_forward", "copy", ">=", 0.95),
    ("one_bit", "dropout_forward", "copy", ">=", 0.95),
    ("one_bit", "dropout_backward", "copy", ">=", 0.95),
    ("relu_backward", "from one bit", "the version that reads the map", ">=", 1.35),
    ("fused", "tanh(query + keys)", "stashed map", "<=", 1.05),  # both move the same bytes, but for the queries
    ("fused", "tanh(query + shared keys)", "stashed map", "<=", 1.0),
    ("jit", "first use", "", "<=", 1.0),  # s
    ("jit", "a later launch", "a plain launch", "<=", 10.0),  # µs more
)


def bar_of(row):
    """The bar that the row is for, of BARS; None if it is for none. Rows without a tensor say 0 bytes."""
    if 0 < row["bytes"] < LEAST:
        return None
    return next((bar for bar in BARS
                 if row["benchmark"] == bar[0] and row["name"].startswith(bar[1]) and row["against"] == bar[2]), None)


def main(file):
    lines = [json.loads(line) for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if "benchmark" in line]
    cards = [line for line in lines if "card" in line]
    missed, measured = [], set()
    for row in rows:
        row["bar"] = row["met"] = None
        if bar := bar_of(row):
            sense, value = bar[3:]
            row["bar"] = f"{sense} {value}"
            row["met"] = row["value"] >= value if sense == ">=" else row["value"] <= value
            measured.add(bar)
            if not row["met"]:
                missed.append(row)
    unmeasured = [bar for bar in BARS if bar not in measured]

    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    result = {"date": datetime.date.today().isoformat(), "card": cards[-1] if cards else None, "clocks": cards,
              "compiler": next((line for line in nvcc if "release" in line), ""), "rows": rows}
    target = ROOT / "bench" / "results" / "cuda.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    for row in rows:
        size = f"{row['bytes'] / 2**20:.0f} MiB" if row["bytes"] else ""
        verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
        print(f"{row['benchmark']:14} {row['name']:36} {row['type']:9} {size:>9} {row['value']:9.3f} {row['quantity']}"
              f" ({row['milliseconds']:.4f} ms; {row['against']} {row['against_milliseconds']:.4f} ms)"
              f" {row['bar'] or ''} {verdict}".rstrip())
    for benchmark, name, against, sense, value in unmeasured:
        print(f"{benchmark}, {name}, against {against or 'nothing'}: {sense} {value} was NOT MEASURED")
    print(f"{len(rows)} figures, {len(missed)} below their bars, {len(unmeasured)} bars not measured; "
          f"written to {target.relative_to(ROOT)}")
    return 1 if missed or unmeasured else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
