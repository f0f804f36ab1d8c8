# SPDX-License-Identifier: BSL-1.0
"""Echo against PyTorch's partitioner: at each of its points, the overhead that Echo needs for the same peak, and the time.

`raw` is PyTorch's overhead at the point. `envelope` is the least overhead of all its points of the same model with no
higher peak, what a user would get who tries all budgets and keeps the best. `least` is what the certified bound says that
no plan for that peak goes below; the bars know from it how low any planner could come.
"""
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

import replay

EVERY_POINT_BAR, ENVELOPE_BAR, RAW_BAR, LEAST_BAR, TIME_BAR = 1.0, 0.62, 0.46, 1.05, 1 / 50
ROUNDS = 3  # of Echo's time, of which the median counts
NOTHING = 1e-12  # an overhead below is none: the noise of sums


class Planner:
    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()

    def call(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=600)

    def report(self, *arguments):
        """The JSON that echo-plan prints, None if it cannot meet the budget."""
        done = self.call(*arguments, "--json")
        if done.returncode == 3:
            return None
        if done.returncode:
            raise SystemExit(f"echo-plan {' '.join(map(str, arguments))} returned {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def budget(self, graph, content, peak, *more):
        """The report at a peak, judged by tests/replay.py; `plan_ms` is the median of several runs."""
        file = pathlib.Path(self.folder.name, "plan.json")
        arguments = (graph, "--strategy", "budget", "--budget", peak, *more)
        report = self.report(*arguments, "--emit-plan", file)
        if report is None:
            return None
        verdict = replay.judge(content, json.loads(file.read_text(encoding="utf-8")))
        if not verdict.ok or verdict.replay.peak > peak:
            raise SystemExit(f"{graph} at {peak}: {verdict.lines()[0]}")
        times = [report["plan_ms"]] + [self.report(*arguments)["plan_ms"] for _ in range(ROUNDS - 1)]
        return report | {"plan_ms": statistics.median(times)}

    def front(self, graph, *more):
        made = [self.report(graph, "--pareto", *more) for _ in range(ROUNDS)]
        return made[0] | {"pass_ms": statistics.median(one["pass_ms"] for one in made)}


def envelope(points, peak):
    return min(point["overhead"] for point in points if point["peak"] <= peak)


def measure(planner, root, model, torch):
    """What is to be said of one model: its front, a row for each of PyTorch's points, and one for mirror."""
    graph = root / torch["graph"]
    content = replay.load(str(graph))
    rows = []
    front = planner.front(graph)
    if front["baseline_peak_bytes"] != torch["baseline"]:
        raise SystemExit(f"{graph}: PyTorch's points are of another graph; run bench/peers without --stored")
    for point in torch["points"]:
        found = planner.budget(graph, content, point["peak"])
        plain = planner.budget(graph, content, point["peak"], "--no-encode")
        rows.append({
            "model": model, "budget": point["budget"], "peak": point["peak"], "of_baseline": point["peak"] / torch["baseline"],
            "torch": point["overhead"], "envelope": envelope(torch["points"], point["peak"]),
            "echo": found and found["recompute_time_ratio"], "least": found and found.get("recompute_time_bound", 0),
            "echo_no_encode": plain and plain["recompute_time_ratio"],
            "torch_ms": 1000 * point["cpu_seconds"], "echo_ms": found and found["plan_ms"]})
    mirror = planner.report(graph, "--strategy", "mirror")
    at_mirror = planner.budget(graph, content, mirror["peak_bytes"])
    return {
        "model": model, "graph": torch["graph"], "nodes": torch["nodes"], "baseline": torch["baseline"],
        "lower_bound": front["lower_bound_bytes"], "front": front["front"], "front_ms": front["pass_ms"], "points": rows,
        **beside_torch(rows),
        "mirror": {"peak": mirror["peak_bytes"], "overhead": mirror["recompute_time_ratio"],
                   "echo": at_mirror and at_mirror["recompute_time_ratio"]}}


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def ratios(rows, to, key="echo"):
    """Echo's overhead over theirs where both need time."""
    return [row[key] / row[to] for row in rows if row[key] is not None and row[to] > NOTHING and row[key] > NOTHING]


def least_mean(rows, to):
    """What no planner's mean goes below, over the same points as Echo's; None where the bound says nothing of one."""
    counted = [row for row in rows if row["echo"] is not None and row[to] > NOTHING and row["echo"] > NOTHING]
    return geometric_mean([row["least"] / row[to] for row in counted]) if all(row["least"] > 0 for row in counted) else None


def bar(name, value, limit, **more):
    return {"bar": name, "value": value, "limit": limit, "passed": value is not None and value <= limit, **more}


def beaten(rows, key="echo"):
    """Points at which Echo does not meet the peak, or needs more than the envelope."""
    return [row for row in rows if row[key] is None or row[key] > row["envelope"] * EVERY_POINT_BAR + NOTHING]


def beside_torch(rows):
    """A model's points, summed up."""
    return {"points lost": len(beaten(rows)), "of the envelope": geometric_mean(ratios(rows, "envelope")),
            "of its own": geometric_mean(ratios(rows, "torch")), "torch_ms": statistics.median_high(row["torch_ms"] for row in rows)}


def summary(models):
    """The bars over all points of all models. Geometric means are over points where both need time; the rest is counted."""
    rows = [row for model in models for row in model["points"]]
    lost = beaten(rows)
    worst = [model["front_ms"] / min(row["torch_ms"] for row in model["points"]) for model in models]
    single = [statistics.median(row["echo_ms"] for row in model["points"] if row["echo_ms"] is not None)
              / statistics.median(row["torch_ms"] for row in model["points"]) for model in models]
    bars = [
        bar("points of PyTorch's where Echo needs more than the envelope", len(lost), 0, points=len(rows),
            where=[f"{row['model']} at {row['budget']}" for row in lost]),
        bar("Echo's overhead over the envelope, geometric mean", geometric_mean(ratios(rows, "envelope")), ENVELOPE_BAR,
            least=least_mean(rows, "envelope")),
        bar("Echo's overhead over PyTorch's own, geometric mean", geometric_mean(ratios(rows, "torch")), RAW_BAR,
            least=least_mean(rows, "torch")),
        bar("Echo's overhead over the least that is proved, geometric mean", geometric_mean(ratios(rows, "least")), LEAST_BAR),
        bar("time of a whole front over PyTorch's fastest single budget, worst model", max(worst), 1.0),
        bar("time of one budget over PyTorch's, median of a model, worst model", max(single), TIME_BAR),
    ]
    figures = {
        "models": len(models), "points": len(rows),
        "no time in the envelope": sum(row["envelope"] <= NOTHING for row in rows),
        "no time in Echo alone": sum(row["echo"] is not None and row["echo"] <= NOTHING < row["torch"] for row in rows),
        "points in the mean over the envelope": len(ratios(rows, "envelope")),
        "points in the mean over the own": len(ratios(rows, "torch")),
        "without encodings, points lost": len(beaten(rows, "echo_no_encode")),
        "without encodings, over the envelope": geometric_mean(ratios(rows, "envelope", "echo_no_encode")),
        "without encodings, over the own": geometric_mean(ratios(rows, "torch", "echo_no_encode")),
        "time of one budget, best point": min((row["echo_ms"] / row["torch_ms"] for row in rows if row["echo_ms"]), default=None),
        "time of one budget, worst point": max((row["echo_ms"] / row["torch_ms"] for row in rows if row["echo_ms"]), default=None),
    }
    return figures, bars
