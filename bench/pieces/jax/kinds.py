# SPDX-License-Identifier: BSL-1.0
"""Steps of many kinds as JAX compiles them for this CPU with the scheduler for memory, and as Echo rewrites them.

    python3 kinds.py FILE [STEP…]

Rows are added to FILE as they come, in place of those of the same step. Ends with 1 where a step needs more than before.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples" / "jax"), str(ROOT / "tests" / "jax")]
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax  # noqa: E402
import results  # noqa: E402
from steps import CASES  # noqa: E402


def main(file: pathlib.Path, names: list[str]) -> int:
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": []}
    above = []
    for name in names or CASES:
        begun = time.monotonic()
        judged = CASES[name]().judged()
        decision = judged.decision
        row = {
            "step": name,
            "before MB": (decision.before or judged.stated) / 1e6,
            "after MB": judged.stated / 1e6,
            "overhead": float(f"{decision.overhead:.4g}"),
            "differs": float(f"{judged.differs:.2g}"),
            "reason": decision.reason,
            "seconds": round(time.monotonic() - begun),
        }
        print(row, flush=True)
        above += [name] if judged.stated > (decision.before or judged.stated) else []
        order = list(CASES)
        rows = [each for each in told["rows"] if each["step"] != name and each["step"] in order] + [row]
        told |= {"date": datetime.date.today().isoformat(), "machine": results.machine(), "jax": jax.__version__}
        told["rows"] = sorted(rows, key=lambda each: order.index(each["step"]))
        file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"above what they were: {', '.join(above) or 'none'}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
