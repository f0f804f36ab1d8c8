# SPDX-License-Identifier: BSL-1.0
"""What `compare` measures in each of the three ways to run MLX, as JSON with date and machine.

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

WAYS = {"as it comes": [], "with a memory limit": ["--wait"], "step by step": ["--each"]}


def main(compare, file):
    rows = []
    for way, options in WAYS.items():
        out = subprocess.run([compare, "--json", *options], check=True, stdout=subprocess.PIPE, text=True).stdout
        rows += [{"way": way} | json.loads(line) for line in out.splitlines()]
    made = {"date": datetime.date.today().isoformat(), "machine": results.machine(), "mlx": "0.32.4", "rows": rows}
    pathlib.Path(file).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    results.table(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
