# SPDX-License-Identifier: BSL-1.0
"""How `echo-plan` reads the node tests of the onnx package: each model as it is, and once more without the shapes that it
states of what it computes, so that every size comes from a rule.

    python3 node_tests.py ECHO_PLAN [--write]        in an environment with onnx

A refusal is wrong unless its cause is among CAUSES; a size is wrong if the test's own data has another. docs/onnx.md lists the
refusals of models as they are by cause: `--write` puts that list there, and otherwise it must be the same.
"""
from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import causes_table
import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RESULT = ROOT / "docs" / "onnx.md", ROOT / "bench" / "results" / "onnx-node-tests.json"
# What a refusal says, by its cause. One more cause is a size that depends on data: onnx's own inference leaves it open, too.
CAUSES = {
    "strings": "is of strings",
    "sequences": "is a sequence",
    "optional values": "is an optional value",
    "the op `Gradient`": "Gradient stands for nodes",
}
ON_DATA = "sizes that depend on data"


def bits_of(element: int) -> int:
    """Of one element of a tensor, by ONNX's number of its type."""
    name = onnx.TensorProto.DataType.Name(element)
    small = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
    if name in small:
        return small[name]
    return 8 * onnx.helper.tensor_dtype_to_np_dtype(element).itemsize


def without_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without what it states of values that are computed."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.ClearField("type")
        value.type.tensor_type.elem_type = next(v for v in model.graph.output if v.name == value.name
                                                ).type.tensor_type.elem_type
    return bare


def expected_bytes(model: onnx.ModelProto, outputs) -> dict[str, int]:
    """Of the outputs that are tensors of numbers, from the test's own results."""
    sizes = {}
    for value, result in zip(model.graph.output, outputs, strict=True):
        element = value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else 0
        if element in (0, onnx.TensorProto.STRING) or result is None:
            continue
        shape = tuple(result.dims) if isinstance(result, onnx.TensorProto) else np.shape(result)
        sizes[value.name] = (int(np.prod(shape, dtype=np.int64)) * bits_of(element) + 7) // 8
    return sizes


def planned_bytes(graph: onnx.GraphProto, plan: dict) -> dict[str, int]:
    """Of the values that nodes make, by the blocks of a plan's arena; those of views are not among them."""
    given = list(dict.fromkeys([v.name for v in graph.input] + [t.name for t in graph.initializer]
                               + [t.values.name for t in graph.sparse_initializer]))
    made = [[name] for name in given] + [[name for name in node.output if name] for node in graph.node]
    nodes = [step["node"] for step in plan["schedule"]]
    return {made[nodes[b["step"]]][b["output"]]: b["bytes"] for b in plan["arena"]["blocks"]}


def dims_of(model: onnx.ModelProto, case) -> list[str]:
    """`--dim` for what an input leaves open, from the test's own data."""
    asked = []
    data = case.data_sets[0][0] if case.data_sets else []
    for value, given in zip(model.graph.input, data):
        if not value.type.HasField("tensor_type"):
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                name = dim.dim_param or f"{value.name}:{axis}"
                asked.append(f"--dim={name}={np.shape(given)[axis]}")
    return list(dict.fromkeys(asked))


def run(program: str, case, model: onnx.ModelProto) -> tuple[str, str]:
    """(`planned`, a wrong size or nothing), or (`refused`, the message)."""
    with tempfile.TemporaryDirectory() as folder:
        file, plan = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "p.json")
        file.write_bytes(model.SerializeToString())
        done = subprocess.run([program, file, "--strategy", "baseline", "--json", "--emit-plan", plan, *dims_of(model, case)],
                              capture_output=True, check=False, timeout=120)
        if done.returncode:
            return "refused", done.stderr.decode(errors="replace").strip().removeprefix(f"echo-plan: {file}: ")
        sizes = planned_bytes(model.graph, json.loads(plan.read_text(encoding="utf-8")))
    wrong = [f"{name}: {sizes[name]} bytes for {size}" for name, size in
             expected_bytes(case.model, case.data_sets[0][1]).items() if sizes.get(name, size) != size]
    return "planned", "; ".join(wrong)


def is_open(model: onnx.ModelProto, name: str) -> bool:
    """Whether onnx's own inference leaves the size of a value open."""
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return False
    for value in [*model.graph.value_info, *model.graph.output]:
        if value.name == name:
            tensor = value.type.tensor_type
            return not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim)
    return True


def cause_of(model: onnx.ModelProto, message: str) -> str:
    """Of a refusal; empty: a wrong one."""
    for cause, words in CAUSES.items():
        if words in message:
            return cause
    named = re.search(r"output '([^']*)': .*(--dim|--shape) ", message)
    return ON_DATA if named and is_open(model, named[1]) else ""


def of_function(case) -> str:
    """The op whose body a test spells out, or its own one."""
    names = [name for node in case.model.graph.node for name in node.output if "_function_" in name]
    return names[0].split("_test_")[0] if names else case.model.graph.node[0].op_type


def main(program: str, *options: str) -> int:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    jobs = [(case, kind, model) for case in cases
            for kind, model in (("stated", case.model), ("inferred", without_shapes(case.model)))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda job: run(program, job[0], job[2]), jobs))
    failed = 0
    causes, counts = collections.defaultdict(set), collections.Counter()
    for (case, kind, model), (outcome, text) in zip(jobs, found):
        cause = cause_of(model, text) if outcome == "refused" else ""
        if cause and kind == "stated":
            causes[cause].add(case.model.graph.node[0].op_type if cause != ON_DATA else of_function(case))
        elif text and not cause:
            failed += 1
            print(f"FAILED  {case.name}, {kind}: {outcome}: {text}")
        counts[cause] += bool(cause and kind == "stated")
    result = {"onnx": onnx.__version__, "tests": len(cases),
              "causes": {cause: {"tests": counts[cause], "ops": sorted(ops)} for cause, ops in sorted(causes.items())}}
    if "--write" in options:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(causes_table.SECTION.sub(lambda _: causes_table.section(result), PAGE.read_text(encoding="utf-8")),
                        encoding="utf-8")
    elif json.loads(RESULT.read_text(encoding="utf-8")) != result:
        failed += 1
        print(f"FAILED  {RESULT.name} has another result: run with --write")
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *sys.argv[2:]))
