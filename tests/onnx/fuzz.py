# SPDX-License-Identifier: BSL-1.0
"""Random training models with functions, `If`, `Loop` and shapes that are computed: planned, and run by onnxruntime as they are
and as planned. All outputs have the same bits, and onnxruntime's own memory is never above that of the model as it is.

    python3 fuzz.py ECHO_PLAN [COUNT [FIRST]]        in an environment with onnxruntime
"""
from __future__ import annotations

import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples" / "onnx"))

import runtime  # noqa: E402
from wire import BOOL, INT64, Builder  # noqa: E402

ROWS = 1 << 16  # 2 MiB for each value
SLACK = 300_000  # bytes by which two runs of one model differ


def add_functions(b: Builder) -> None:
    for name, op, gradient in (("A", "Sigmoid", "Tanh"), ("B", "Tanh", "Sigmoid")):
        layer, back = Builder(name), Builder(name + "Grad")
        layer.node("Mul", ["X", layer.node(op, ["X"], ["S"])], ["Y"])
        back.node("Mul", [back.node(gradient, ["X"], ["T"]), "DY"], ["DX"])
        b.function(name, layer, ["X"], ["Y"])
        b.function(name + "Grad", back, ["X", "DY"], ["DX"])
    nested = Builder("N")
    nested.node("B", [nested.node("A", ["X"], ["M"], "own")], ["Y"], "own")
    b.function("N", nested, ["X"], ["Y"])


def branch(b: Builder, i: int, value: str) -> str:
    yes, no = Builder(f"yes{i}"), Builder(f"no{i}")
    yes.output(yes.node("Tanh", [value], [f"yes{i}"]), [None, 8])
    no.output(no.node("Neg", [value], [f"no{i}"]), [None, 8])
    return b.node("If", ["true"], then_branch=yes.graph(), else_branch=no.graph())


def loop(b: Builder, i: int, value: str) -> str:
    body = Builder(f"body{i}")
    body.input(f"i{i}", [], INT64)
    body.input(f"c{i}", [], BOOL)
    body.input(f"s{i}", [None, 8])
    body.output(body.node("Identity", [f"c{i}"], [f"c{i}.next"]), [], BOOL)
    body.output(body.node("Sin", [f"s{i}"], [f"s{i}.next"]), [None, 8])
    return b.node("Loop", ["three", "true", value], body=body.graph())


def reshaped(b: Builder, value: str) -> str:
    """Flat, and back to the shape that it had: by way of a tensor of two rows."""
    row = b.node("Unsqueeze", [b.node("Shape", [value]), "zero"])
    two = b.node("Concat", [row, row], axis=0)
    shape = b.node("Reshape", [b.node("Slice", [two, "zero", "one", "zero"]), "flat"])
    return b.node("Sin", [b.node("Reshape", [b.node("Reshape", [value, "flat"]), shape])])


def model(seed: int) -> bytes:
    draw, b = random.Random(seed), Builder(f"fuzz {seed}")
    add_functions(b)
    value, values = b.input("x", [ROWS, 8]), []
    b.weight("true", [], b"\1", BOOL)
    b.weight("three", [], (3).to_bytes(8, "little"), INT64)
    for name, number in (("flat", -1), ("zero", 0), ("one", 1)):
        b.integers(name, [number])
    for i in range(draw.randint(4, 12)):
        values.append(value)
        kind = draw.randrange(7)
        if kind == 0:
            value = b.node(draw.choice("ABN"), [value], domain="own")
        elif kind == 1:
            value = b.node(draw.choice(["Tanh", "Sigmoid", "Sin", "Relu"]), [value])
        elif kind == 2:
            value = branch(b, i, value)
        elif kind == 3:
            value = loop(b, i, value)
        elif kind == 4:
            value = reshaped(b, value)
        elif kind == 5:
            value = b.node("Add", [value, draw.choice(values)])
        else:
            value = b.node("Mul", [value, b.node("Exp", [b.node("Neg", [b.node("Abs", [value])])])])
    for i, before in enumerate(reversed(values)):
        if draw.random() < 0.4:
            value = b.node(draw.choice(["AGrad", "BGrad"]), [before, value], domain="own")
        else:
            value = b.node("Mul", [b.node(draw.choice(["Tanh", "Sin"]), [before]), value], [f"g{i}_grad"])
    b.output(value, [ROWS, 8])
    return b.model()


def fault(program: str, seed: int, folder: pathlib.Path) -> str:
    """What is wrong with the plan of a model; empty: nothing."""
    file, planned = folder / "model.onnx", folder / "planned.onnx"
    file.write_bytes(model(seed))
    done = subprocess.run([program, file, "--max-overhead", "0.3", "--emit-onnx", planned], capture_output=True, check=False)
    if done.returncode or done.stderr:
        return done.stderr.decode().strip()
    before, after = runtime.measured(file, False), runtime.measured(planned, False)
    if before["digest"] != after["digest"]:
        return "other bits"
    if after["bytes"] <= before["bytes"] + SLACK:
        return ""
    # The kernel counts a process's memory, and may give pages back late: what is a fault shows again.
    least, most = runtime.measured(planned, False)["bytes"], runtime.measured(file, False)["bytes"]
    return f"{least} bytes, as it is {most}" if least > most + SLACK else ""


def main(program: str, count: str = "15", first: str = "0") -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(int(first), int(first) + int(count)):
            if wrong := fault(program, seed, pathlib.Path(folder)):
                failed += 1
                print(f"FAILED  model {seed}: {wrong}")
    print(f"{int(count) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
