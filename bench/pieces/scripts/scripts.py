# SPDX-License-Identifier: BSL-1.0
"""Trains the scripts of this folder by PyTorch's default partition and by Echo's default: scripts.py [NAME…]

Each training runs in a process of its own (measuring.py). Peaks are MB (10^6 bytes) above what was there when a step began,
by the CPU allocator's own count. Two processes take turns for the time of a step."""
from __future__ import annotations

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results
from bars import bar

PAGE = results.ROOT / "docs" / "pytorch" / "scripts.md"
MEASURING = Path(__file__).with_name("measuring.py")
DEFAULT = "aot_eager"
SECONDS = 1200  # for one training
KEYS = ("script", "trains", "same_bits", "planned", "left", "eager_mb", "default_mb", "echo_mb", "worst", "predicted_mb",
        "off", "milliseconds", "time", "planned_time", "note", "date")
Row = dict[str, Any]


class Fails(Exception):
    """A training ended with an error; its last line."""


def main() -> int:
    return measured("scripts", row_of, bars_of, section)


def measured(result: str, row_of: Callable[[str], Row], bars_of: Callable[[list[Row]], list[Row]],
             section: Callable[[Row], str]) -> int:
    """Measures the scripts that are named, or all: their rows take the place of older ones, script by script."""
    from all_scripts import SCRIPTS

    names = sys.argv[1:] or list(SCRIPTS)
    if unknown := [name for name in names if name not in SCRIPTS]:
        raise SystemExit(f"scripts: no script '{unknown[0]}': choose from {', '.join(SCRIPTS)}")
    import torch

    for name in names:
        row = row_of(name)
        known = {row["script"]: row for row in (results.load(result) or {"rows": []})["rows"]} | {name: row}
        rows = [known[name] for name in SCRIPTS if name in known]
        results.write(result, rows, bars=bars_of(rows), torch=torch.__version__)
        results.put_section(PAGE, section(results.load(result)))
    return 0


def row_of(name: str) -> Row:
    row = dict.fromkeys(KEYS) | {"script": name, "trains": False, "note": "", "date": datetime.date.today().isoformat()}
    try:
        default = trained(name, DEFAULT)
        row["eager_mb"] = mb(max(trained(name, "eager")["peaks"][1:]))
        quiet = [k for k, compiled in enumerate(default["compiled"]) if k and not compiled]
        row["default_mb"] = mb(max(default["peaks"][k] for k in quiet))
        # First: Echo cannot measure scratch memory while a profiler runs, and keeps what it measures here.
        row |= times(turns(name, DEFAULT, "echo_eager"))
        row |= of_echo(name, default, quiet)
    except Fails as why:
        row |= {"trains": False, "note": str(why)}
    return row


def of_echo(name: str, default: Row, quiet: list[int]) -> Row:
    """Peaks are those of steps in which nothing was compiled."""
    echo = trained(name, "echo_eager")
    same, note = echo["digests"] == default["digests"], ""
    if not same and trained(name, DEFAULT)["digests"] != default["digests"]:
        same, note = None, "other bits at every run, with Echo or without"
    quiet = [k for k in quiet if not echo["compiled"][k]]
    graphs = [report for report in echo["reports"] if report["nodes"]]
    left = [report for report in graphs if report["reason"]]
    row = {"trains": True, "same_bits": same, "planned": len(graphs) - len(left), "left": len(left),
           "echo_mb": mb(max(echo["peaks"][k] for k in quiet)),
           "worst": round(max(echo["peaks"][k] / default["peaks"][k] for k in quiet), 4),
           "note": note or next((report["reason"] for report in left), ""),
           "planned_time": planned(graphs)}
    if graphs and echo["graphs_run"][1] == 1 and 1 in quiet:  # the second step is like the first, and one graph
        predicted = graphs[0]["best_peak"]
        row |= {"predicted_mb": mb(predicted), "off": round(100 * (echo["peaks"][1] / predicted - 1), 3) if predicted else None}
    return row


def planned(graphs: list[Row]) -> float:
    """How many times as long as by the default partition the graphs of a script take, as the plans say; those that are
    left to PyTorch take as long."""
    whole = sum(graph["time_us"] for graph in graphs)
    return round(sum(graph["time_us"] * graph["slowdown"] for graph in graphs) / whole, 4) if whole else 1.0


def mb(count: int) -> float:
    return round(count / 1e6, 4)


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(MEASURING), *arguments]


def trained(name: str, backend: str, *files: str) -> Row:
    """What `measuring.py peaks` found of one training."""
    try:
        done = subprocess.run(command("peaks", name, backend, *files), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Fails(f"{backend} took more than {SECONDS} s") from None
    if done.returncode != 0:
        raise Fails(f"{backend}: {last_line(done.stderr)}")
    found: Row = json.loads(done.stdout)
    return found


def last_line(text: str) -> str:
    """The line of the error, of what a process printed before it ended."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith(" ")]
    return (next((line for line in lines[::-1] if "Error" in line.split(":")[0]), lines[-1] if lines else ""))[:160]


class Turn:
    """A process that trains one step each time it is asked to."""

    def __init__(self, name: str, backend: str) -> None:
        self.backend, self.errors = backend, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command("turns", name, backend), text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def __enter__(self) -> Turn:
        self.answer()
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()

    def answer(self) -> str:
        """What it says of the last step, once it waits for the next one. Fails: it has ended otherwise than it should."""
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        if not line and self.process.wait() != 0:
            self.errors.seek(0)
            raise Fails(f"{self.backend}: {last_line(self.errors.read())}")
        return line

    def step(self) -> tuple[float, bool] | None:
        """Processor seconds of the next step and whether a graph was compiled in it; None: there is no next one."""
        assert self.process.stdin
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended
        seconds, _, compiled = self.answer().partition(" ")
        return (float(seconds), compiled == "1") if seconds else None


def turns(name: str, *backends: str) -> list[tuple[float, float, bool]]:
    """Processor seconds of each step by two backends, and whether a graph was compiled in it by one of them."""
    pairs = []
    with Turn(name, backends[0]) as default, Turn(name, backends[1]) as echo:
        while True:
            order = (default, echo) if len(pairs) % 2 else (echo, default)
            found = {turn: turn.step() for turn in order}
            one, other = found[default], found[echo]
            if one is None or other is None:
                return pairs
            pairs.append((one[0], other[0], one[1] or other[1]))


def times(pairs: list[tuple[float, float, bool]]) -> Row:
    """The median of how many times as long a step takes with Echo, of pairs of steps that follow each other; and how
    long it takes by the default partition."""
    quiet = [(one, other) for one, other, compiled in pairs[1:] if not compiled]
    return {"milliseconds": round(1e3 * statistics.median(one for one, _ in quiet), 2),
            "time": round(statistics.median(other / one for one, other in quiet), 3)}


def bars_of(rows: list[Row]) -> list[Row]:
    whole = [row for row in rows if row["trains"]]
    off = [abs(row["off"]) for row in whole if row["off"] is not None]
    beyond = [100 * (row["time"] - row["planned_time"]) for row in whole if row["time"]]
    return [
        bar("scripts", len(rows), 20, "≥"),
        bar("scripts that do not train", len(rows) - len(whole), 0),
        bar("scripts whose losses, parameters or buffers are other bits", sum(row["same_bits"] is False for row in whole), 0),
        bar("scripts with a step more than 0.1 % above its peak by the default partition",
            sum(row["worst"] > 1.001 for row in whole), 0),
        bar("measured from predicted where a step is one graph, the worst script, %", round(max(off, default=0), 3), 1),
        bar("time of a step beyond the plan, the worst script, points", round(max(beyond, default=0), 2), 3),
    ]


def section(result: Row) -> str:
    """The table of docs/pytorch/scripts.md."""
    rows = result["rows"]
    dates = sorted({row["date"] for row in rows})
    told = (f"{len(rows)} scripts, PyTorch {result['torch'].partition('+')[0]}, one thread of an {result['machine']['cpu']}, "
            f"measured on {' and '.join(dates)}.")
    lines = ["| script | trains | same bits | planned | left | eager | default | Echo | predicted | ms | time | plan |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        cells = [row["script"], "yes" if row["trains"] else "**no**"]
        cells.append("-" if not row["trains"] else {True: "yes", False: "**no**", None: "differ from run to run"}[row["same_bits"]])
        forms = {"planned": "d", "left": "d", "eager_mb": ".1f", "default_mb": ".1f", "echo_mb": ".1f", "predicted_mb": ".1f",
                 "milliseconds": ".0f", "time": ".2f", "planned_time": ".2f"}
        cells += ["-" if row[key] is None else f"{row[key]:{form}}" for key, form in forms.items()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(["<!-- table: bench/scripts -->", "", textwrap.fill(told, 120), "", *lines, "", results.END_OF_TABLE])


if __name__ == "__main__":
    sys.exit(main())
