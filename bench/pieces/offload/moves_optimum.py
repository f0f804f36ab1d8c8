# SPDX-License-Identifier: BSL-1.0
"""Plans that keep, recompute and move values, against the proved optimum on small graphs: moves_optimum.py
ECHO_PLAN.

For each graph and link, the least peak within 5 % of a step, recomputation and waits together: by `echo-plan`, without
encodings, and by the program of program.py. Every plan of the program is judged by tests/replay.py. Graphs are those of
bench/peers that are small enough for the program. Written to bench/results/offload-optimum.json."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / each) for each in ("bench", "tests", "bench/pieces/peers")]

import checkmate  # noqa: E402
import optimum  # noqa: E402
import program  # noqa: E402
import replay  # noqa: E402
import results  # noqa: E402

LINKS = (25, 100)  # GB/s each way
LIMIT = 0.05  # of a step
SECONDS = 30  # for one solution
MOST_OPS = 23  # of a graph; few of more are solved in that time
MEAN_BAR = 0.02


def problems():
    """Pairs of kind and problem."""
    for kind, graph in optimum.instances(ROOT / "examples" / "graphs", quick=False):
        problem = checkmate.Problem(graph)
        if len(problem.ops) <= MOST_OPS:
            yield kind, problem


def of_echo(echo_plan, graph, *asked):
    """The least peak within the limit, and the certified bound."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(graph, file)
        file.flush()
        done = subprocess.run([echo_plan, file.name, "--max-overhead", str(LIMIT), "--no-encode", "--json", *asked],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    return report["peak_bytes"], report["lower_bound_bytes"]


def judged(problem, answer, rate):
    """The peak of the program's plan. Errors: it is no plan, or not what the program promised."""
    name = problem.json["name"]
    verdict = replay.judge(problem.json, answer.plan)
    if not verdict.ok:
        raise SystemExit(f"{name}: {verdict.violations[0]}")
    found, nodes = verdict.replay, problem.graph.nodes
    again = sum(nodes[step.node].time_us for step in found.steps if step.recompute)
    waits = replay.waits(found.steps, found.reads, replay.Link(rate, rate, True, replay.LARGEST), lambda n: nodes[n].time_us)
    if abs(found.peak - answer.objective) > 1 + 1e-4 * found.peak or again + waits > problem.total_time * (LIMIT + 1e-6):
        raise SystemExit(f"{name}: the program promises {answer.objective} bytes, the replay finds {found.peak}, and "
                         f"{again + waits} µs of {problem.total_time}")
    return found.peak


def compare(echo_plan, kind, problem, gigabytes):
    rate = 1e3 * gigabytes
    alone, _ = of_echo(echo_plan, problem.json)
    both, bound = of_echo(echo_plan, problem.json, "--offload", f"{gigabytes}GB/s")
    answer = program.Program(problem, rate, LIMIT, below=both).solve(SECONDS)
    better = judged(problem, answer, rate) if answer.plan else None
    if better and better < bound:
        raise SystemExit(f"{problem.json['name']}: a plan of {better} bytes lies below the certified bound, {bound}")
    optimum_of = {"optimal": better, "infeasible": both, "limit": None}  # none is below: Echo's is the optimum
    return {"graph": problem.json["name"], "kind": kind, "GB/s": gigabytes, "nodes": len(problem.graph.nodes),
            "recomputation": alone, "echo": both, "optimum": optimum_of[answer.status], "better": better,
            "bound": answer.bound and int(answer.bound + 0.5), "seconds": round(answer.seconds, 1)}


def bars(rows):
    above = [row["echo"] / row["optimum"] - 1 for row in rows if row["optimum"]]
    mean = sum(above) / len(above)
    return [{"bar": "peak above the proved optimum of keeping, recomputing and moving, 5 % of a step, small graphs, mean",
             "value": round(mean, 4), "limit": MEAN_BAR, "passed": mean <= MEAN_BAR, "worst": round(max(above), 4),
             "proved": len(above), "not proved": len(rows) - len(above)}]


def groups(rows):
    """Of each kind of graph and each link, what was found."""
    found = []
    for kind, gigabytes in sorted({(row["kind"], row["GB/s"]) for row in rows}):
        own = [row for row in rows if (row["kind"], row["GB/s"]) == (kind, gigabytes)]
        proved = [row for row in own if row["optimum"]]
        above = [row["echo"] / row["optimum"] - 1 for row in proved]
        alone = [row["recomputation"] / row["optimum"] - 1 for row in proved]
        found.append({"kind": kind, "GB/s": gigabytes, "graphs": len(own), "proved": len(proved),
                      "equal": sum(row["echo"] == row["optimum"] for row in proved),
                      "above %": round(100 * sum(above) / len(above), 2), "worst %": round(100 * max(above), 1),
                      "recomputation %": round(100 * sum(alone) / len(alone), 1),
                      "bettered": sum(row["optimum"] is None and row["better"] is not None for row in own)})
    return found


def main():
    [echo_plan] = sys.argv[1:]
    rows = []
    for kind, problem in problems():
        for gigabytes in LINKS:
            rows.append(compare(echo_plan, kind, problem, gigabytes))
            print(rows[-1], flush=True)
    results.write("offload-optimum", rows, bars=bars(rows), groups=groups(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
