#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Trains with and without Echo in turns, and prints what ggml itself says it takes, with the bars that must hold."""
from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GGML = ROOT / "build" / "ggml"
ECHO = GGML / "shared" / "libecho-ggml.so"
sys.path.insert(0, str(ROOT / "bench"))

import results  # noqa: E402  (bench/results.py)


@dataclasses.dataclass
class Workload:
    """One model, how it is trained, what Echo is asked, and the largest compute buffer that passes."""

    name: str
    options: list[str]
    budget: str = ""
    limit: float = 1.0
    steps: int = 16


LORA = "LoRA on 8-bit weights, graph built anew"
WORKLOADS = [
    Workload("mnist, fully connected", ["--model", "fc"], steps=20),
    Workload("mnist, convolutions", ["--model", "cnn"]),
    Workload("transformer", [], limit=0.72),
    Workload("transformer, budget 0.62", [], "0.62", 0.62),
    Workload("the same, half the memory", [], "0.5", 0.51),
    Workload("accumulating 2 batches, graph built anew", ["--dynamic", "--period", "2"], steps=8),
    Workload("accumulating 2 batches, static graph", ["--period", "2"], steps=8),
    Workload(LORA, ["--model", "lora", "--type", "q8_0", "--dynamic"]),
    Workload("transformer on two backends, BLAS and CPU", ["--accelerator"], limit=0.72),
]


class Run:
    """A training process that makes a step when it is told to."""

    def __init__(self, options: list[str], environment: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [GGML / "shared" / "train", "--paced", "--threads", "1", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**clean_environment(), **environment})

    def step(self) -> tuple[str, float]:
        """What is printed of losses, parameters and gradients, and the processor time."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().rsplit(" time ", 1)
        if len(words) != 2:
            raise SystemExit("train ended early: " + self.said())
        return words[0], float(words[1])

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def end(self) -> tuple[int, float]:
        """The compute buffer that ggml says it has, and the most memory that the process had, in MB."""
        assert self.process.stdin
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise SystemExit(f"train returned {self.process.returncode}: " + self.said())
        line = next(line for line in self.said().splitlines() if line.startswith("compute"))
        return int(line.split()[-1]), usage.ru_maxrss / 1e3


def clean_environment() -> dict[str, str]:
    """Without what other runs have asked for; ggml fuses nothing, so that bits can be compared."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ECHO_") and k != "LD_PRELOAD"}
    return {**kept, "GGML_CPU_DISABLE_FUSION": "1", "OPENBLAS_NUM_THREADS": "1"}


def compare(work: Workload, fusion: bool = False) -> dict[str, object]:
    """Steps of two processes in turns, so that both see the same machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        environment = {"LD_PRELOAD": str(ECHO), "ECHO_REPORT": str(report)}
        if work.budget:
            environment["ECHO_BUDGET"] = work.budget
        fuse = {"GGML_CPU_DISABLE_FUSION": "0"} if fusion else {}
        options = [*work.options, "--steps", str(work.steps)]
        plain, echo = Run(options, fuse), Run(options, {**environment, **fuse})
        same, ratios, times = True, [], []
        for step in range(work.steps * (2 if "--period" in options else 1)):
            if step % 2:
                said_by_echo, time_of_echo = echo.step()
                said, time = plain.step()
            else:
                said, time = plain.step()
                said_by_echo, time_of_echo = echo.step()
            same &= said == said_by_echo
            if step:
                ratios.append(time_of_echo / time)
                times.append(time)
        before, memory_before = plain.end()
        after, memory = echo.end()
        plans = json.loads(report.read_text(encoding="utf-8"))["graphs"]
    plan = plans[-1]
    later = sum(p["later_ms"] for p in plans) / max(1, sum(p["uses"] - 1 for p in plans))
    step_ms = 1e3 * statistics.median(times)
    return {
        "training": work.name, "buffer MB": before / 1e6, "with Echo": after / 1e6,
        "ratio": after / before, "judged right": plan["compute_buffer"] == after,
        "process MB": memory_before, "with Echo ": memory, "same bits": same,
        "step": statistics.median(ratios), "predicted": 1 + plan["recompute_time_ratio"],
        "step ms": step_ms, "plan ms": plan["first_ms"], "later %": 100 * later / step_ms,
    }


FINETUNE = "llama-finetune"


def finetune(out: str, *, echo: bool, fusion: bool, budget: str = "") -> dict[str, object]:
    """One run of llama-finetune as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        environment = {**clean_environment(), "GGML_CPU_DISABLE_FUSION": str(int(not fusion))}
        if echo:
            environment |= {"LD_PRELOAD": str(ECHO), "ECHO_REPORT": str(report)}
        if budget:
            environment["ECHO_BUDGET"] = budget
        made = GGML / out
        made.unlink(missing_ok=True)
        with open(GGML / "finetune.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [GGML / "llama" / "bin" / "llama-finetune", "-m", GGML / "model.gguf", "-f",
                 GGML / "text.txt", "-c", "512", "-b", "512", "-ub", "512", "-t", "1", "-fa", "off",
                 "-epochs", "1", "-o", made], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment)
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"llama-finetune returned {status}: see {GGML / 'finetune.log'}")
        plans = json.loads(report.read_text(encoding="utf-8"))["graphs"] if echo else []
    return {
        FINETUNE: ("fused" if fusion else "not fused") + (", Echo" if echo else "")
        + (f" budget {budget}" if budget else ""),
        "buffer MB": max((p["compute_buffer"] for p in plans), default=None),
        "before MB": max((p["compute_buffer_before"] for p in plans), default=None),
        "process MB": usage.ru_maxrss / 1e3, "s": usage.ru_utime + usage.ru_stime,
        "steps": sum(p["uses"] for p in plans), "plan ms": sum(p["first_ms"] for p in plans),
        "later ms": sum(p["later_ms"] for p in plans),
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest()[:16],
    }


def finetunes(bar: "Bars") -> list[dict[str, object]]:
    """The unmodified program on a model of random weights, and whether it writes the same file."""
    text = (ROOT / "README.md").read_bytes()[:9000]
    (GGML / "text.txt").write_bytes(text)
    subprocess.run([GGML / "shared" / "make_gguf", GGML / "model.gguf", "6", "128", "512"], check=True)
    runs = [dict(out="plain.gguf", echo=False, fusion=False), dict(out="echo.gguf", echo=True, fusion=False),
            dict(out="echo.gguf", echo=True, fusion=False, budget="0.6"),
            dict(out="plain.gguf", echo=False, fusion=True), dict(out="echo.gguf", echo=True, fusion=True)]
    rounds = [[finetune(**run) for run in runs] for _ in range(3)]
    bar("llama-finetune: files that differ from round to round",
        sum(a["sha256"] != b["sha256"] for more in rounds[1:] for a, b in zip(rounds[0], more)), 0)
    rows = rounds[0]
    for i, row in enumerate(rows):
        row["s"] = min(one[i]["s"] for one in rounds)
        row["process MB"] = min(one[i]["process MB"] for one in rounds)
        for key in ("buffer MB", "before MB"):
            row[key] = row[key] and row[key] / 1e6
    plain, echo, budget, fused, fused_echo = rows
    bar("llama-finetune: files that differ, not fused", len({r["sha256"] for r in rows[:3]}) - 1, 0)
    bar("llama-finetune: files that differ, fused", len({r["sha256"] for r in rows[3:]}) - 1, 0)
    bar("llama-finetune: memory of the process", echo["process MB"] / plain["process MB"], 0.999)
    bar("llama-finetune: the same with a budget", budget["process MB"] / plain["process MB"], 0.999)
    bar("llama-finetune: processor time", echo["s"] / plain["s"], 1.06)
    step_ms = 1e3 * plain["s"] / echo["steps"]
    bar("llama-finetune: plans of all its graphs, in steps", echo["plan ms"] / step_ms, 1)
    bar("llama-finetune: plans found again, % of a step", 100 * echo["later ms"] / echo["steps"] / step_ms, 2)
    bar("llama-finetune: the same against fusion on", echo["s"] / fused["s"], 1.06)
    bar("llama-finetune: the same, fusion on in both", fused_echo["s"] / fused["s"], 1.06)
    return rows


def section(made: dict) -> str:
    """The tables of the guide, from bench/results/ggml.json."""
    lines = ["| training | buffer MB | with Echo | | process MB | with Echo | time of a step | same bits |",
             "|---|--:|--:|--:|--:|--:|--:|---|"]
    for row in made["rows"]:
        lines.append(
            f"| {row['training']} | {row['buffer MB']:.1f} | {row['with Echo']:.1f} | {row['ratio']:.2f}x "
            f"| {row['process MB']:.1f} | {row['with Echo ']:.1f} | {row['step']:.3f}x "
            f"| {'yes' if row['same bits'] else 'NO'} |")
    if "finetune" in made:
        lines += ["", "| llama-finetune | buffer MB | process MB | processor s | SHA-256 of what it writes |",
                  "|---|--:|--:|--:|---|"]
        for row in made["finetune"]:
            buffer = f"{row['before MB']:.1f} -> {row['buffer MB']:.1f}" if row["buffer MB"] else ""
            lines.append(f"| {row['llama-finetune']} | {buffer} | {row['process MB']:.1f} | {row['s']:.1f} "
                         f"| {row['sha256']} |")
    said = (f"Measured by `examples/ggml/run` on {made['date']} on {made['machine']['cores']} cores of an "
            f"{made['machine']['cpu']}; MB are 10^6 bytes, steps are\ntimed in turns on one thread.")
    return "\n".join(["<!-- table: examples/ggml/run -->", "", said, "", *lines, "", results.END_OF_TABLE])


def write_guide() -> None:
    """Puts the figures of bench/results/ggml.json into the guide."""
    made = json.loads((ROOT / "bench" / "results" / "ggml.json").read_text(encoding="utf-8"))
    results.put_section(ROOT / "docs" / "guide" / "hosts" / "ggml.md", section(made))


class Bars:
    """What must hold; each is a row of the results."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def __call__(self, name: str, value: float, limit: float) -> None:
        self.rows.append({"bar": name, "value": round(value, 4), "limit": limit,
                          "passed": value <= limit})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama", action="store_true", help="llama-finetune too")
    parser.add_argument("--guide", action="store_true", help="only the guide's table, from the results")
    parser.add_argument("--quick", action="store_true", help="few steps, and no bar on time")
    arguments = parser.parse_args()
    if arguments.guide:
        write_guide()
        return 0
    bar = Bars()
    rows = []
    has_blas = any((GGML / "shared").glob("**/libggml-blas.so*"))
    for work in WORKLOADS if has_blas else WORKLOADS[:-1]:
        if arguments.quick:
            work.steps = 2
        row = compare(work)
        rows.append(row)
        bar(f"{work.name}: compute buffer", row["ratio"], work.limit)
        bar(f"{work.name}: steps that differ", int(not row["same bits"]), 0)
        bar(f"{work.name}: judged otherwise than ggml does", int(not row["judged right"]), 0)
        if arguments.quick:
            continue
        if work.budget != "0.5":
            bar(f"{work.name}: time of a step", row["step"], 1.06)
            bar(f"{work.name}: first plan, in steps", row["plan ms"] / row["step ms"], 1)
        bar(f"{work.name}: plan found again, % of a step", row["later %"], 2)
    lora = next(work for work in WORKLOADS if work.name == LORA)
    fused = compare(dataclasses.replace(lora, steps=3), fusion=True)
    bar(f"{LORA}: steps that differ with fusion on", int(not fused["same bits"]), 0)
    tuned = finetunes(bar) if arguments.llama else []
    if arguments.quick:
        results.table(bar.rows)
    else:
        before = results.load("ggml") or {}
        if not tuned:  # what was measured of it before stays, with its bars
            tuned = before.get("finetune", [])
            bar.rows += [row for row in before.get("bars", []) if str(row["bar"]).startswith(FINETUNE)]
        results.write("ggml", rows, **({"finetune": tuned} if tuned else {}), bars=bar.rows)
        write_guide()
    failed = [row for row in bar.rows if not row["passed"]]
    print(f"{len(bar.rows) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
