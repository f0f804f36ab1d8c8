# SPDX-License-Identifier: BSL-1.0
"""The optima that bench/peers compares with: plans that the replay accepts, and no plan of the same space is better.

What needs the solver is skipped where highspy is not installed, neither for this Python nor in bench/peers' environment.
"""
import glob
import heapq
import itertools
import json
import os
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "bench" / "pieces" / each) for each in ("peers", "offload")]
sys.path += glob.glob(os.path.join(os.environ.get("ECHO_PEERS_VENV", ROOT / ".venv" / "peers"), "lib/python*/site-packages"))

import checkmate  # noqa: E402
import fronts  # noqa: E402
import optimum  # noqa: E402
import peer_plans  # noqa: E402
import program  # noqa: E402
import replay  # noqa: E402
import small_graphs  # noqa: E402

try:
    import highspy
except ImportError:
    highspy = None

STORED = ROOT / "bench" / "results" / "peers-optima.json.xz"


def tiny_graph(seed):
    """A random graph of few forward ops, so that all plans can be tried."""
    rng = random.Random(seed)
    while True:
        graph = small_graphs._network(rng, rng.randint(4, 6)) | {"name": f"tiny {seed}"}
        problem = checkmate.Problem(graph)
        if 3 <= problem.forward <= 6 and 3 <= len(problem.ops) - problem.forward <= 6:
            return problem


class Search:
    """The least time at a budget by Dijkstra's algorithm over what is there after each step: any forward op may run at any
    time, in any order and as often as it likes. Nothing is shared with the integer program but the reading of the graph."""

    def __init__(self, problem, budget):
        self.p, self.budget = problem, budget
        self.sure = [i for i, op in enumerate(problem.ops) if not op.late]

    def load(self, there, op):
        return sum(self.p.values[v].bytes for v in [*there, *op.makes]) + op.workspace

    def moves(self, done, there, ran):
        """Pairs of time and state: an op runs, the next one for the first time or a forward one; or a value is dropped."""
        if done == len(self.sure):
            return  # Behind the last gradient only results could be made again.
        backward = self.sure[done] >= self.p.forward
        again = [i for i in range(self.p.forward) if self.p.ops[i].again and (backward or (self.p.ops[i].late and i not in ran))]
        for i in [self.sure[done], *again]:
            op = self.p.ops[i]
            if set(op.reads) <= there and self.load(there, op) <= self.budget:
                first = i == self.sure[done]
                now = ran | {i} if i < self.p.forward else ran
                yield 0.0 if first or i not in ran else op.time, (done + first, there | set(op.makes), now)
        for v in there:
            value = self.p.values[v]
            if value.maker < self.p.forward or not (value.result or any(r in self.sure[done:] for r in value.readers)):
                yield 0.0, (done, there - {v}, ran)

    def least_time(self):
        results = {v for v, value in enumerate(self.p.values) if value.result}
        late = {i for i, op in enumerate(self.p.ops) if op.late}
        start = (0, frozenset(), frozenset())
        best, heap, count = {start: 0.0}, [(0.0, 0, start)], itertools.count(1)
        while heap:
            time, _, state = heapq.heappop(heap)
            if time > best[state]:
                continue
            done, there, ran = state
            if done == len(self.sure) and results <= there and late <= ran:
                return time
            for cost, other in self.moves(*state):
                if time + cost < best.get(other, float("inf")):
                    best[other] = time + cost
                    heapq.heappush(heap, (time + cost, next(count), other))
        return None


class Peers(unittest.TestCase):
    def test_random_graphs_are_what_the_program_can_express(self):
        for seed in range(optimum.RANDOM_GRAPHS):
            graph = small_graphs.random_graph(seed)
            problem = checkmate.Problem(graph)
            self.assertEqual(problem.baseline.violations, [])
            self.assertLessEqual(len(graph["nodes"]), small_graphs.MOST_NODES)
            self.assertEqual(graph, small_graphs.random_graph(seed))

    def test_pieces_of_real_graphs(self):
        pieces = [graph for kind, graph in optimum.instances(ROOT / "examples" / "graphs", quick=True) if kind == "real"]
        self.assertTrue(pieces)
        for graph in pieces:
            self.assertEqual(checkmate.Problem(graph).baseline.violations, [])

    def test_what_the_program_leaves_out_is_refused(self):
        graph = small_graphs.random_graph(0)
        graph["nodes"][-1]["control"] = [0]
        with self.assertRaises(checkmate.Unsupported):
            checkmate.Problem(graph)

    @unittest.skipUnless(STORED.exists(), "no stored optima")
    def test_stored_optima_are_plans(self):
        optima = optimum.Optima(STORED, solve=False)
        for seed in range(5):
            graph = small_graphs.random_graph(seed)
            found = optima.of(graph)
            self.assertIsNotNone(found, f"random {seed} is not stored: run bench/peers optimum")
            problem = checkmate.Problem(graph)
            for level in found["levels"]:
                peak, again = checkmate.judged(problem, checkmate.of_steps(problem, level["steps"]))
                self.assertLessEqual(peak, level["budget"])
                self.assertAlmostEqual(again, level["time_us"], 6)

    @unittest.skipUnless(highspy, "highspy is not installed")
    def test_optima_are_plans(self):
        for seed in range(4):
            found = optimum.solve(small_graphs.random_graph(seed))  # exits if the replay finds other figures
            self.assertEqual(found["least"]["status"], "optimal")
            for level in found["levels"]:
                self.assertEqual(level["status"], "optimal")

    @unittest.skipUnless(highspy, "highspy is not installed")
    def test_no_plan_of_the_space_is_better(self):
        compared = saving = 0
        for seed in range(20):
            problem = tiny_graph(seed)
            peak, _ = checkmate.judged(problem, checkmate.Program(problem).solve(20).plan)
            room = problem.baseline.peak - peak
            if room < optimum.LEAST_ROOM * peak:
                continue
            self.assertIsNone(Search(problem, peak - 1).least_time(), problem.json["name"])
            for budget in (peak, peak + room // 3, peak + 2 * room // 3):
                got = checkmate.Program(problem, budget).solve(20)
                self.assertEqual(got.status, "optimal")
                self.assertAlmostEqual(got.objective, Search(problem, budget).least_time(), 3, problem.json["name"])
                compared += 1
                saving += got.objective > 0
        self.assertGreater(saving, 8, f"of {compared}")

    @unittest.skipUnless(highspy, "highspy is not installed")
    def test_the_optimum_with_moves_is_a_plan_within_the_time(self):
        moved, limit = 0, 0.2
        for seed in range(8):
            problem = tiny_graph(seed)
            times = [node.time_us for node in problem.graph.nodes]
            slow, fast = (program.Program(problem, rate, limit, problem.baseline.peak + problem.baseline.peak).solve(20)
                          for rate in (1.0, 1e6))
            for answer, rate in ((slow, 1.0), (fast, 1e6)):
                self.assertEqual(answer.status, "optimal")
                verdict = replay.judge(problem.json, answer.plan)
                self.assertTrue(verdict.ok, verdict.violations)
                self.assertAlmostEqual(verdict.replay.peak / answer.objective, 1, 5)
                again = sum(times[step.node] for step in verdict.replay.steps if step.recompute)
                waits = replay.waits(verdict.replay.steps, verdict.replay.reads, replay.Link(rate, rate, True, replay.LARGEST),
                                     times.__getitem__)
                self.assertLessEqual(again + waits, limit * problem.total_time * (1 + 1e-6))
            self.assertLessEqual(fast.objective, slow.objective * (1 + 1e-6))
            moved += any("offload" in step for step in fast.plan["schedule"])
            # No copy ends in time over the slow link: that is the optimum of recomputation alone.
            peak = round(slow.objective)
            self.assertLessEqual(checkmate.Program(problem, peak).solve(20).objective, limit * problem.total_time * (1 + 1e-6))
            unit = small_graphs.UNIT
            lower = checkmate.Program(problem, peak - unit).solve(20)
            self.assertTrue(lower.status == "infeasible" or lower.objective > limit * problem.total_time)
        self.assertGreater(moved, 2)

    def test_plans_of_peers_that_move_are_plans(self):
        for name in ("tiny_cnn", "resnet50_b64", "llama_8x2048_b4_t512"):
            graph = replay.load(str(ROOT / "examples" / "graphs" / f"{name}.json.gz"))
            peer = peer_plans.Peer(graph, 25e3)
            plans = [peer_plans.pytorch(peer, prefetch=False), peer_plans.pytorch(peer, prefetch=True), peer_plans.torchtitan(peer)]
            self.assertEqual(plans[2] is None, name == "tiny_cnn")  # it has no layers
            for plan in filter(None, plans):
                verdict = replay.judge(graph, plan)
                self.assertTrue(verdict.ok, verdict.violations)
                self.assertTrue(any("offload" in step for step in plan["schedule"]))
                self.assertLessEqual(verdict.replay.peak, verdict.baseline.peak)

    def test_points_of_pytorch_are_of_the_committed_graphs(self):
        models = json.loads((STORED.parent / "peers-torch.json").read_text(encoding="utf-8"))["models"]
        self.assertGreaterEqual(len(models), 8)
        for name in ("resnet50", "mlp"):
            graph = replay.read_graph(replay.load(str(ROOT / models[name]["graph"])))
            self.assertEqual(models[name]["baseline"], replay.Replay(graph, replay.own_order(graph)).peak)
        for model in models.values():
            self.assertEqual([point["budget"] for point in model["points"]], [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])

    def test_bars(self):
        points = [{"peak": 10, "overhead": 0.0}, {"peak": 6, "overhead": 0.1}, {"peak": 7, "overhead": 0.3}]
        self.assertEqual([fronts.envelope(points, peak) for peak in (10, 6, 7)], [0.0, 0.1, 0.1])
        rows = [{"envelope": 0.0, "echo": 0.0}, {"envelope": 0.1, "echo": 0.05}, {"envelope": 0.1, "echo": 0.2},
                {"envelope": 0.1, "echo": None}, {"envelope": 0.0, "echo": 0.01}, {"envelope": 0.1, "echo": 0.0}]
        self.assertEqual(fronts.beaten(rows), rows[2:5])
        self.assertEqual(fronts.ratios(rows, "envelope"), [0.5, 2.0])
        self.assertAlmostEqual(fronts.geometric_mean([0.5, 2.0]), 1.0)

    def test_explanations(self):
        graph = small_graphs.random_graph(0)
        problem = checkmate.Problem(graph)
        plain = checkmate.of_steps(problem, range(len(graph["nodes"])))
        kind, sentence = optimum.explain(problem, plain, None)
        self.assertEqual(kind, "unmet")
        self.assertIn("nothing", sentence)


if __name__ == "__main__":
    unittest.main()
