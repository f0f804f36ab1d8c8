"""Trains models eagerly, by PyTorch's partitions and by Echo's, and prints what each needs:
measured here and now.

MB are 10^6 bytes at the peak of a step above parameters and inputs, its gradients included: as the
plan predicts and as the allocator counts. `time` is that of a step beside the default partition's:
processor time, the median of pairs; `planned` is what the plan says of it. `bits`: whether losses,
gradients and buffers of all steps are the same bits as the default partition's.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import statistics
import sys
import warnings
from typing import Any

import torch
from measure import Trained, Training
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from trained import MODELS

import echo_torch

FEW = ("bert", "densenet121", "seq2seq")


def pytorchs(budget: float) -> Any:
    """The backend "aot_eager" with a memory budget of PyTorch's own; 1.0 is its default partition."""

    def divide(*args: Any, **options: Any) -> Any:
        with functorch_config.patch(activation_memory_budget=budget):
            return min_cut_rematerialization_partition(*args, **options)

    return aot_autograd(fw_compiler=boxed_nop, partition_fn=divide, keep_inference_input_mutations=True)


def modes(budgets: list[float]) -> dict[str, Any]:
    own = {f"Echo {budget}": functools.partial(echo_torch.eager_backend, budget=budget) for budget in budgets}
    return {
        "default": lambda: pytorchs(1.0),
        "eager": lambda: None,
        "its budget 0.5": lambda: pytorchs(0.5),
        "Echo": echo_torch.eager_backend,
        **own,
    }


def rows_of(name: str, device: str, steps: int, pairs: int, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each of the wanted ways to train the model, the default first."""
    torch._dynamo.reset()
    trainings: dict[str, Training] = {}
    rows: dict[str, dict[str, Any]] = {}
    expected = Trained()
    for mode, backend in wanted.items():
        before = len(echo_torch.reports())
        row: dict[str, Any] = {
            "model": name,
            "mode": mode,
            "predicted": None,
            "measured": None,
            "time": None,
        }
        rows[mode] = row | {"overhead": None, "bound": None, "bits": None, "note": ""}
        try:
            training = Training(MODELS[name], backend(), device)
            trained = training.train(steps)
        except Exception as fault:
            rows[mode]["note"] = f"{type(fault).__name__}: {str(fault).splitlines()[0][:80]}"
            continue
        expected = trained if mode == "default" else expected
        trainings[mode] = training
        rows[mode] |= {"measured": trained.peak, "bits": trained.digests == expected.digests}
        rows[mode]["tracked"] = training.tracked()  # the same by another way of counting
        if device != "cpu":
            rows[mode]["reserved"] = trained.reserved
        own = echo_torch.reports()[before:]
        if own:
            report = own[-1]
            rows["default"]["predicted"] = report.default_peak
            overhead = (1 + report.overhead) / (1 + report.default_overhead) - 1
            told = {"predicted": report.peak, "overhead": overhead, "bound": report.bound}
            seconds = report.seconds | {"first step": trained.first_seconds}
            rows[mode] |= {**told, "note": report.reason or "", "seconds": seconds}
            if report.reason:
                rows[mode]["predicted"] = report.default_peak
    for mode in [mode for mode in trainings if mode != "default"]:
        rows[mode]["time"] = paired(trainings["default"], trainings[mode], pairs)
    return list(rows.values())


def paired(one: Training, other: Training, pairs: int) -> float | None:
    """The median of how many times as long a step of the other takes; both have run before."""
    ratios = []
    for turn in range(pairs):
        first, second = (one, other) if turn % 2 else (other, one)
        seconds = {first: first.timed()} | {second: second.timed()}
        ratios.append(seconds[other] / seconds[one])
    return round(statistics.median(ratios), 3) if pairs else None


def shown(row: dict[str, Any]) -> str:
    def amount(value: int | None) -> str:
        return "-" if value is None else f"{value / 1e6:.1f}"

    overhead = "-" if row["overhead"] is None else f"{1 + row['overhead']:.3f}"
    bits = {True: "same", False: "DIFFERENT", None: "-"}[row["bits"]]
    return (
        f"{row['model']:13}{row['mode']:16}"
        f"{amount(row['predicted']):>10}{amount(row['measured']):>10}"
        f"{overhead:>8}{row['time'] or '-':>8}{bits:>11}  {row['note'][:60]}"
    )


def gain(rows: list[dict[str, Any]], mode: str) -> float:
    """The geometric mean over models of the default partition's measured peak by the mode's."""
    peaks = {(row["model"], row["mode"]): row["measured"] for row in rows}
    found = [peaks[m, "default"] / peak for (m, k), peak in peaks.items() if k == mode and peak]
    return math.exp(sum(map(math.log, found)) / len(found)) if found else float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=FEW, help=f"of {', '.join(MODELS)}, or all; {', '.join(FEW)}")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=3, help="of training, for the bits")
    parser.add_argument("--pairs", type=int, default=3, help="of steps, for the time")
    parser.add_argument("--budgets", type=float, nargs="*", default=[0.5], help="parts of the default's peak")
    parser.add_argument("--modes", nargs="*", help="beside the default; all if none is named")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", help="a file to write the rows to")
    options = parser.parse_args()
    names = list(MODELS) if options.models == ["all"] else list(options.models)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"no model {unknown[0]}: choose from {', '.join(MODELS)}")
    wanted = modes(options.budgets)
    if options.modes:
        if unknown := [mode for mode in options.modes if mode not in wanted]:
            parser.error(f"no mode '{unknown[0]}': choose from {', '.join(wanted)}")
        wanted = {mode: wanted[mode] for mode in ("default", *options.modes)}
    torch.set_num_threads(options.threads)
    torch._dynamo.config.recompile_limit = 64
    warnings.simplefilter("ignore")
    head = ("predicted", 10), ("measured", 10), ("planned", 8), ("time", 8), ("bits", 11)
    print(f"{'model':13}{'by':16}" + "".join(f"{name:>{width}}" for name, width in head))
    rows: list[dict[str, Any]] = []
    for name in names:
        for row in rows_of(name, options.device, options.steps, options.pairs, wanted):
            rows.append(row)
            print(shown(row), flush=True)
        gc.collect()
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                told = {"torch": torch.__version__, "threads": options.threads, "rows": rows}
                json.dump(told, file)
    for mode in [mode for mode in wanted if mode not in ("default", "eager")]:
        print(f"{mode}: {gain(rows, mode):.2f} times less than the default (geometric mean)")
    wrong = [row for row in rows if row["mode"].startswith("Echo") and row["bits"] is not True]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
