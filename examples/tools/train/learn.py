#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Trains the translation model with and without Echo and prints both courses side by side: losses, the part of sentences
it translates without a mistake, memory. Keeps it in bench/results/training.json and
writes the table into docs/results/training.md, or FILE, between the line
`<!-- table: examples/run --learn -->` and the next `<!-- end of table -->`.

    python3 learn.py PROGRAM [--into FILE] [--results FILE]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "bench"))

import results  # noqa: E402

BEGIN, END = "<!-- table: examples/run --learn -->", results.END_OF_TABLE
TRAIN = ["nmt", "--steps", "1000"]
EVERY = 50
SHOWN = [1, 50, 100, 200, 300, 400, 500, 750, 1000]
WAYS = {"without Echo": ["--strategy", "baseline"], "min_cut": ["--strategy", "min_cut"], "budget 0.6": ["--budget", "0.6"]}


def run(program, *arguments):
    done = subprocess.run([program, *TRAIN, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def course(program, way):
    """What one way of training shows: at each step that is shown the loss and the metric, as they are printed."""
    text = run(program, *way, "--evaluate", str(EVERY))
    rows = {int(step): (loss, metric) for step, loss, metric in
            re.findall(r"(?m)^step (\d+)/\d+ +loss +(\S+) .*exact match (\S+)$", text)}
    [(taken, reached)] = re.findall(r"(?m)^arena .* planned, (\d+) taken, (\d+) reached$", text)
    [counts] = re.findall(r"(?m)^steps +(.*)$", text)
    losses = [json.loads(line)["loss_hex"] for line in run(program, *way, "--json").splitlines()]
    return {"rows": rows, "arena": int(taken), "reached": int(reached), "counts": counts, "losses": losses}


def kept(made):
    """What the page shows, with the day and the machine, for bench/results/training.json."""
    first, *others = made.values()
    return {**results.stamp(), "steps": len(first["losses"]),
            "same bits": all(a == b for other in others for a, b in zip(first["losses"], other["losses"], strict=True)),
            "ways": [{"way": name, "arena bytes": one["arena"], "last step": one["counts"],
                      "rows": [{"step": step, "loss": one["rows"][step][0], "exact match": one["rows"][step][1]} for step in SHOWN]}
                     for name, one in made.items()]}


def section(result):
    ways = result["ways"]
    names = [way["way"] for way in ways]
    lines = ["| step |" + "".join(f" loss, {name} |" for name in names) + "".join(f" exact match, {name} |" for name in names),
             "|--:" * (1 + 2 * len(names)) + "|"]
    for rows in zip(*(way["rows"] for way in ways)):
        cells = [row[key] for key in ("loss", "exact match") for row in rows]
        lines.append("| " + " | ".join([str(rows[0]["step"]), *cells]) + " |")
    lines.append("| arena, bytes | " + " | ".join(f"{way['arena bytes']:,}" for way in ways) + " |" + " |" * len(names))
    verdict = "the same bits in each" if result["same bits"] else "**not the same bits**"
    steps = "; ".join(f"{way['way']}: {way['last step']}" for way in ways)
    return "\n".join([BEGIN, "", f"Trained on {result['date']} on {result['machine']['cores']} cores of an {result['machine']['cpu']}. "
                      f"The losses of all {result['steps']} steps, as hexadecimal floats: {verdict}.", "", *lines, "",
                      f"Of the last step: {steps}.", "", END])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("--into", type=pathlib.Path, default=ROOT / "docs" / "results" / "training.md")
    options.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results" / "training.json")
    asked = options.parse_args()
    results.around_section(asked.into, BEGIN)  # before hours are spent
    result = kept({name: course(asked.program, way) for name, way in WAYS.items()})
    print(section(result))
    asked.results.write_text(results.as_text(result), encoding="utf-8")
    results.put_section(asked.into, section(result))
    sys.exit(not result["same bits"])


if __name__ == "__main__":
    main()
