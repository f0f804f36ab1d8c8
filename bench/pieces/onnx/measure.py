# SPDX-License-Identifier: BSL-1.0
"""What onnxruntime takes for a training step that is one ONNX model, before and after echo-plan: memory, time, results.

    python3 measure.py ECHO_PLAN        for bench/onnx, in an environment with onnxruntime

examples/onnx/runtime.py says what is measured, and how.
"""
from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
OVERHEADS = (0.05, 0.3)
ROUNDS = 5


def main(program: str) -> None:
    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples" / "onnx")]
    import make_model
    import onnxruntime
    import results
    import runtime
    with tempfile.TemporaryDirectory() as folder:
        original = pathlib.Path(folder, "plain.onnx")
        original.write_bytes(make_model.plain(inference=False, small=False, weights=True))
        models = [("as it is", original, ["--strategy", "baseline"])]
        for overhead in OVERHEADS:
            out = pathlib.Path(folder, f"{overhead}.onnx")
            models.append((f"planned, {100 * overhead:g} %", out,
                           ["--max-overhead", str(overhead), "--emit-onnx", str(out)]))
        runs: dict[str, list[dict]] = {}
        plans = {}
        for name, _, options in models:
            plans[name] = json.loads(subprocess.run([program, original, *options, "--json"], check=True,
                                                    stdout=subprocess.PIPE).stdout)
        for _ in range(ROUNDS):  # one after another, so that each round meets the same machine
            for name, file, _ in models:
                runs.setdefault(name, []).append(runtime.measured(file, False)
                                                 | {"reused": runtime.measured(file, True)["bytes"]})
    rows = []
    for name, _, _ in models:
        def middle(key: str, of: str = name) -> float:
            return statistics.median(one[key] for one in runs[of])
        rows.append({"model": name, "predicted MB": round(plans[name]["peak_bytes"] / 1e6, 1),
                     "measured MB": round(middle("bytes") / 1e6, 1),
                     "with reuse MB": round(middle("reused") / 1e6, 1),
                     "predicted time": round(1 + plans[name]["recompute_time_ratio"], 3),
                     "measured time": round(middle("seconds") / middle("seconds", models[0][0]), 3),
                     "same bits": {one["digest"] for one in runs[name]} == {runs[models[0][0]][0]["digest"]}})
    results.write("onnx", rows, runtime=f"onnxruntime {onnxruntime.__version__}", rounds=ROUNDS,
                  load=round(os.getloadavg()[0], 1))


if __name__ == "__main__":
    main(sys.argv[1])
