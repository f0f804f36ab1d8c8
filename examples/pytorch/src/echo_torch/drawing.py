"""The report of a plan for a browser: `echo-plan` draws it of the graph and the plan as files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echo_torch import costs
from echo_torch.graph import Call
from echo_torch.host import Host


def require() -> None:
    program()


def program() -> str:
    """`echo-plan`, by ECHO_PLAN or from PATH. FileNotFoundError: there is none."""
    found = os.environ.get("ECHO_PLAN") or shutil.which("echo-plan")
    if found is None or not shutil.which(found):
        raise FileNotFoundError(
            "report: the program echo-plan draws it, and there is none: "
            "build it (see README.md) and put it into PATH, or name it by ECHO_PLAN"
        )
    return found


def graph_of(host: Host, name: str, writes_over: bool) -> dict[str, Any]:
    """The planned graph as an `echo-graph/1` object, bytes rounded up as the plan counts them.

    `writes_over`: results may be written over arguments, as the halves of a plan do it.
    """
    facts = host.facts(costs.alignment_of(host))
    nodes = [_node(*both, writes_over) for both in zip(host.calls, facts, strict=True)]
    outputs = [list(place) for place in host.results()]
    return {"format": "echo-graph/1", "name": name, "nodes": nodes, "outputs": outputs}


def _node(call: Call, told: dict[str, Any], writes_over: bool) -> dict[str, Any]:
    keys = ["op", "phase", "inputs"]
    if call.phase != "input":
        keys += ["kind", "rerun", "flops", "workspace", "control", "time_us"]
    outputs = [dict(zip(("bytes", "view_of", "inplace"), output, strict=True)) for output in told["outputs"]]
    if writes_over and call.over is not None:
        outputs[0]["inplace"] = call.over
    outputs = [{key: fact for key, fact in output.items() if fact is not None} for output in outputs]
    facts = {"name": call.node.name + call.part, "layer": call.layer, "outputs": outputs}
    return facts | {key: told[key] for key in keys if told[key] is not None}


def steps_of(plan: Any, order: Sequence[int]) -> list[dict[str, Any]]:
    """The schedule of a plan, or without one that of nodes in an order."""
    if plan is not None:
        return [
            {"node": node, "recompute": again, "inputs": [list(copy) for copy in reads]}
            for node, again, reads, _ in plan.steps
        ]
    seen: set[int] = set()
    steps = []
    for node in order:
        steps.append({"node": node, "recompute": node in seen})
        seen.add(node)
    return steps


def draw(host: Host, plan: Any, order: Sequence[int], name: str, folder: str | Path) -> None:
    """Writes FOLDER/index.html. RuntimeError: `echo-plan` says why it cannot."""
    echo_plan = program()
    with tempfile.TemporaryDirectory() as place:
        graph, steps = Path(place, "graph.json"), Path(place, "plan.json")
        graph.write_text(json.dumps(graph_of(host, name, writes_over=plan is not None)), encoding="utf-8")
        schedule = {"format": "echo-plan/1", "schedule": steps_of(plan, order)}
        steps.write_text(json.dumps(schedule), encoding="utf-8")
        done = subprocess.run(
            [echo_plan, graph, "--plan", steps, "--report", folder],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise RuntimeError(f"report: {done.stderr.strip()}")
