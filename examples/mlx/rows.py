# SPDX-License-Identifier: BSL-1.0
"""What `compare` measures in each of the ways to run MLX, with the bars that must hold, as JSON with date and machine.
Ends with 1 where a bar does not hold.

    python3 rows.py COMPARE FILE
"""
import datetime
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import results  # noqa: E402

WAYS = {"as it comes": ["--steps", "3"], "with a memory limit": ["--wait"], "step by step": ["--each"],
        "without `depends`": ["--unordered"]}


def bars_of(rows):
    """By the rows of MLX as it comes, and by all that keep Echo's order."""
    plain = [row for row in rows if row["way"] == "as it comes"]
    ordered = [row for row in rows if row["way"] != "without `depends`"]
    bars = {"rows whose bits differ": (sum(not row["same bits"] for row in rows), 0),
            "peak with Echo, of MLX's": (max(row["echo MB"] / row["mlx MB"] for row in ordered), 0.95),
            "first plan, in steps": (max(row["plan s"] / row["mlx s"] for row in plain), 1),
            "plan found again, % of a step": (max(row["found %"] for row in plain), 2)}
    return [{"bar": f"MLX: {name}", "value": round(value, 4), "limit": limit, "passed": value <= limit}
            for name, (value, limit) in bars.items()]


def main(compare, file):
    rows = []
    for way, options in WAYS.items():
        out = subprocess.run([compare, "--json", *options], check=True, stdout=subprocess.PIPE, text=True).stdout
        rows += [{"way": way} | json.loads(line) for line in out.splitlines()]
    bars = bars_of(rows)
    made = {"date": datetime.date.today().isoformat(), "machine": results.machine(), "mlx": "0.32.4", "rows": rows,
            "bars": bars}
    pathlib.Path(file).write_text(results.as_text(made), encoding="utf-8")
    results.table(rows)
    results.table(bars)
    return int(any(not bar["passed"] for bar in bars))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
