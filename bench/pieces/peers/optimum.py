# SPDX-License-Identifier: BSL-1.0
"""Echo's budget mode against the proved optimum on small graphs.

Per graph: the least peak that any plan reaches, and the least recompute time at four budgets between it and the baseline's
peak. Every optimum is a plan that tests/replay.py has accepted. Optima are kept in peers-optima.json.xz under the hash of
their graph, so that they are solved once.
"""
import collections
import hashlib
import json
import lzma
import math
import pathlib
import subprocess
import tempfile

import replay
import small_graphs
from checkmate import Problem, judged, of_steps, restored

LEVELS = (0.2, 0.4, 0.6, 0.8)  # of the way from the least peak to the baseline's
LEAST_ROOM = 1e-4  # of the baseline's peak: less is not worth a budget
RANDOM_GRAPHS, QUICK = 200, 20
SECONDS = 20  # for one solution
SOLVER = "HiGHS 1.15.1"
VERSION = 2  # of checkmate.py: optima of another one are not used
MEAN_BAR, WORST_BAR = 0.03, 0.15
NOTHING = 1e-9  # µs; less is the noise of sums


# Pieces of committed graphs, by first forward node and length, of those drawn at random the first of each model that can
# be expressed and whose least peak is at most 85 % of its baseline's. GPT-2 and NMT have none of at most 60 nodes.
PIECES = (
    ("bert_base_b32_t128", 312, 12), ("bert_base_b32_t128", 543, 20), ("densenet121_b32", 936, 11), ("densenet121_b32", 753, 13),
    ("efficientnet_b0_b64", 724, 18), ("efficientnet_b0_b64", 475, 17), ("llama_8x2048_b4_t512", 439, 11),
    ("llama_8x2048_b4_t512", 246, 14), ("marian_b64_t100", 791, 14), ("marian_b64_t100", 1160, 14),
    ("mobilenet_v3_large_b64", 525, 15), ("mobilenet_v3_large_b64", 371, 14), ("mobilenet_v3_large_b64", 396, 13),
    ("mobilenet_v3_large_b64", 443, 19), ("resnet152_b32", 1008, 15), ("resnet152_b32", 993, 11), ("resnet50_b64", 405, 14),
    ("resnet50_b64", 334, 12), ("vit_b16_b32", 251, 15), ("vit_b16_b32", 394, 26))


# ---- The graphs


def instances(folder, quick):
    """Pairs of kind and graph."""
    randoms, step = (QUICK - QUICK // 4, 4) if quick else (RANDOM_GRAPHS, 1)
    made = [("random", small_graphs.random_graph(seed)) for seed in range(randoms)]
    for model, start, length in PIECES[::step]:
        piece = small_graphs.cut(replay.load(str(folder / f"{model}.json.gz")), start, length)
        if piece is None:
            raise SystemExit(f"{model}: nodes {start} to {start + length - 1} are no piece any more; choose PIECES anew")
        made.append(("real", piece))
    return made


# ---- Optima


class Optima:
    """What has been solved, and the solver where it is installed; `solve=False` never asks it."""

    def __init__(self, path, solve=True):
        self.path, self.solve_missing = path, solve
        self.known, self.used, self.solved = {}, set(), 0
        if path.exists():
            with lzma.open(path, "rt", encoding="utf-8") as file:
                self.known = json.load(file)

    def of(self, graph):
        key = hashlib.sha256(json.dumps([VERSION, LEVELS, SECONDS, graph], sort_keys=True).encode()).hexdigest()[:16]
        self.used.add(key)
        if key not in self.known:
            if not self.solve_missing:
                return None
            self.known[key] = solve(graph)
            self.solved += 1
            if self.solved % 20 == 0:
                self.save()
        return self.known[key]

    def forget_unused(self):
        """Optima of graphs that were not asked for."""
        self.known = {key: found for key, found in self.known.items() if key in self.used}

    def save(self):
        text = json.dumps(self.known, sort_keys=True, separators=(",", ":")).encode()
        self.path.write_bytes(lzma.compress(text))


def solve(graph):
    """The optima of one graph. A plan is kept as the order in which nodes run: each step reads the latest copies."""
    import checkmate

    problem = Problem(graph)

    def answer(budget=None):
        got = checkmate.Program(problem, budget).solve(SECONDS)
        found = {"status": got.status, "seconds": round(got.seconds, 3)}
        if not got.plan:
            return found
        peak, again = judged(problem, got.plan)
        wanted = peak if budget is None else again
        if not math.isclose(wanted, got.objective, rel_tol=1e-5, abs_tol=1e-2):
            raise SystemExit(f"{graph['name']}: the program promises {got.objective}, the replay finds {wanted}")
        if budget and peak > budget:  # by the solver's tolerance: a plan, but not for this budget
            return found | {"status": "tolerance"}
        steps = checkmate.postponed(problem, [step["node"] for step in got.plan["schedule"]], max(peak, budget or 0))
        return found | {"peak": peak, "time_us": again, "bound": got.bound, "steps": steps}

    least = answer()
    baseline = problem.baseline.peak
    levels = []
    if least["status"] == "optimal" and least["peak"] < (1 - LEAST_ROOM) * baseline:
        for level in LEVELS:
            budget = int(least["peak"] + level * (baseline - least["peak"]))
            found = answer(budget)
            levels.append({"level": level, "budget": budget} | found)
    return {"name": graph["name"], "nodes": len(graph["nodes"]), "baseline": baseline, "total_us": problem.total_time,
            "least": least, "levels": levels}


# ---- Echo


class Echo:
    """Calls `echo-plan` in its budget mode, without encodings; every plan is judged by the replay."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.graph = pathlib.Path(self.folder.name, "graph.json")
        self.plan = pathlib.Path(self.folder.name, "plan.json")

    def load(self, graph):
        self.graph.write_text(json.dumps(graph), encoding="utf-8")

    def at(self, problem, budget):
        """The plan with its peak and its time, or None if Echo does not meet the budget."""
        done = subprocess.run([self.program, self.graph, "--strategy", "budget", "--budget", str(budget), "--no-encode", "--json",
                               "--emit-plan", self.plan], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        if done.returncode == 3:
            return None
        if done.returncode:
            raise SystemExit(f"{problem.json['name']}: echo-plan returned {done.returncode}: {done.stderr.strip()}")
        plan = json.loads(self.plan.read_text(encoding="utf-8"))
        peak, again = judged(problem, plan)
        if peak > budget:
            raise SystemExit(f"{problem.json['name']}: echo-plan calls a peak of {peak} bytes within a budget of {budget}")
        return {"peak": peak, "time_us": again, "plan": plan}

    def least(self, problem):
        """The lowest peak of Echo's front."""
        done = subprocess.run([self.program, self.graph, "--pareto", "--no-encode", "--json"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600, check=True)
        return min(point["peak_bytes"] for point in json.loads(done.stdout)["front"])


# ---- Why Echo needs more


class Story:
    """What a plan does with each op of a problem, told from its steps."""

    def __init__(self, problem, plan):
        self.problem = problem
        graph = problem.graph
        steps = replay.read_schedule(plan["schedule"], graph)
        self.again = collections.Counter()  # node → how often it is recomputed, views left out
        self.early = {}  # node → the recompute is not read before the next node runs first
        self.between = set()  # nodes recomputed though gradients had read an earlier copy
        read_by_gradient, self.late = set(), set()
        pending = {}
        backward = False
        for t, step in enumerate(steps):
            node = graph.nodes[step.node]
            for source in step.sources:
                made = self.root(steps, source)
                pending.pop(made, None)
                if node.phase == "backward" and made is not None:
                    read_by_gradient.add(steps[made].node)
            if problem.is_view[step.node] or node.phase == "input":
                continue
            if node.phase != "forward":
                backward = True
                self.early |= {steps[made].node: step.node for made in pending}
                pending = {}
            elif step.recompute:
                self.again[step.node] += 1
                pending[t] = True
                if step.node in read_by_gradient:
                    self.between.add(step.node)
            elif backward:
                self.late.add(step.node)

    def root(self, steps, source):
        """The step that made the storage which a copy lies on; None for an input."""
        t = source[0]
        while self.problem.is_view[steps[t].node]:
            t = steps[t].sources[0][0]
        return None if self.problem.graph.nodes[steps[t].node].phase == "input" else t


def explain(problem, optimum, echo):
    """Class and sentence: what the optimum does that Echo's plan, None if there is none, does not."""
    best = Story(problem, optimum)
    mine = Story(problem, echo) if echo else None

    def name(n):
        return repr(problem.graph.nodes[n].name)

    def some(nodes):
        nodes = sorted(nodes)
        return ", ".join(map(name, nodes[:3])) + (f" and {len(nodes) - 3} others" if len(nodes) > 3 else "")

    def only(mine_too):
        """Of these nodes of the optimum's, those of which Echo does not do the same."""
        return lambda nodes: {n for n in nodes if mine is None or n not in mine_too(mine)}

    results = {n for n, _ in problem.graph.results}
    cases = [
        ("twice", only(lambda s: {n for n, times in s.again.items() if times > 1})(n for n, times in best.again.items() if times > 1),
         "the optimum recomputes {} more than once"),
        ("between", only(lambda s: s.between)(best.between),
         "the optimum drops {} between two gradients that read it and makes it again for the second"),
        ("early", only(lambda s: s.early)(best.early),
         "the optimum recomputes {} before it is read, while what it is made from is still there"),
        ("result", only(lambda s: set(s.again))(n for n in best.again if n in results),
         "the optimum recomputes {}, a result of the graph"),
        ("late", only(lambda s: s.late)(best.late), "the optimum runs {} for the first time in the backward pass, Echo does not"),
    ]
    for kind, nodes, sentence in cases:
        if nodes:
            return kind, sentence.format(some(nodes))
    if mine is None:
        return "unmet", f"Echo meets no such budget; the optimum recomputes {some(best.again) or 'nothing'}, each once and when it is read"
    extra, missing = set(mine.again) - set(best.again), set(best.again) - set(mine.again)
    if extra and missing:
        return "other set", f"the optimum keeps {some(extra)}, which Echo recomputes, and recomputes {some(missing)} instead"
    if extra:
        return "superset", f"the optimum keeps {some(extra)}, which Echo recomputes beside all that the optimum does"
    more = {n for n in mine.again if mine.again[n] > best.again[n]}
    if more:
        return "more often", f"Echo recomputes {some(more)} more often than the optimum"
    return "other place", "both recompute the same nodes, at other places"


# ---- The comparison


def compare(graph, kind, found, echo):
    """The rows of one graph, one for each level that is solved to proof and has room."""
    problem = Problem(graph)
    echo.load(graph)
    rows = []
    for level in found["levels"]:
        row = {"graph": found["name"], "kind": kind, "nodes": found["nodes"], "level": level["level"], "budget": level["budget"],
               "baseline": found["baseline"], "optimum": None, "echo": None, "excess": None, "of_step": None, "class": None, "why": None}
        rows.append(row)
        if level["status"] != "optimal":
            row["class"] = level["status"]
            continue
        total, best = found["total_us"], level["time_us"]
        got = echo.at(problem, level["budget"])
        row["optimum"] = best / total
        if got:
            time = got["time_us"]
            row |= {"echo": time / total, "of_step": (time - best) / (total + best)}
            row["excess"] = 0.0 if abs(time - best) < NOTHING else (time - best) / best if best > NOTHING else math.inf
        if got is None or row["excess"] > 1e-6:
            steps = restored(problem, level["steps"], level["budget"])
            row["class"], row["why"] = explain(problem, of_steps(problem, steps), got and got["plan"])
        elif row["excess"] < -1e-6:
            row["class"], row["why"] = "below", "Echo's plan is outside what the program ranges over"
    return rows


def least_peaks(graph, found, echo):
    if found["least"]["status"] != "optimal":
        return None
    echo.load(graph)
    return {"graph": found["name"], "baseline": found["baseline"], "optimum": found["least"]["peak"],
            "echo": echo.least(Problem(graph))}


def summary(rows, peaks):
    """The figures of the bars. Levels whose optimum is not proved, or needs no time, are counted and left out of the mean."""
    proved = [row for row in rows if row["optimum"] is not None]
    met = [row for row in proved if row["echo"] is not None]
    judged_rows = [row for row in met if math.isfinite(row["excess"]) and row["optimum"] * 1e6 > NOTHING]
    excess = [max(0.0, row["excess"]) for row in judged_rows]
    of_step = [row["of_step"] for row in met]
    bars = [
        bar("overhead above the proved optimum, mean", sum(excess) / len(excess) if excess else None, MEAN_BAR),
        bar("overhead above the proved optimum, worst", max(excess, default=None), WORST_BAR),
        bar("budgets that a plan meets and Echo does not", len(proved) - len(met), 0),
        bar("Echo recomputes where nothing need be", len(met) - len(judged_rows)
            - sum(row["excess"] == 0.0 and row["optimum"] * 1e6 <= NOTHING for row in met), 0),
    ]
    reached = [peak["echo"] / peak["optimum"] - 1 for peak in peaks]
    return {
        "graphs": len({row["graph"] for row in rows}), "levels": len(rows), "proved": len(proved), "met": len(met),
        "counted": len(judged_rows), "below": sum(row["class"] == "below" for row in met),
        "equal": sum(abs(row["excess"]) <= 1e-6 for row in judged_rows),
        "above 3 %": sum(e > MEAN_BAR for e in excess), "above 15 %": sum(e > WORST_BAR for e in excess),
        "of whole step, mean": sum(of_step) / len(of_step) if of_step else None, "of whole step, worst": max(of_step, default=None),
        "ratio of sums": sum(row["echo"] for row in judged_rows) / sum(row["optimum"] for row in judged_rows) - 1 if judged_rows else None,
        "least peak, mean above": sum(reached) / len(reached) if reached else None,
        "least peak, worst above": max(reached, default=None),
        "classes": dict(collections.Counter(row["class"] for row in rows if row["class"]).most_common()),
    }, bars


def bar(name, value, limit):
    return {"bar": name, "value": value, "limit": limit, "passed": value is not None and value <= limit}
