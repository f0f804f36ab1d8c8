# SPDX-License-Identifier: BSL-1.0
"""Trains the scripts of this folder under Inductor, by its own default and by Echo's: scripts_inductor.py [NAME…]

As scripts.py does; each script begins with an empty cache of Inductor's. Where losses or parameters differ by more than
rounding, both ways are held against eager mode, with its random numbers."""
from __future__ import annotations

import datetime
import os
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import results
import scripts
from bars import bar
from scripts import Fails, Row, mb, trained

DEFAULT, ECHO = "inductor", "echo"
ROUNDING = 1e-5  # relative, of a sum over a training
KEYS = ("script", "default_mb", "echo_mb", "worst", "judged_mb", "planned", "left", "off", "default_from_eager",
        "echo_from_eager", "milliseconds", "time", "judged_time", "compile", "note", "date")


def main() -> int:
    return scripts.measured("scripts-inductor", row_of, bars_of, section)


def row_of(name: str) -> Row:
    row = dict.fromkeys(KEYS) | {"script": name, "note": "", "date": datetime.date.today().isoformat()}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        try:
            return row | compared(name, Path(folder))
        except Fails as why:
            return row | {"note": str(why)}


def compared(name: str, folder: Path) -> Row:
    pairs = scripts.turns(name, DEFAULT, ECHO)  # first, as in scripts.py
    took = [sum(pair[k] for pair in pairs if pair[2]) for k in (0, 1)]
    files = [str(folder / f"{backend}.pt") for backend in (DEFAULT, ECHO)]
    default, echo = (trained(name, backend, file) for backend, file in zip((DEFAULT, ECHO), files))
    quiet = [k for k, compiled in enumerate(default["compiled"]) if k and not compiled and not echo["compiled"][k]]
    graphs = [report for report in echo["reports"] if report["default_peak"] is not None]
    left = [report for report in echo["reports"] if report["reason"]]
    row = {"default_mb": mb(max(default["peaks"][k] for k in quiet)), "echo_mb": mb(max(echo["peaks"][k] for k in quiet)),
           "worst": round(max(echo["peaks"][k] / default["peaks"][k] for k in quiet), 4),
           "planned": len(echo["reports"]) - len(left), "left": len(left), "judged_time": scripts.planned(graphs),
           "compile": round(took[1] / took[0], 2), **scripts.times(pairs),
           "off": distance(*files),
           "note": "; ".join(dict.fromkeys(report["reason"] for report in left if not report["is_needless"]))}
    if graphs and echo["graphs_run"][1] == 1 and 1 in quiet:
        row["judged_mb"] = mb(graphs[0]["best_peak"])
    if row["off"] is None or row["off"] > ROUNDING:
        row |= from_eager(name, folder)
    return row


def from_eager(name: str, folder: Path) -> Row:
    """How far what each way has trained is from what eager mode trains, with the same random numbers."""
    files = {backend: str(folder / f"{backend}.random.pt") for backend in ("eager", DEFAULT, ECHO)}
    for backend, file in files.items():
        trained(name, backend if backend == "eager" else f"{backend}+random", file)
    return {"default_from_eager": distance(files["eager"], files[DEFAULT]),
            "echo_from_eager": distance(files["eager"], files[ECHO])}


def distance(one: str, other: str) -> float | None:
    """Between what two trainings returned: the norm of all differences by that of the first; the larger one of losses and
    of parameters and buffers. None: they are not alike at all."""
    import torch

    def parts(file: str) -> list[list[Any]]:
        values = [value.double().flatten() for value in torch.load(file, weights_only=False)]
        return [[v for v in values if v.numel() == 1], [v for v in values if v.numel() > 1]]

    found = []
    for a, b in zip(parts(one), parts(other)):
        if [v.shape for v in a] != [v.shape for v in b]:
            return None
        if a:
            expected, made = torch.cat(a), torch.cat(b)
            found.append(float((made - expected).norm() / expected.norm().clamp(min=1e-30)))
    worst = max(found)
    return float(f"{worst:.1e}") if worst == worst else None


def bars_of(rows: list[Row]) -> list[Row]:
    whole = [row for row in rows if row["echo_mb"]]
    far = [row for row in whole if row["off"] is None or row["off"] > ROUNDING]
    return [
        bar("scripts under Inductor", len(rows), 20, "≥"),
        bar("scripts that do not train", len(rows) - len(whole), 0),
        bar("scripts that Echo trains more than twice as far from eager mode as Inductor does",
            sum(not is_as_near(row) for row in far), 0),
        bar("scripts with a step more than 0.1 % above its peak by Inductor", sum(row["worst"] > 1.001 for row in whole), 0),
        bar("compiling beside Inductor, the worst script", max((row["compile"] for row in whole), default=1), 3),
        bar("scripts with a graph that is left to Inductor for a fault", sum(bool(row["note"]) for row in whole), 0),
    ]


def is_as_near(row: Row) -> bool:
    one, other = row["default_from_eager"], row["echo_from_eager"]
    return one is not None and other is not None and other <= 2 * one


def section(result: Row) -> str:
    """The table under Inductor of docs/pytorch/scripts.md."""
    rows = result["rows"]
    dates = sorted({row["date"] for row in rows})
    off = [abs(row["echo_mb"] / row["judged_mb"] - 1) for row in rows if row["judged_mb"]]
    told = (f"{len(rows)} scripts, PyTorch {result['torch'].partition('+')[0]}, one thread of an {result['machine']['cpu']}, "
            f"measured on {' and '.join(dates)}. Where a step is one graph, its peak lies at most "
            f"{100 * max(off, default=0):.2g} % from the judged one.")
    lines = ["| script | Inductor | Echo | judged | planned | left | apart | Inductor from eager | Echo | ms | time | judged | compiling |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    forms = {"default_mb": ".1f", "echo_mb": ".1f", "judged_mb": ".1f", "planned": "d", "left": "d", "off": ".0e",
             "default_from_eager": ".0e", "echo_from_eager": ".0e", "milliseconds": ".0f", "time": ".2f", "judged_time": ".2f",
             "compile": ".1f"}
    for row in rows:
        cells = ["-" if row[key] is None else "same bits" if key == "off" and not row[key] else f"{row[key]:{form}}"
                 for key, form in forms.items()]
        lines.append("| " + " | ".join([row["script"], *cells]) + " |")
    return "\n".join(["<!-- table: bench/scripts --inductor -->", "", textwrap.fill(told, 120), "", *lines, "",
                      results.END_OF_TABLE])


if __name__ == "__main__":
    sys.exit(main())
