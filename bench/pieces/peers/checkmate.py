# SPDX-License-Identifier: BSL-1.0
"""The true optimum on small graphs, in the style of Checkmate (Jain et al., MLSys 2020): an integer program, by HiGHS.

The plans it ranges over are those of the format that keep the order of first runs:
- Each backward node has a stage. In it, before the node, any forward nodes that may run again run, in file order, as
  often as there are stages. The copy made last is the one that is read; it may be dropped after any read.
- A forward node that only gradients need may have its first run, which is free, in any stage.
- Views cost nothing and follow the copy they look at; they stand in the schedule just before their first reader.
Memory is the format's replay, step by step: resident storages nothing, each other storage from its maker to its last
reader, outputs for their own step at least, results to the end, a step's workspace on top.

Not in the program, and refused: in-place, control, encodings, views with several inputs or as results of the forward pass.
Beyond the program, but allowed by the format: running a node twice within one stage, another order within a stage,
running backward nodes again, recomputing in the forward pass.
"""
import dataclasses
import time

import replay

INFINITE = float("inf")
UNIT = 65536.0  # bytes in the program's rows: its tolerance of a millionth is less than a byte


class Unsupported(ValueError):
    """The graph holds what the program leaves out."""


# ---- The graph as the program sees it: without views and inputs


@dataclasses.dataclass
class Op:
    node: int
    time: float
    workspace: int
    reads: list  # values, in order, each once
    makes: list
    again: bool = False  # it may run twice
    late: bool = False  # its first run may stand in the backward pass


@dataclasses.dataclass
class Value:
    maker: int  # an op
    key: tuple  # (node, output)
    bytes: int
    readers: list = dataclasses.field(default_factory=list)  # ops
    result: bool = False


class Problem:
    """Ops are numbered in order; the first `forward` ones are forward ones."""

    def __init__(self, graph):
        self.json = graph
        self.graph = replay.read_graph(graph)
        self.baseline = replay.Replay(self.graph, replay.own_order(self.graph))
        self.total_time = sum(node.time_us for node in self.graph.nodes)
        self.ops, self.values, self.forward, self.base = [], [], 0, {}  # base: (node, output) → a value's number, None if resident
        self.is_view = [False] * len(self.graph.nodes)
        if replay.dead_nodes(self.graph, self.baseline):
            raise Unsupported("dead nodes")
        for n, node in enumerate(self.graph.nodes):
            self.add(n, node)
        for n, k in self.graph.results:
            value = self.base[n, k]
            if value is None:
                continue
            if self.is_view[n] and self.values[value].maker < self.forward:
                raise Unsupported("a result is a view of a forward value")
            self.values[value].result = True
        self.find_late()

    def add(self, n, node):
        if node.control or any(out.inplace is not None for out in node.outputs):
            raise Unsupported("control or in-place")
        if node.phase == "input":
            self.base |= {(n, k): None for k in range(len(node.outputs))}
            return
        if any(out.resident for out in node.outputs):
            raise Unsupported("a resident output")
        if node.kind == "view":
            if len(node.inputs) != 1 or node.time_us or node.workspace or any(out.view_of != 0 for out in node.outputs) \
                    or node.rerun == "never":
                raise Unsupported("a view that is more than a view")
            self.is_view[n] = True
            self.base |= {(n, k): self.base[node.inputs[0]] for k in range(len(node.outputs))}
            return
        if any(out.view_of is not None for out in node.outputs):
            raise Unsupported("an output is a view, but its op is none")
        if node.phase == "forward":
            if len(self.ops) > self.forward:
                raise Unsupported("a forward node behind a backward one")
            self.forward += 1
        here = len(self.ops)
        reads = list(dict.fromkeys(self.base[v] for v in node.inputs if self.base[v] is not None))
        op = Op(n, node.time_us, node.workspace, reads, [], again=node.phase == "forward" and node.rerun != "never")
        for value in reads:
            self.values[value].readers.append(here)
        for k, out in enumerate(node.outputs):
            self.base[n, k] = len(self.values)
            op.makes.append(len(self.values))
            self.values.append(Value(here, (n, k), out.bytes))
        self.ops.append(op)

    def find_late(self):
        count = self.forward
        for i in reversed(range(count)):
            op = self.ops[i]
            made = [self.values[v] for v in op.makes]
            readers = [reader for value in made for reader in value.readers]
            op.late = op.again and not any(value.result for value in made) and all(
                reader >= count or self.ops[reader].late for reader in readers)


# ---- The program


class Rows:
    """A linear program under construction. An expression is a list of (column, coefficient), and a constant apart."""

    def __init__(self):
        self.cost, self.low, self.high, self.whole = [], [], [], []
        self.row_low, self.row_high, self.start, self.index, self.value = [], [], [0], [], []

    def column(self, cost=0.0, whole=True, high=1.0):
        self.cost.append(cost)
        self.low.append(0.0)
        self.high.append(high)
        self.whole.append(whole)
        return len(self.cost) - 1

    def row(self, low, high, terms):
        merged = {}
        for column, factor in terms:
            merged[column] = merged.get(column, 0.0) + factor
        self.index += merged.keys()
        self.value += merged.values()
        self.start.append(len(self.index))
        self.row_low.append(low)
        self.row_high.append(high)

    def at_most(self, left, right):
        """left ≤ right; both are 0, 1 or a column."""
        if left == 0 or right == 1:
            return
        terms = [] if left == 1 else [(left.at, 1.0)]
        terms += [] if right == 0 else [(right.at, -1.0)]
        self.row(-INFINITE, -1.0 if left == 1 else 0.0, terms)

    def as_model(self, highspy):
        """What HiGHS takes."""
        import numpy

        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.row_low)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = map(numpy.array, (self.cost, self.low, self.high))
        lp.row_lower_, lp.row_upper_ = numpy.array(self.row_low), numpy.array(self.row_high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.array(self.start, dtype=numpy.int32)
        lp.a_matrix_.index_ = numpy.array(self.index, dtype=numpy.int32)
        lp.a_matrix_.value_ = numpy.array(self.value)
        lp.integrality_ = [highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous for whole in self.whole]
        return lp


@dataclasses.dataclass(frozen=True)
class Column:
    at: int


@dataclasses.dataclass
class Answer:
    status: str  # optimal, infeasible or limit
    objective: float | None = None  # µs of recompute, or bytes
    bound: float | None = None
    plan: dict | None = None
    seconds: float = 0.0


class Program:
    """The program of one problem: the least time under a budget, or the least peak if there is none."""

    def __init__(self, problem, budget=None):
        self.problem, self.ops, self.values = problem, problem.ops, problem.values
        self.forward = problem.forward
        self.stages = len(self.ops) - self.forward
        self.rows = Rows()
        self.budget, self.least_peak = budget, budget is None
        if self.least_peak:
            self.peak = self.rows.column(1.0, whole=False, high=problem.baseline.peak / UNIT)
        self.find_horizons()
        self.add_columns()
        self.add_forward()
        for t in range(self.stages):
            self.add_stage(t)

    def binary(self, cost=0.0):
        return Column(self.rows.column(0.0 if self.least_peak else cost))

    def find_horizons(self):
        """The last stage in which a value can be of use, and a forward op."""
        self.last_use = [-1] * len(self.values)
        self.horizon = [-1] * self.forward
        for v in reversed(range(len(self.values))):
            value = self.values[v]
            if value.maker >= self.forward:
                continue
            uses = [r - self.forward if r >= self.forward else self.horizon[r] for r in value.readers]
            if value.result:
                uses.append(self.stages)
            self.last_use[v] = max(uses, default=-1)
            if self.ops[value.maker].again:
                self.horizon[value.maker] = max(self.horizon[value.maker], self.last_use[v])

    def add_columns(self):
        """first[i]: op i runs in the forward pass. run[t][i]: in stage t. kept[t][v]: the copy there is at the
        start of stage t is read in it or later."""
        self.first = [self.binary(op.time) if op.late else 1 for op in self.ops[:self.forward]]
        self.run = [[self.binary(op.time) if self.ops[i].again and t <= self.horizon[i] else 0
                     for i, op in enumerate(self.ops[:self.forward])] for t in range(self.stages)]
        self.kept = [[self.keep(t, v) for v in range(len(self.values))] for t in range(self.stages + 1)]
        self.free_time = sum(op.time for op in self.ops[:self.forward] if op.late)
        for i, op in enumerate(self.ops[:self.forward]):
            if op.late:
                runs = [self.first[i]] + [stage[i] for stage in self.run if stage[i] != 0]
                self.rows.row(1.0, INFINITE, [(c.at, 1.0) for c in runs])

    def keep(self, t, v):
        value = self.values[v]
        if value.maker >= self.forward or self.last_use[v] < t or (t == self.stages and not value.result):
            return 0
        if t == self.stages:
            return 1
        return 1 if not self.ops[value.maker].again and value.result else self.binary()

    def memory(self, terms, constant):
        """Σ terms + constant ≤ the budget, or ≤ the peak."""
        merged, load = [], constant
        for column, size in terms:
            if column == 1:
                load += size
            elif column != 0 and size:
                merged.append((column.at, size / UNIT))
        if self.least_peak:
            self.rows.row(-INFINITE, -load / UNIT, merged + [(self.peak, -1.0)])
        else:
            self.rows.row(-INFINITE, (self.budget - load) / UNIT, merged)

    def either(self, live, read):
        """Live behind a step that may read it: `live` or `read`."""
        if live == 1 or read == 0:
            return live
        if read == 1 or live == 0:
            return read
        column = Column(self.rows.column(0.0, whole=False))
        self.rows.at_most(live, column)
        self.rows.at_most(read, column)
        return column

    def add_forward(self):
        loads = [[] for _ in range(self.forward)]
        for v, value in enumerate(self.values):
            if value.maker >= self.forward:
                continue
            first, live = self.first[value.maker], self.kept[0][v]
            self.rows.at_most(live, first)
            for j in reversed(range(value.maker + 1, self.forward)):
                if j in value.readers:
                    self.rows.at_most(self.first[j], first)
                    live = self.either(live, self.first[j])
                loads[j].append((live, value.bytes))
        for j, op in enumerate(self.ops[:self.forward]):
            own = op.workspace + sum(self.values[v].bytes for v in op.makes)
            self.memory(loads[j] + [(self.first[j], own)], 0)

    def add_stage(self, t):
        run, kept, after = self.run[t], self.kept[t], self.kept[t + 1]
        here = self.forward + t
        steps = [i for i in range(self.forward) if run[i] != 0] + [here]
        loads = {j: [] for j in steps}
        for v, value in enumerate(self.values):
            if value.maker >= self.forward:
                continue
            again = run[value.maker]
            there = [(c.at, 1.0) for c in (kept[v], again) if isinstance(c, Column)]
            sure = 1.0 if kept[v] == 1 else 0.0
            if len(there) + sure > 1:
                self.rows.row(-INFINITE, 1.0 - sure, there)

            def needs(reader):
                """reader ≤ kept + again"""
                if sure or reader == 0:
                    return
                terms = [(column, -factor) for column, factor in there]
                self.rows.row(-INFINITE, -1.0 if reader == 1 else 0.0, terms + ([(reader.at, 1.0)] if reader != 1 else []))

            live = after[v]
            needs(live)
            for j in reversed(steps):
                if j == value.maker:
                    loads[j].append((kept[v], value.bytes))
                elif j < value.maker:
                    loads[j].append((kept[v], value.bytes))
                else:
                    if j in value.readers:
                        reader = 1 if j == here else run[j]
                        needs(reader)
                        live = self.either(live, reader)
                    loads[j].append((live, value.bytes))
        made_before = sum(value.bytes for value in self.values
                          if self.forward <= value.maker < here and (value.result or max(value.readers, default=-1) >= here))
        for j in steps:
            op = self.ops[j]
            own = op.workspace + sum(self.values[v].bytes for v in op.makes)
            self.memory(loads[j] + [(1 if j == here else run[j], own)], made_before)

    # Solving

    def solve(self, seconds):
        import highspy

        start = time.perf_counter()
        solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(seconds)), ("mip_rel_gap", 1e-7),
                              ("mip_abs_gap", 1e-6), ("random_seed", 1)):
            solver.setOptionValue(option, value)
        solver.passModel(self.rows.as_model(highspy))
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        answer = Answer("limit", seconds=time.perf_counter() - start)
        if status == highspy.HighsModelStatus.kInfeasible:
            answer.status = "infeasible"
            return answer
        if status == highspy.HighsModelStatus.kOptimal:
            answer.status = "optimal"
        scale, shift = (UNIT, 0.0) if self.least_peak else (1.0, self.free_time)
        answer.bound = info.mip_dual_bound * scale - shift
        if info.primal_solution_status == 2:
            self.solution = [round(x) for x in solver.getSolution().col_value]
            answer.objective = info.objective_function_value * scale - shift
            answer.plan = self.plan()
        return answer

    def chosen(self, column):
        return column if isinstance(column, int) else self.solution[column.at]

    def plan(self):
        """The solution as an `echo-plan/1` whose steps name all their inputs."""
        writer = PlanWriter(self.problem)
        for i in range(self.forward):
            if self.chosen(self.first[i]):
                writer.op(i)
        for t in range(self.stages):
            for i in range(self.forward):
                if self.chosen(self.run[t][i]):
                    writer.op(i)
            writer.op(self.forward + t)
        return writer.finish()


class PlanWriter:
    """Writes steps one by one; each reads the latest copy of what it needs, views being made where they are read."""

    def __init__(self, problem):
        self.problem, self.graph = problem, problem.graph
        self.schedule, self.latest, self.views, self.ran = [], {}, {}, set()
        for n, node in enumerate(self.graph.nodes):
            if node.phase == "input":
                self.step(n, [])

    def step(self, n, sources):
        item = {"node": n}
        if n in self.ran:
            item["recompute"] = True
        if sources:
            item["inputs"] = sources
        self.ran.add(n)
        self.schedule.append(item)
        self.latest[n] = len(self.schedule) - 1
        return self.latest[n]

    def copy(self, value):
        """The step and output at which the value now stands; a view is made if the copy it is of has none yet."""
        n, k = value
        if not self.problem.is_view[n]:
            return [self.latest[n], k]
        base = self.copy(self.graph.nodes[n].inputs[0])
        key = (n, *base)
        if key not in self.views:
            self.views[key] = self.step(n, [base])
        return [self.views[key], k]

    def op(self, i):
        n = self.problem.ops[i].node
        self.step(n, [self.copy(v) for v in self.graph.nodes[n].inputs])

    def finish(self):
        for n, is_view in enumerate(self.problem.is_view):
            if is_view and n not in self.ran:
                self.copy((n, 0))
        stash = replay.Replay(self.graph, replay.read_schedule(self.schedule, self.graph)).stash
        return {"format": "echo-plan/1", "graph": self.problem.json["name"], "strategy": "optimum",
                "schedule": self.schedule, "stash": [list(storage.maker) for storage in stash]}


def judged(problem, plan):
    """Peak and recompute time of a plan, by the replay; ValueError if it is none."""
    verdict = replay.judge(problem.json, plan)
    if not verdict.ok:
        raise ValueError(f"{problem.json['name']}: {verdict.violations[0]}")
    nodes = problem.graph.nodes
    again = sum(nodes[step.node].time_us for step in verdict.replay.steps if step.recompute and not step.fused)
    return verdict.replay.peak, again


def of_steps(problem, nodes):
    """The plan that runs the nodes in this order, each step reading the latest copies."""
    seen, schedule = set(), []
    for n in nodes:
        schedule.append({"node": n, "recompute": True} if n in seen else {"node": n})
        seen.add(n)
    stash = replay.Replay(problem.graph, replay.read_schedule(schedule, problem.graph)).stash
    return {"format": "echo-plan/1", "graph": problem.json["name"], "strategy": "optimum", "schedule": schedule,
            "stash": [list(storage.maker) for storage in stash]}


def postponed(problem, nodes, limit):
    """The same plan with each recompute as late as it can stand under the limit, one after the other: a solver does not care."""
    moved = True
    while moved:
        moved = False
        seen, again = set(), []
        for t, n in enumerate(nodes):
            if n in seen and not problem.is_view[n]:
                again.append(t)
            seen.add(n)
        for t in reversed(again):
            steps = replay.read_schedule(of_steps(problem, nodes)["schedule"], problem.graph)
            reader = next((r for r in range(t + 1, len(steps)) if any(source[0] == t for source in steps[r].sources)), None)
            between = set(nodes[t + 1:reader]) - set(nodes[:t]) if reader else ()
            if not between:  # Only other recomputes stand between.
                continue
            other = nodes[:t] + nodes[t + 1:reader] + [nodes[t]] + nodes[reader:]
            try:
                peak, _ = judged(problem, of_steps(problem, other))
            except ValueError:
                continue
            if peak <= limit:
                nodes, moved = other, True
    return nodes



def restored(problem, nodes, limit):
    """The same plan with first runs that are late back in their places, where that is within the limit: to a solver, both are free."""
    phases = [node.phase for node in problem.graph.nodes]
    for op in problem.ops[:problem.forward]:
        first = nodes.index(op.node)
        place = next(t for t, n in enumerate(nodes) if phases[n] == "backward" or (phases[n] == "forward" and n > op.node))
        if not op.late or first < place:
            continue
        other = nodes[:place] + [op.node] + nodes[place:first] + nodes[first + 1:]
        try:
            peak, _ = judged(problem, of_steps(problem, other))
        except ValueError:
            continue
        if peak <= limit:
            nodes = other
    return nodes
