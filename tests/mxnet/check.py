"""Checks of Echo inside MXNet: predictions, bits, and that bad input never stops training."""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "mxnet"))

import compare  # noqa: E402
import echo_mxnet  # noqa: E402
import models  # noqa: E402

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402

SAID = re.compile(r"echo: (\d+) -> (\d+) MB \(MXNet's mirror: (\d+) MB\)")


def listen(act: Callable[[], mx.sym.Symbol]) -> Tuple[mx.sym.Symbol, List[str]]:
    """What the pass made, and its lines on standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            made = act()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return made, [
            line for line in file.read().decode().splitlines() if line.startswith("echo: ")
        ]


def marked(symbol: mx.sym.Symbol) -> int:
    return sum("__force_mirroring__" in attributes for attributes in symbol.attr_dict().values())


def predictions(name: str) -> None:
    """The megabytes said beforehand are MXNet's, each way; Echo's are the least."""
    model = models.MODELS[name](**models.SMALL[name])
    symbol, lines = listen(lambda: echo_mxnet.optimize(model.symbol, model.shapes, report=1))
    said = [int(figure) for figure in SAID.match(lines[-1]).groups()]
    got = [
        compare.bind(model.symbol, model)[1],
        compare.bind(symbol, model)[1],
        compare.bind(model.symbol, model, mirror=True)[1],
    ]
    assert said == got, f"{name}: said {said}, MXNet allocates {got}"
    assert got[1] <= min(got[0], got[2]), f"{name}: {got}"


def bits(name: str) -> None:
    """Two steps of training give the same bits, at every budget."""
    rows = compare.compare(
        name, small=True, steps=2, wishes=[{}, {"budget": "0.6"}, {"budget": "0"}]
    )
    assert all(row["same_bits"] for row in rows), rows
    echo = [row["megabytes"] for row in rows if row["way"] == "echo"]
    assert echo[-1] < echo[0] < rows[0]["megabytes"], rows  # a budget of 0 is the least there is


def same_plan() -> None:
    model = models.transformer(**models.SMALL["transformer"])
    first, second = (echo_mxnet.optimize(model.symbol, model.shapes).tojson() for _ in range(2))
    assert first == second


def _trains_as(
    reference: mx.sym.Symbol, symbol: mx.sym.Symbol, shapes: Dict[str, Tuple[int, ...]]
) -> None:
    seen = [
        compare.train(compare.bind(s, models.Model(s, shapes))[0], 1)[0]
        for s in (reference, symbol)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(*seen))


def unknown_op() -> None:
    """It is kept and named; what is known beside it is still marked."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=256)
    for _ in range(6):
        x = mx.sym.Activation(
            mx.sym.arctan(mx.sym.FullyConnected(x, num_hidden=256)) * 2, act_type="tanh"
        )
    model = models.Model(
        mx.sym.SoftmaxOutput(x, mx.sym.Variable("softmax_label")),
        {"data": (4096, 256), "softmax_label": (4096,)},
    )
    symbol, lines = listen(lambda: echo_mxnet.optimize(model.symbol, model.shapes, budget="0.5"))
    assert any("unknown op arctan" in line for line in lines), lines
    assert all(
        "__force_mirroring__" not in attributes
        for name, attributes in symbol.attr_dict().items()
        if name.startswith("arctan")
    )
    _trains_as(model.symbol, symbol, model.shapes)


def out_of_reach() -> None:
    """A budget below what marks can reach: one line, and the least is what is made."""
    model = models.resnet(**models.SMALL["resnet"])
    symbol, lines = listen(lambda: echo_mxnet.optimize(model.symbol, model.shapes, budget="1KiB"))
    assert len(lines) == 1 and "is not reached; the least found is" in lines[0], lines
    assert compare.bind(symbol, model)[1] < compare.bind(model.symbol, model)[1]


def again() -> None:
    """A second pass forgets the marks of the first."""
    model = models.resnet(**models.SMALL["resnet"])
    once = echo_mxnet.optimize(model.symbol, model.shapes)
    tight, _ = listen(lambda: echo_mxnet.optimize(model.symbol, model.shapes, budget="1KiB"))
    assert marked(tight) > marked(once)
    assert marked(echo_mxnet.optimize(tight, model.shapes)) == marked(once)


def named_overhead() -> None:
    """An overhead that was named is kept, also where MXNet's mirror would need less memory."""
    model = models.nmt(**models.SMALL["nmt"])
    symbol = echo_mxnet.optimize(model.symbol, model.shapes, max_overhead="0")
    assert compare.bind(symbol, model)[1] <= compare.bind(model.symbol, model)[1]
    _, lines = listen(
        lambda: echo_mxnet.optimize(model.symbol, model.shapes, max_overhead="0", report=1)
    )
    assert "copies take 0 %" in lines[-1], lines


def faults() -> None:
    """Whatever goes wrong in the pass: one line, and the symbol as it was."""
    model = models.transformer(**models.SMALL["transformer"])
    before = model.symbol.tojson()
    bad: List[Tuple[Dict[str, object], str]] = [
        ({"fail": 1}, "asked to fail"),
        ({"budget": "much"}, "is no number"),
        ({"max_overhead": "-1"}, "is no number"),
        ({"max_overhead": "nan"}, "is no number"),
        ({"budgets": 1}, "is no option"),
    ]
    for options, words in bad:
        symbol, lines = listen(lambda: echo_mxnet.optimize(model.symbol, model.shapes, **options))
        assert len(lines) == 1 and words in lines[0] and "stays as it is" in lines[0], (
            options,
            lines,
        )
        assert marked(symbol) == 0
        _trains_as(model.symbol, symbol, model.shapes)
    symbol, lines = listen(lambda: echo_mxnet.optimize(model.symbol, {}))
    assert len(lines) == 1 and "not all arguments" in lines[0] and symbol is model.symbol, lines
    symbol, lines = listen(lambda: model.symbol.optimize_for("echo"))
    assert len(lines) == 1 and "has no shape" in lines[0], lines
    assert model.symbol.tojson() == before


def other_version(library: str) -> None:
    """MXNet asks at load: versions with other structures are refused, and say so."""
    initialize = ctypes.CDLL(library).initialize
    initialize.argtypes, initialize.restype = [ctypes.c_int], ctypes.c_int
    assert [initialize(v) for v in (10699, 10802, 11000, 20000)] == [0] * 4
    assert [initialize(v) for v in (10900, 10901)] == [1, 1]


def refused_library(library: str) -> None:
    """Where no library is loaded, or it cannot be: one line, and training goes on with the symbol as it is."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import echo_mxnet, models;"
        "[echo_mxnet.load(file) for file in sys.argv[2:]];"
        "model = models.resnet(**models.SMALL['resnet']);"
        "assert echo_mxnet.optimize(model.symbol, model.shapes) is model.symbol"
    )
    examples = str(Path(compare.__file__).parent)
    with tempfile.NamedTemporaryFile(suffix=".so") as other:
        other.write(b"no library")
        other.flush()
        for files, words in (
            ([other.name], ("symbols stay as they are", other.name)),
            ([library + ".gone"], ("symbols stay as they are", library + ".gone")),
            ([], ("the symbol stays as it is", "no library is loaded")),
        ):
            done = subprocess.run(
                [sys.executable, "-c", program, examples, *files], capture_output=True, text=True
            )
            lines = [line for line in done.stderr.splitlines() if line.startswith("echo: ")]
            assert done.returncode == 0 and len(lines) == 1, done.stderr
            assert all(word in lines[0] for word in words), lines


def unread_layer_norm() -> None:
    """MXNet's LayerNorm computes no moments where nobody reads its output: no marks lead there."""
    for budget in ("0.9", "0.8", "0.7", "0.5"):
        model = models.transformer(**models.SMALL["transformer"])
        symbol = echo_mxnet.optimize(model.symbol, model.shapes, budget=budget)
        _trains_as(model.symbol, symbol, model.shapes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    library = parser.parse_args().library
    echo_mxnet.load(library)
    checks = [
        (f"{check.__name__} {name}", lambda check=check, name=name: check(name))
        for check in (predictions, bits)
        for name in models.MODELS
    ]
    checks += [
        (check.__name__, lambda check=check: check(library))
        for check in (other_version, refused_library)
    ]
    checks += [
        (check.__name__, check)
        for check in (
            same_plan,
            again,
            named_overhead,
            unknown_op,
            out_of_reach,
            faults,
            unread_layer_norm,
        )
    ]
    failed = 0
    for name, check in checks:
        try:
            check()
            print(f"ok      {name}", flush=True)
        except Exception as fault:  # a check that ends in any way but well has failed
            failed += 1
            print(f"FAILED  {name}: {fault!r}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
