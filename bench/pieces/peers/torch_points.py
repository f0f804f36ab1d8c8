#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""PyTorch's own partitioner on the committed graphs, each of its plans replayed: torch_points.py OUT.json [MODEL…]

Run by the Python of examples/pytorch/setup. For every model `min_cut_rematerialization_partition` is called at
`activation_memory_budget` = 1.0, 0.9 … 0.1, all else at its default, parameters and buffers marked as
static as torch.compile marks them. The two modules are turned into an `echo-plan/1` over the committed file: first what
the forward module runs, then the backward module, in PyTorch's order; a node that ran before is a recompute. tests/replay.py
judges the plan and measures it. OUT.json is written anew after every model.
"""
import argparse
import copy
import datetime
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "examples" / "pytorch"), str(ROOT / "tests"), str(ROOT / "bench")]

import torch  # noqa: E402
from torch import fx  # noqa: E402
from torch._functorch import config, partitioners  # noqa: E402

import export  # noqa: E402
import replay  # noqa: E402
import results  # noqa: E402
from echo_torch.graph import is_getitem, tensor_arguments  # noqa: E402
from models import MODELS  # noqa: E402

BUDGETS = tuple(round(0.1 * i, 1) for i in range(10, 0, -1))


class Joint:
    """The joint module of a model, and its nodes as those of the committed graph."""

    def __init__(self, name):
        model = MODELS[name]
        step = model.build(model.batch, model.length)
        step.module.train()
        captured = export.capture_joint(*step)
        sizes = {"batch": model.batch, "length": model.length}
        self.file = ROOT / "examples" / "graphs" / (model.file.format(name=name, **sizes) + ".json.gz")
        self.graph = replay.load(str(self.file))
        made = export.to_echo_graph(captured, self.graph["name"])
        if json.loads(json.dumps(made)) != self.graph:
            raise SystemExit(f"{name}: PyTorch's joint graph is not that of {self.file}; run examples/pytorch/export --all")

        self.module = fx.GraphModule(torch.nn.Module(), captured.graph)
        primals = [node for node in captured.graph.nodes if node.op == "placeholder" and "tangents" not in node.name]
        results = captured.graph.output_node().args[0]
        self.forward_outputs = len(results) - len(primals)  # One gradient, or None, for each primal.
        self.static = [i for i, node in enumerate(primals) if node in captured.layers]
        self.index = {node["name"]: n for n, node in enumerate(self.graph["nodes"])}
        self.value = {}  # the name of a node of PyTorch's → a value of the graph
        for node in captured.graph.nodes:
            if is_getitem(node):
                self.value[node.name] = (self.index[node.args[0].name], node.args[1])
            elif node.name in self.index:
                self.value[node.name] = (self.index[node.name], 0)

    def partition(self, budget):
        """Both modules, and the seconds that PyTorch took: by the clock, and of the processor."""
        module = copy.deepcopy(self.module)
        clock, processor = time.perf_counter(), time.process_time()
        with config.patch(activation_memory_budget=budget):
            halves = partitioners.min_cut_rematerialization_partition(
                module, None, num_fwd_outputs=self.forward_outputs, static_lifetime_input_indices=self.static)
        return halves, time.perf_counter() - clock, time.process_time() - processor

    def plan(self, forward, backward, title):
        """The modules as an `echo-plan/1`, each input of a step named by step."""
        nodes = self.graph["nodes"]
        schedule = [{"node": n} for n, node in enumerate(nodes) if node["phase"] == "input"]
        first = {item["node"]: t for t, item in enumerate(schedule)}
        for module in (forward, backward):
            ran = {}  # in this module
            for node in module.graph.nodes:
                if node.op != "call_function" or is_getitem(node):
                    continue
                n = self.index[node.name]
                item = {"node": n}
                if n in first:
                    item["recompute"] = True
                sources = []
                for _, argument in tensor_arguments(node):
                    # A placeholder of the backward module is the forward's copy, also where the node runs again.
                    m, k = self.value[argument.name]
                    saved = argument.op in ("placeholder", "get_attr")
                    sources.append([first[m] if saved else ran[m], k])
                if sources:
                    item["inputs"] = sources
                schedule.append(item)
                ran[n] = len(schedule) - 1
                first.setdefault(n, len(schedule) - 1)
        plan = {"format": "echo-plan/1", "graph": self.graph["name"], "strategy": title, "schedule": schedule}
        read = replay.read_graph(self.graph)
        stash = replay.Replay(read, replay.read_schedule(schedule, read)).stash
        return plan | {"stash": [list(storage.maker) for storage in stash]}

    def point(self, budget, plans):
        (forward, backward), clock, processor = self.partition(budget)
        plan = self.plan(forward, backward, f"torch {budget}")
        if plans:
            export.write(plan, plans / f"{self.file.name.removesuffix('.json.gz')}-{budget}.json.gz")
        verdict = replay.judge(self.graph, plan)
        if not verdict.ok:
            raise SystemExit("\n".join([f"{self.file.name} at {budget}: the plan is wrong", *verdict.lines()[:10]]))
        steps = [step for step in verdict.replay.steps if step.recompute]
        nodes = verdict.replay.graph.nodes
        return verdict, {
            "budget": budget, "peak": verdict.replay.peak,
            "overhead": sum(nodes[step.node].time_us for step in steps) / sum(node.time_us for node in nodes),
            "seconds": round(clock, 3), "cpu_seconds": round(processor, 3),
            "recomputed_nodes": len(steps), "stash": verdict.replay.stash_bytes}


def write(path, content):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(results.as_text(content), encoding="utf-8")
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {' '.join(MODELS)}; all without any")
    parser.add_argument("--plans", type=pathlib.Path, help="a folder for the plans")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.plans:
        options.plans.mkdir(parents=True, exist_ok=True)
    Joint("tiny_cnn").partition(0.5)  # What PyTorch imports on first use is not measured.

    found = {"date": datetime.date.today().isoformat(), "machine": results.machine(), "torch": torch.__version__,
             "solver": config.activation_memory_budget_solver,
             "runtime_estimator": config.activation_memory_budget_runtime_estimator, "models": {}}
    for name in options.models or MODELS:
        joint = Joint(name)
        points = []
        for budget in BUDGETS:
            verdict, point = joint.point(budget, options.plans)
            points.append(point)
            print(name, point, flush=True)
        found["models"][name] = {
            "graph": str(joint.file.relative_to(ROOT)), "nodes": len(joint.graph["nodes"]),
            "baseline": verdict.baseline.peak, "points": points}
        write(options.out, found)


if __name__ == "__main__":
    main()
