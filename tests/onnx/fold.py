# SPDX-License-Identifier: BSL-1.0
"""Whether `echo-plan` evaluates shape arithmetic as onnx's reference implementation does: every op that it folds, on integers
of rank 0 to 3, on conditions, and on floating point where exporters use it.

    python3 fold.py ECHO_PLAN        in an environment with onnx

A model computes a small tensor and takes each of its elements, and each of its extents, for the length of a vector: the
sizes of these vectors in the plan tell what was computed. Where a size is not known the model is refused, which fails too
unless the row says that it may be.
"""
from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper
from onnx.reference import ReferenceEvaluator

OFFSET = 50  # makes lengths of small negative numbers
SHAPES = {0: [()], 1: [(4,), (1,)], 2: [(2, 3), (1, 3), (3, 1)], 3: [(2, 3, 2), (1, 2, 3)]}
I64, I32, F32, BOOL = np.int64, np.int32, np.float32, np.bool_

Row = tuple[str, list[np.ndarray], dict]


def filled(shape: tuple[int, ...], element=I64, start: int = 1, step: int = 1) -> np.ndarray:
    """Different numbers."""
    count = int(np.prod(shape, dtype=int))
    return (np.arange(start, start + step * count, step)[:count].reshape(shape) % 23).astype(element)


def arithmetic() -> Iterator[Row]:
    """Ops of two tensors of all ranks, which are broadcast."""
    shapes = list(itertools.chain.from_iterable(SHAPES.values()))
    for a, b in itertools.product(shapes, shapes):
        try:
            np.broadcast_shapes(a, b)
        except ValueError:
            continue
        for element in (I64, I32):
            x, y = filled(a, element, 3, 5), filled(b, element, 1, 2)
            for op in ("Add", "Sub", "Mul", "Min", "Max", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
                yield op, [x, y], {}
            yield "Div", [x, y + 1], {}
            yield "Mod", [x - 7, y + 1], {}
            yield "Mod", [x - 7, y + 1], {"fmod": 1}
            yield "Pow", [x % 3, y % 4], {}
            yield "Where", [x % 2 == 0, x, y], {}
        for op in ("And", "Or", "Xor"):
            yield op, [filled(a) % 2 == 0, filled(b) % 3 == 0], {}
        x, y = filled(a, F32, 3, 5), filled(b, F32, 1, 2)
        for op in ("Add", "Sub", "Mul", "Min", "Max", "Less", "Greater"):
            yield op, [x, y], {}


def elementwise() -> Iterator[Row]:
    for shape in itertools.chain.from_iterable(SHAPES.values()):
        x = filled(shape, I64, 1, 3) - 9
        for op in ("Neg", "Abs", "Sign", "Identity"):
            yield op, [x], {}
            yield op, [x.astype(I32)], {}
        yield "Not", [x % 2 == 0], {}
        for to in (T.INT64, T.INT32, T.BOOL, T.FLOAT, T.DOUBLE):
            yield "Cast", [x], {"to": to}
            yield "Cast", [(x + 0.75).astype(F32)], {"to": to}
        yield "CastLike", [x, np.array(1, F32)], {}
        yield "Clip", [x, np.array(-3, I64), np.array(5, I64)], {}
        halves = (x / 2).astype(F32)
        for op in ("Ceil", "Floor", "Round"):
            yield op, [halves], {}
        yield "Sqrt", [(x * x).astype(F32)], {}
        yield "Reciprocal", [np.full(shape, 0.25, F32)], {}


def axes_of(rank: int) -> range:
    return range(-rank, rank)


def layout() -> Iterator[Row]:
    """Ops that move elements."""
    for rank, shapes in SHAPES.items():
        for shape in shapes:
            x = filled(shape)
            count = x.size
            yield "Reshape", [x, np.array([-1], I64)], {}
            yield "Reshape", [x, np.array([count, 1], I64)], {}
            yield "Expand", [x, np.array([2, *shape], I64)], {}
            yield "Shape", [x], {}
            yield "Size", [x], {}
            for axis in axes_of(rank + 1):
                yield "Unsqueeze", [x, np.array([axis], I64)], {}
            if rank == 0:
                continue
            yield "Shape", [x], {"start": -1}
            yield "Shape", [x], {"start": 0, "end": rank - 1}
            yield "Tile", [x, np.array([2] * rank, I64)], {}
            yield "NonZero", [x % 3], {}
            yield "Transpose", [x], {}
            for order in itertools.permutations(range(rank)):
                yield "Transpose", [x], {"perm": list(order)}
            for axis in axes_of(rank):
                yield from along(x, axis)


def along(x: np.ndarray, axis: int) -> Iterator[Row]:
    """Ops that take an axis."""
    size, shape = x.shape[axis], x.shape
    if axis >= 0:
        yield "Flatten", [x], {"axis": axis}
        yield "Squeeze", [np.expand_dims(x, axis), np.array([axis], I64)], {}
    yield "Concat", [x, x + 1, np.take(x, [0], axis)], {"axis": axis}
    for start, end, step in ((0, 1, 1), (1, 1000, 1), (-1, -1000, -1), (0, 2 ** 62, 2), (-2, -1, 1), (size, 0, -2)):
        yield "Slice", [x, *(np.array([one], I64) for one in (start, end, axis, step))], {}
    for indices in (np.array(0, I64), np.array([-1, 0], I64), np.array([[0], [size - 1]], I64), np.array(-1, I32)):
        yield "Gather", [x, indices], {"axis": axis}
    yield "GatherElements", [x, np.zeros(shape, I64) - 1], {"axis": axis}
    if size > 1:
        yield "Split", [x, np.array([1, size - 1], I64)], {"axis": axis}
    for keep in (0, 1):
        yield "ReduceSum", [x, np.array([axis], I64)], {"keepdims": keep}
        for op in ("ReduceProd", "ReduceMax", "ReduceMin"):
            yield op, [x % 3, np.array([axis], I64)], {"keepdims": keep}


def makers() -> Iterator[Row]:
    yield "ConstantOfShape", [np.array([2, 3], I64)], {"value": helper.make_tensor("", T.INT64, [1], [7])}
    yield "ConstantOfShape", [np.array([], I64)], {"value": helper.make_tensor("", T.INT32, [1], [7])}
    yield "Constant", [], {"value": helper.make_tensor("", T.INT64, [2, 2], [1, 2, 3, 4])}
    yield "Constant", [], {"value_int": 4}
    yield "Constant", [], {"value_ints": [4, 5]}
    for first, end, step in ((0, 5, 2), (5, 0, -2), (3, 3, 1)):
        yield "Range", [np.array(one, I64) for one in (first, end, step)], {}
        yield "Range", [np.array(one, I32) for one in (first, end, step)], {}
    x = filled((3, 2))
    yield "ScatterND", [x, np.array([[0], [-1]], I64), filled((2, 2), I64, 9)], {}
    yield "ScatterND", [x, np.array([[0, 1], [2, 0]], I64), filled((2,), I64, 9)], {}
    yield "ScatterND", [filled((4,)), np.array([[[0], [3]]], I64), filled((1, 2), I64, 9)], {}
    for op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"):
        yield op, [x % 4], {"keepdims": 0}


def watched(rows: list[Row]) -> tuple[onnx.ModelProto, list[str], list[int]]:
    """A model that computes the rows, the values that tell what is computed, and the lengths that these must have."""
    nodes, weights, outputs, lengths = [], [], [], []

    def weight(name: str, value) -> str:
        weights.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    weight("flat", np.array([-1], I64))
    weight("offset", np.array([OFFSET], I64))
    for number, (op, inputs, attributes) in enumerate(rows):
        given = [weight(f"r{number}.{k}", value) for k, value in enumerate(inputs)]
        made = [f"r{number}.out{k}" for k in range(2 if op == "Split" else 1)]
        row = helper.make_node(op, given, made, **attributes)
        nodes.append(row)
        expected = reference(row, inputs)
        for name, value in zip(made, expected, strict=True):
            nodes.append(helper.make_node("Shape", [name], [name + ".s"]))
            nodes.append(helper.make_node("Reshape", [name, "flat"], [name + ".f"]))
            nodes.append(helper.make_node("Cast", [name + ".f"], [name + ".i"], to=T.INT64))
            nodes.append(helper.make_node("Concat", [name + ".i", name + ".s"], [name + ".c"], axis=0))
            nodes.append(helper.make_node("Add", [name + ".c", "offset"], [name + ".l"]))
            numbers = [*value.astype(I64).ravel(), *value.shape]
            for k, element in enumerate(numbers):
                weight(f"{name}.k{k}", np.array([k], I64))
                nodes.append(helper.make_node("Gather", [name + ".l", f"{name}.k{k}"], [f"{name}.g{k}"]))
                nodes.append(helper.make_node("ConstantOfShape", [f"{name}.g{k}"], [f"{name}.v{k}"]))
                outputs.append(f"{name}.v{k}")
                lengths.append(int(element) + OFFSET)
    graph = helper.make_graph(nodes, "fold", [], [helper.make_tensor_value_info(one, T.FLOAT, None) for one in outputs],
                              weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), outputs, lengths


def reference(node: onnx.NodeProto, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What onnx's own implementation computes."""
    graph = helper.make_graph(
        [node], "row", [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                        for name, value in zip(node.input, inputs)],
        [helper.make_value_info(name, helper.make_tensor_type_proto(T.INT64, None)) for name in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return [np.asarray(one) for one in ReferenceEvaluator(model).run(None, dict(zip(node.input, inputs)))]


def planned(program: str, model: onnx.ModelProto, folder: str) -> tuple[dict[str, int], str]:
    """Lengths of vectors of floats by name; or what the refusal says."""
    file, plan = pathlib.Path(folder, "m.onnx"), pathlib.Path(folder, "p.json")
    file.write_bytes(model.SerializeToString())
    done = subprocess.run([program, file, "--strategy", "baseline", "--emit-plan", plan], capture_output=True, check=False)
    if done.returncode:
        return {}, done.stderr.decode().strip()
    found = json.loads(plan.read_text(encoding="utf-8"))
    made = [[t.name] for t in model.graph.initializer] + [list(node.output) for node in model.graph.node]
    nodes = [step["node"] for step in found["schedule"]]
    return {made[nodes[b["step"]]][b["output"]]: b["bytes"] // 4 for b in found["arena"]["blocks"]}, ""


def faults(program: str, rows: list[Row], folder: str) -> list[str]:
    """One line for each row that is wrong; rows are halved until one remains that is refused."""
    model, outputs, lengths = watched(rows)
    found, refusal = planned(program, model, folder)
    if refusal and len(rows) > 1:
        half = len(rows) // 2
        return faults(program, rows[:half], folder) + faults(program, rows[half:], folder)
    if refusal:
        return [f"{describe(rows[0])}: refused: {refusal}"]
    wrong = {name.split(".")[0]: (name, found.get(name, 0), length) for name, length in zip(outputs, lengths)
             if found.get(name, 0) != length}
    return [f"{describe(rows[int(row[1:])])}: {name} is {is_} and not {must}" for row, (name, is_, must) in wrong.items()]


def describe(row: Row) -> str:
    op, inputs, attributes = row
    return f"{op} of {[(str(one.dtype), one.tolist()) for one in inputs]} {attributes}"


def main(program: str) -> int:
    rows = list(itertools.chain(arithmetic(), elementwise(), layout(), makers()))
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(rows), 200):
            failed += faults(program, rows[begin:begin + 200], folder)
    for line in failed:
        print("FAILED ", line)
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
