#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Trains the translation model with and without Echo and prints both courses side by side: losses, the part of sentences
it translates without a mistake, memory. Writes the table into docs/results/training.md, or FILE, between the line
`<!-- table: examples/run --learn -->` and the next `<!-- end of table -->`.

    python3 learn.py PROGRAM [--into FILE]
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- table: examples/run --learn -->", "<!-- end of table -->"
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


def section(made):
    names = list(made)
    first = made[names[0]]
    lines = ["| step |" + "".join(f" loss, {name} |" for name in names) + "".join(f" exact match, {name} |" for name in names),
             "|--:" * (1 + 2 * len(names)) + "|"]
    for step in SHOWN:
        cells = [[made[name]["rows"][step][k] for name in names] for k in (0, 1)]
        lines.append("| " + " | ".join([str(step), *cells[0], *cells[1]]) + " |")
    lines.append("| arena, bytes | " + " | ".join(f"{made[name]['arena']:,}" for name in names) + " |" + " |" * len(names))
    same = [all(a == b for a, b in zip(first["losses"], made[name]["losses"], strict=True)) for name in names[1:]]
    verdict = "the same bits in each" if all(same) else "**not the same bits**"
    steps = "; ".join(f"{name}: {made[name]['counts']}" for name in names)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "CPU")
    return "\n".join([BEGIN, "", f"Trained on {datetime.date.today()} on {len(os.sched_getaffinity(0))} cores of an {cpu}. "
                      f"The losses of all {len(first['losses'])} steps, as hexadecimal floats: {verdict}.", "", *lines, "",
                      f"Of the last step: {steps}.", "", END]), all(same)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("--into", type=pathlib.Path, default=ROOT / "docs" / "results" / "training.md")
    asked = options.parse_args()
    text = asked.into.read_text(encoding="utf-8")
    begin = text.find(BEGIN)
    end = text.find(END, begin)
    if begin < 0 or end < 0:
        sys.exit(f"{asked.into} holds no line '{BEGIN}' with '{END}' behind it")
    made, same = section({name: course(asked.program, way) for name, way in WAYS.items()})
    print(made)
    asked.into.write_text(text[:begin] + made + text[end + len(END):], encoding="utf-8")
    sys.exit(not same)


if __name__ == "__main__":
    main()
