# SPDX-License-Identifier: BSL-1.0
"""The least peak of a small graph within a limit on time, over plans that keep, recompute and move values: an integer
program, by HiGHS.

The schedules are those of bench/pieces/peers/checkmate.py: each backward node has a stage, in which forward nodes may run
again. Each of these runs is a slot. Before a slot, values may leave for the host's memory or come back, by the clocks of
docs/formats.md: copies out in the order of their offload steps, each behind what made it; the computation waits at the
offload step; copies in from where the computation comes to the reload step; the readers wait.

Beside what checkmate.py leaves out: a value leaves at most once, and is the copy that its first run in the forward pass
made; it comes back at most once; copies that leave before the same slot do so in the order in which they were made, and
those that come back before the same slot, in the reverse order.
"""
import dataclasses
import math
import time

import checkmate
from checkmate import INFINITE, UNIT, Column


@dataclasses.dataclass
class Slot:
    """An op that may run, and whether it does: 1 or a column."""
    op: int
    runs: object


class Program:
    """Plans with a peak below `below`. `limit`: of recomputation and waits together, a part of a step. `link`: bytes in a
    microsecond each way."""

    def __init__(self, problem, link, limit, below):
        self.problem, self.ops, self.values, self.forward = problem, problem.ops, problem.values, problem.forward
        self.link, self.end = link, problem.total_time * (1 + limit)
        self.rows = checkmate.Rows()
        self.unit = math.gcd(*(value.bytes for value in self.values), *(op.workspace for op in self.ops))  # of any peak
        self.peak = self.rows.column(1.0, whole=False, high=max(0, below - self.unit) / UNIT)
        self.add_slots()
        self.add_presence()
        self.add_memory()
        self.add_clocks()

    def binary(self):
        return Column(self.rows.column())

    def at_least(self, terms, constant=0.0):
        """Σ terms ≥ constant; a term is a factor and 0, 1 or a column."""
        sure = sum(factor for factor, what in terms if what == 1)
        self.rows.row(constant - sure, INFINITE, [(what.at, factor) for factor, what in terms if isinstance(what, Column)])

    # What runs, and what is on the device

    def add_slots(self):
        self.slots = [Slot(i, self.binary() if op.late else 1) for i, op in enumerate(self.ops[:self.forward])]
        horizon = self.horizons()
        for t in range(len(self.ops) - self.forward):
            again = [i for i in range(self.forward) if self.ops[i].again and t <= horizon[i]]
            self.slots += [Slot(i, self.binary()) for i in again] + [Slot(self.forward + t, 1)]
        self.of_op = [[s for s, slot in enumerate(self.slots) if slot.op == i] for i in range(len(self.ops))]
        for i, op in enumerate(self.ops):
            if op.late:
                self.at_least([(1.0, self.slots[s].runs) for s in self.of_op[i]], 1.0)

    def horizons(self):
        """The last stage in which a forward op can be of use."""
        stages = len(self.ops) - self.forward
        found = [-1] * self.forward
        for i in reversed(range(self.forward)):
            for v in self.ops[i].makes:
                uses = [r - self.forward if r >= self.forward else found[r] for r in self.values[v].readers]
                found[i] = max([found[i], *uses, *([stages - 1] if self.values[v].result else [])])
        return found

    def add_presence(self):
        """there[v][s]: the value is on the device in slot s. out[v][s], back[v][s]: it leaves before the slot, or comes
        back."""
        count = len(self.slots)
        self.there, self.out, self.back = [], [], []
        for v, value in enumerate(self.values):
            first = self.of_op[value.maker][0]
            last = count - 1 if value.result else max([s for r in value.readers for s in self.of_op[r]], default=first)
            last = max([last, *self.of_op[value.maker]])
            there = [0] * first + [Column(self.rows.column(whole=False)) for _ in range(first, last + 1)] + [0] * (count - 1 - last)
            out, back = [0] * count, [0] * count
            if not value.result:
                for s in range(first + 1, last + 1):
                    out[s] = self.binary() if s < last else 0
                    back[s] = self.binary() if s > first + 1 else 0
            self.there.append(there)
            self.out.append(out)
            self.back.append(back)
            self.link_presence(v, first, last)

    def link_presence(self, v, first, last):
        value, there, out, back = self.values[v], self.there[v], self.out[v], self.back[v]
        for s in range(first, last + 1):
            makes = self.slots[s].runs if self.slots[s].op == value.maker else 0
            before = there[s - 1] if s > first else 0
            self.at_least([(-1.0, there[s]), (1.0, before), (1.0, makes), (1.0, back[s])])
            if self.slots[s].op in (value.maker, *value.readers):
                self.at_least([(1.0, there[s]), (-1.0, self.slots[s].runs)])
            if out[s] != 0:
                self.at_least([(1.0, before), (-1.0, out[s])])
            if back[s] != 0:
                self.at_least([(1.0, one) for one in out[:s]] + [(-1.0, back[s])])
            if makes != 0 and s > first:  # what leaves is the copy of the first run
                self.at_least([(-1.0, makes)] + [(-1.0, one) for one in out[s + 1:]], -1.0)
        self.at_least([(-1.0, one) for one in out], -1.0)
        self.at_least([(-1.0, one) for one in back], -1.0)
        if self.slots[first].runs != 1:
            self.at_least([(1.0, self.slots[first].runs)] + [(-1.0, one) for one in out])
        if value.result:
            self.at_least([(1.0, there[-1])], 1.0)

    def add_memory(self):
        for s, slot in enumerate(self.slots):
            terms = [(self.peak, 1.0)]
            terms += [(there[s].at, -value.bytes / UNIT) for there, value in zip(self.there, self.values) if there[s] != 0]
            own = self.ops[slot.op].workspace / UNIT
            if slot.runs != 1:
                terms.append((slot.runs.at, -own))
            self.rows.row(own if slot.runs == 1 else 0.0, INFINITE, terms)

    # When

    def add_clocks(self):
        def moments():
            return [Column(self.rows.column(whole=False, high=self.end)) for _ in self.slots]

        self.begin, self.ended, self.come, self.all_out, self.all_back = (moments() for _ in range(5))
        self.arrived = [Column(self.rows.column(whole=False, high=self.end)) for _ in self.values]
        self.out_time = [value.bytes / self.link for value in self.values]
        for s in range(len(self.slots)):
            self.add_slot_clocks(s)

    def add_slot_clocks(self, s):
        """`come`: where the computation has come before what comes back begins; `all_out`, `all_back`: the ends of copies."""
        slot, end = self.slots[s], self.end
        self.at_least([(1.0, self.begin[s]), (-1.0, self.come[s])])
        self.at_least([(1.0, self.ended[s]), (-1.0, self.begin[s]), (-self.ops[slot.op].time, slot.runs)])
        if s > 0:
            self.at_least([(1.0, self.come[s]), (-1.0, self.ended[s - 1])])
        leaving = [v for v in range(len(self.values)) if self.out[v][s] != 0]
        coming = [v for v in reversed(range(len(self.values))) if self.back[v][s] != 0]
        before = self.all_out[s - 1] if s > 0 else 0
        self.at_least([(1.0, self.all_out[s]), (-1.0, before)] + [(-self.out_time[v], self.out[v][s]) for v in leaving])
        for k, v in enumerate(leaving):
            made = self.ended[self.of_op[self.values[v].maker][0]]
            behind = [(-self.out_time[u], self.out[u][s]) for u in leaving[k + 1:]]
            self.at_least([(1.0, self.all_out[s]), (-1.0, made), (-end - self.out_time[v], self.out[v][s]), *behind], -end)
            self.at_least([(1.0, self.come[s]), (-1.0, self.all_out[s]), (-end, self.out[v][s])], -end)
        self.add_arrivals(s, coming)
        for v in dict.fromkeys(self.ops[slot.op].reads):
            came = [(-end, one) for one in self.back[v][:s + 1]]
            if any(one != 0 for _, one in came):
                self.at_least([(1.0, self.begin[s]), (-1.0, self.arrived[v]), *came, (-end, slot.runs)], -2 * end)

    def add_arrivals(self, s, coming):
        end, before = self.end, self.all_back[s - 1] if s > 0 else 0
        self.at_least([(1.0, self.all_back[s]), (-1.0, before)])
        for k, v in enumerate(coming):
            takes = self.out_time[v]
            ahead = [(-self.out_time[u], self.back[u][s]) for u in coming[:k]]
            for ready in (self.come[s], before):
                self.at_least([(1.0, self.arrived[v]), (-1.0, ready), (-end - takes, self.back[v][s]), *ahead], -end)
            self.at_least([(1.0, self.all_back[s]), (-1.0, self.arrived[v]), (-end, self.back[v][s])], -end)

    # Solving

    def solve(self, seconds):
        """Status, the bound on the peak, and a plan if one was found. What is less than the unit away from the bound is the
        optimum."""
        import highspy

        start = time.perf_counter()
        solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(seconds)), ("mip_rel_gap", 1e-6),
                              ("mip_abs_gap", 0.999 * self.unit / UNIT), ("random_seed", 1)):
            solver.setOptionValue(option, value)
        solver.passModel(self.rows.as_model(highspy))
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        # Nothing here is unbounded; and a bound of infinity is that of nothing at all.
        if (status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
                or info.mip_dual_bound == INFINITE):
            return checkmate.Answer("infeasible", seconds=time.perf_counter() - start)
        answer = checkmate.Answer("optimal" if status == highspy.HighsModelStatus.kOptimal else "limit",
                                  bound=info.mip_dual_bound * UNIT, seconds=time.perf_counter() - start)
        if info.primal_solution_status == 2:
            self.solution = solver.getSolution().col_value
            answer.objective = info.objective_function_value * UNIT
            answer.plan = self.plan()
        return answer

    def chosen(self, what):
        return bool(what) if isinstance(what, int) else self.solution[what.at] > 0.5

    def plan(self):
        writer = MovingWriter(self.problem)
        for s, slot in enumerate(self.slots):
            for v, value in enumerate(self.values):
                if self.chosen(self.out[v][s]):
                    writer.leave(value.key)
            for v in reversed(range(len(self.values))):
                if self.chosen(self.back[v][s]):
                    writer.come_back(self.values[v].key)
            if self.chosen(slot.runs):
                writer.op(slot.op)
        return writer.finish() | {"link": {"out_bytes_per_us": self.link, "in_bytes_per_us": self.link}}


class MovingWriter(checkmate.PlanWriter):
    """Writes moves as well. What is back is read from there, until its node runs again."""

    def __init__(self, problem):
        self.left, self.moved = {}, {}
        super().__init__(problem)

    def leave(self, value):
        self.schedule.append({"offload": self.copy(value)})
        self.left[value] = len(self.schedule) - 1

    def come_back(self, value):
        self.schedule.append({"reload": self.left[value]})
        self.moved[value] = [len(self.schedule) - 1, 0]

    def step(self, n, sources):
        self.moved = {value: at for value, at in self.moved.items() if value[0] != n}
        return super().step(n, sources)

    def copy(self, value):
        return self.moved.get(tuple(value)) or super().copy(value)
