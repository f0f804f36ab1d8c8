"""Baseline, MXNet's mirror and Echo: megabytes as MXNet prints them, gradients bit for bit."""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import sys
import time
from datetime import date
from pathlib import Path
from typing import Dict, List, Tuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums in one order, so that bits can be compared
sys.path.insert(0, str(Path(__file__).parent))

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import echo_mxnet  # noqa: E402
import models  # noqa: E402
import results  # noqa: E402

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402

ALLOCATED = re.compile(r"Total (\d+) MB allocated")


def bind(
    symbol: mx.sym.Symbol, model: models.Model, mirror: bool = False
) -> Tuple[mx.executor.Executor, int]:
    """The executor and the megabytes that MXNet allocates for it."""
    os.environ["MXNET_BACKWARD_DO_MIRROR"] = "1" if mirror else "0"
    wanted = {name: "null" if name in model.shapes else "write" for name in symbol.list_arguments()}
    executor = symbol.simple_bind(mx.cpu(), grad_req=wanted, **model.shapes)
    os.environ["MXNET_BACKWARD_DO_MIRROR"] = "0"
    return executor, int(ALLOCATED.search(executor.debug_str()).group(1))


def train(
    executor: mx.executor.Executor, steps: int, seed: int = 7
) -> Tuple[List[np.ndarray], float]:
    """What every step of plain SGD makes, and processor seconds of the fastest step."""
    random = np.random.RandomState(seed)
    for name, array in sorted(executor.arg_dict.items()):
        if name.endswith("label") or (
            name.endswith("data") and array.ndim == 2 and not name.startswith(("zero", "half"))
        ):
            array[:] = random.randint(0, 50, array.shape)
        elif name.startswith(("zero", "half")):
            array[:] = 0
        else:
            array[:] = random.normal(0, 0.05, array.shape)
    for name, array in executor.aux_dict.items():
        array[:] = 1 if name.endswith("var") else 0
    seen, fastest = [], float("inf")
    for _ in range(steps):
        start = resource.getrusage(resource.RUSAGE_SELF)
        executor.forward(is_train=True)
        executor.backward()
        mx.nd.waitall()
        end = resource.getrusage(resource.RUSAGE_SELF)
        fastest = min(fastest, end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
        seen.append(executor.outputs[0].asnumpy().copy())
        for name, gradient in sorted(executor.grad_dict.items()):
            if gradient is not None:
                seen.append(gradient.asnumpy().copy())
                executor.arg_dict[name][:] = executor.arg_dict[name] - 0.01 * gradient
        seen += [array.asnumpy().copy() for _, array in sorted(executor.aux_dict.items())]
    return seen, fastest


def compare(
    name: str, small: bool, steps: int, wishes: List[Dict[str, str]]
) -> List[Dict[str, object]]:
    """One row for the baseline, the mirror and each set of options."""
    model = models.MODELS[name](**(models.SMALL[name] if small else {}))
    rows: List[Dict[str, object]] = []
    reference: List[np.ndarray] = []
    ways = [("baseline", None), ("mirror", None)] + [("echo", options) for options in wishes]
    for way, options in ways:
        planning = time.process_time()
        symbol = (
            echo_mxnet.optimize(model.symbol, model.shapes, **options)
            if options is not None
            else model.symbol
        )
        planning = time.process_time() - planning
        executor, megabytes = bind(symbol, model, way == "mirror")
        row: Dict[str, object] = {
            "model": name,
            "way": way,
            "options": options or {},
            "megabytes": megabytes,
            "plan_seconds": round(planning, 2),
        }
        if steps > 0:
            seen, row["step_seconds"] = train(executor, steps)
            row["step_seconds"] = round(float(row["step_seconds"]), 3)
            reference = reference or seen
            row["same_bits"] = all(a.tobytes() == b.tobytes() for a, b in zip(reference, seen))
        rows.append(row)
        del executor
    return rows


def bars_of(rows: List[Dict[str, object]]) -> List[Dict[str, object]]:
    """What must hold of models of full size."""
    megabytes = {(row["model"], row["way"]): row["megabytes"] for row in rows if not row["options"]}
    steps = {row["model"]: row.get("step_seconds") for row in rows if row["way"] == "baseline"}
    held = {"rows whose bits differ": (sum(row.get("same_bits") is False for row in rows), 0)}
    for model, step in steps.items():
        of_mirror = megabytes[model, "echo"] / megabytes[model, "mirror"]
        held[f"{model}: megabytes, of its mirror's"] = (of_mirror, 0.999)
        if step:
            plans = [row["plan_seconds"] for row in rows if row["model"] == model]
            held[f"{model}: first plan, in steps"] = (max(plans) / step, 1)
    if "nmt" in steps:
        of_all = megabytes["nmt", "echo"] / megabytes["nmt", "baseline"]
        held["nmt: megabytes, of those without Echo"] = (of_all, 0.60)
    return [
        {"bar": f"MXNet, {bar}", "value": round(value, 4), "limit": limit, "passed": value <= limit}
        for bar, (value, limit) in held.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--models", default=",".join(models.MODELS))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--steps", type=int, default=1, help="0: megabytes alone")
    parser.add_argument("--budget", action="append", default=[])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    echo_mxnet.load(given.library)
    wishes = [{}] + [{"budget": budget} for budget in given.budget]
    rows = []
    print(
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} processors, "
        f"MXNet {mx.__version__}; step: processor seconds"
    )
    print(f"{'model':12} {'way':24} {'MB':>6} {'ratio':>6} {'bits':>5} {'step':>8} {'plan':>6}")
    for name in given.models.split(","):
        for row in compare(name, given.small, given.steps, wishes):
            rows.append(row)
            way = " ".join(
                [str(row["way"]), *(f"{k}={v}" for k, v in dict(row["options"]).items())]
            )
            base = next(r["megabytes"] for r in rows if r["model"] == name)
            bits = {True: "same", False: "DIFF", None: "-"}[row.get("same_bits")]
            print(
                f"{name:12} {way:24} {row['megabytes']:6} "
                f"{row['megabytes'] / max(base, 1):6.3f} {bits:>5} "
                f"{row.get('step_seconds', '-'):>8} {row['plan_seconds']:6}",
                flush=True,
            )
    bars = [] if given.small else bars_of(rows)
    if bars:
        results.table(bars)
    if given.json:
        given.json.write_text(
            results.as_text(
                {
                    "date": str(date.today()),
                    "machine": results.machine(),
                    "mxnet": mx.__version__,
                    "rows": rows,
                    "bars": bars,
                }
            ),
            encoding="utf-8",
        )
    wrong = [row for row in rows if row.get("same_bits") is False]
    return int(bool(wrong) or not all(bar["passed"] for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
