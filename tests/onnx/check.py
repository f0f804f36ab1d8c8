# SPDX-License-Identifier: BSL-1.0
"""Whether onnxruntime needs what was planned: the transformer `plain` of examples/onnx/make_model.py, as it is and planned.

    python3 check.py ECHO_PLAN        in an environment with onnxruntime

Further a model whose layers are functions, which onnxruntime would inline behind all other nodes.

What onnxruntime takes beyond the plan (its own tables, packed weights) is the same in every row: it is told by the model as it
is, and the planned ones must lie within 3 % of the prediction and this.
"""
from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples" / "onnx"))

import make_model  # noqa: E402
import runtime  # noqa: E402
import wire  # noqa: E402


def of_functions() -> bytes:
    """A chain of 12 layers and its gradient, all of them calls of functions: 8 MiB for each value."""
    b = wire.Builder("functions")
    layer, gradient = wire.Builder("layer"), wire.Builder("gradient")
    layer.node("Sigmoid", ["X"], ["S"])
    layer.node("Mul", ["X", "S"], ["Y"])
    gradient.node("Tanh", ["X"], ["T"])
    gradient.node("Mul", ["T", "DY"], ["DX"])
    b.function("Layer", layer, ["X"], ["Y"])
    b.function("LayerGrad", gradient, ["X", "DY"], ["DX"])
    value, values = b.input("x", [1 << 18, 8]), []
    for _ in range(12):
        values.append(value)
        value = b.node("Layer", [value], domain="own")
    for before in reversed(values):
        value = b.node("LayerGrad", [before, value], domain="own")
    b.output(value, [1 << 18, 8])
    return b.model()


def planned(program: str, model: pathlib.Path, *options: str) -> int:
    """The peak in bytes by the plan."""
    done = subprocess.run([program, model, *options, "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["peak_bytes"]


def main(program: str) -> int:
    passed = failed = 0

    def check(good: bool, what: str) -> None:
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'passed' if good else 'FAILED'}  {what}")

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "functions.onnx")
        file.write_bytes(of_functions())
        whole = runtime.measured(file, False)
        predicted = planned(program, file, "--max-overhead", "0.5", "--emit-onnx", str(pathlib.Path(folder, "planned.onnx")))
        run = runtime.measured(pathlib.Path(folder, "planned.onnx"), False)
        check(run["digest"] == whole["digest"], "functions: the same bits")
        check(abs(run["bytes"] - predicted) <= 0.1 * predicted and run["bytes"] < 0.6 * whole["bytes"],
              f"functions: {run['bytes']} bytes, predicted {predicted}, as it is {whole['bytes']}")
        original = pathlib.Path(folder, "plain.onnx")
        original.write_bytes(make_model.plain(inference=False, small=False, weights=True))
        predicted = planned(program, original, "--strategy", "baseline")
        plain = runtime.measured(original, False)
        own = plain["bytes"] - predicted
        check(0 <= own <= 0.1 * predicted, f"as it is: {plain['bytes']} bytes, predicted {predicted}")
        for overhead in ("0.05", "0.3"):
            file = pathlib.Path(folder, "planned.onnx")
            predicted = planned(program, original, "--max-overhead", overhead, "--emit-onnx", str(file))
            run = runtime.measured(file, False)
            file.unlink()
            check(run["digest"] == plain["digest"], f"planned by {overhead}: the same bits")
            check(abs(run["bytes"] - own - predicted) <= 0.03 * predicted,
                  f"planned by {overhead}: {run['bytes']} bytes, predicted {predicted} and {own} of its own")
            check(run["bytes"] < plain["bytes"], f"planned by {overhead}: less than as it is")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
