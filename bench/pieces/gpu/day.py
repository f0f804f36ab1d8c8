#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The end of `bench/gpu --all`: one table of what was tested and measured, and one file with all of
it to send in.

    day.py FOLDER --tests STATUS --bench STATUS

FOLDER has what tests/cuda/run and bench/gpu left there: cuda/{cuda.json,logs.txt} and
gpu/{gpu.json,gpu.md}, or not, where a part did not come so far. The table sets beside each measured
share of copy bandwidth the one that was predicted from the kernels' machine code
(bench/results/cuda-counts.json).
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tarfile

LIBRARY = pathlib.Path(__file__).resolve().parent
ROOT = LIBRARY.parents[2]
WORDS = {0: "passed", 1: "FAILED", 77: "not run"}


def read(file: pathlib.Path) -> dict | None:
    """A JSON file; None where there is none, or only a part of one."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def card_of(cuda: dict | None, gpu: dict | None) -> str:
    """The card's name."""
    if cuda and cuda.get("card"):
        return cuda["card"]["card"]
    return gpu["card"]["device"].split(" (")[0] if gpu and gpu.get("card") else "unknown card"


def predicted(counts: dict | None, card: str, kernel: str) -> float | None:
    """The predicted part of copy bandwidth of a kernel on such a card; None for a card or a kernel
    without one.
    """
    known = next((name for name in ("H100", "H200", "B200") if name in card), None)
    for row in (counts or {"kernels": []})["kernels"]:
        if row["kernel"] == kernel and known:
            return row["predicted"][known]["part"]
    return None


# What counting calls a benchmark's row.
COUNTED = {
    "dropout_forward, one bit": "dropout_forward",
    "dropout_forward, no bit": "dropout by seed",
    "dropout_backward, one bit": "dropout_backward",
    "dropout_backward, no bit": "dropout by seed",
}


def kernel_rows(cuda: dict | None, counts: dict | None) -> list[tuple[str, str, str, str]]:
    """What was measured of kernels: name, value, what was predicted, and whether its bar is met;
    the largest tensor of each.
    """
    largest: dict[tuple, dict] = {}
    for row in (cuda or {"rows": []})["rows"]:
        key = row["benchmark"], row["name"], row["type"], row["against"]
        if key not in largest or row["bytes"] > largest[key]["bytes"]:
            largest[key] = row
    found = []
    for row in largest.values():
        verdict = {None: "", True: "met", False: "MISSED"}[row.get("met")]
        guess = None
        if row["benchmark"] == "one_bit":
            guess = predicted(
                counts,
                card_of(cuda, None),
                f"{COUNTED.get(row['name'], row['name'])} {row['type']}",
            )
        found.append(
            (
                f"{row['benchmark']}: {row['name']}, {row['type']}",
                f"{row['value']:.3f} {row['quantity']}",
                "" if guess is None else f"{guess:.2f} predicted",
                f"{row.get('bar') or ''} {verdict}".strip(),
            )
        )
    return found


def step_rows(gpu: dict | None) -> list[tuple[str, str, str, str]]:
    """What was measured of training steps: each bar, or that nothing was measured for it."""
    found = []
    for bar in (gpu or {"bars": []}).get("bars", []):
        value = "not measured" if bar["value"] is None else f"{bar['value']:.3f}"
        verdict = {None: "", True: "met", False: "MISSED"}[bar["passed"]]
        found.append((bar["bar"], value, "", f"{bar['sense']} {bar['limit']} {verdict}".strip()))
    other = [
        f"{model} with {row['plan']}"
        for model, rows in (gpu or {"models": {}})["models"].items()
        for row in rows
        if not row["same_losses"]
    ]
    if gpu:
        found.append(
            (
                "losses of all plans are the baseline's, bit by bit",
                "no: " + ", ".join(other) if other else "yes",
                "",
                "",
            )
        )
    return found


def table(folder: pathlib.Path, statuses: dict[str, int]) -> str:
    """The one table, as text."""
    cuda, gpu = read(folder / "cuda" / "cuda.json"), read(folder / "gpu" / "gpu.json")
    counts = read(ROOT / "bench" / "results" / "cuda-counts.json")
    rows = [
        (what, WORDS.get(status, f"status {status}"), "", "") for what, status in statuses.items()
    ]
    rows += kernel_rows(cuda, counts) + step_rows(gpu)
    for left in (gpu or {}).get("left_out", []):
        rows.append((f"left out: {left['what']}", left["why"], "", ""))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = [f"{card_of(cuda, gpu)}, {datetime.date.today().isoformat()}, commit {commit()}"]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
    return "\n".join(lines) + "\n"


def commit() -> str:
    """What of the tree was measured; nothing is known of a copy without its history."""
    made = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return made.stdout.strip() or "unknown"


def pack(folder: pathlib.Path, text: str) -> pathlib.Path:
    """One file with the table and everything in the folder. Nothing else of the machine gets into
    it.
    """
    (folder / "table.txt").write_text(text, encoding="utf-8")
    card = re.sub(r"[^a-z0-9]+", "-", text.split(",", 1)[0].lower()).strip("-")
    made = folder / f"echo-{card}-{datetime.date.today().isoformat()}.tar.gz"
    with tarfile.open(made, "w:gz") as to:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.endswith(".tar.gz"):
                to.add(file, f"{made.name.removesuffix('.tar.gz')}/{file.relative_to(folder)}")
    return made


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tests", type=int, required=True, help="status of tests/cuda/run")
    parser.add_argument("--bench", type=int, required=True, help="status of bench/gpu")
    options = parser.parse_args()
    text = table(options.folder, {"tests/cuda/run": options.tests, "bench/gpu": options.bench})
    print(f"\n{text}\nSend in this one file: {pack(options.folder, text)}")
    return 0 if options.tests == options.bench == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
