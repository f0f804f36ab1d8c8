# SPDX-License-Identifier: BSL-1.0
"""What onnxruntime takes for a training step that is one ONNX model, before and after echo-plan: memory, time, results.

    python3 measure.py ECHO_PLAN        for bench/onnx, in an environment with onnxruntime

Memory is what the process takes during its second run beyond what it had before it, with large blocks mapped and returned
one by one. onnxruntime plans its buffers in two ways, with reuse and without; both are measured. Its nodes run in the file's
order (`PRIORITY_BASED`), on one thread, without graph optimisation, which would merge what runs again with its original.
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OVERHEADS = (0.05, 0.3)
ROUNDS = 5


def taken(key: str) -> int:
    """Bytes, by /proc/self/status."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def run_once(model: str, reuse: bool) -> None:
    """In a process of its own; prints bytes, processor seconds and a hash of all outputs."""
    import numpy as np
    import onnxruntime as ort
    asked = ort.SessionOptions()
    asked.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    asked.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    asked.intra_op_num_threads = 1
    asked.log_severity_level = 3
    asked.enable_cpu_mem_arena = asked.enable_mem_pattern = False
    asked.enable_mem_reuse = reuse
    session = ort.InferenceSession(model, asked)
    draw = np.random.default_rng(1)
    feed = {one.name: draw.standard_normal(one.shape, dtype=np.float32) for one in session.get_inputs()}
    session.run(None, feed)
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark begins anew
    before, start = taken("VmRSS"), time.process_time()
    made = session.run(None, feed)
    seconds, most = time.process_time() - start, taken("VmHWM")
    digest = hashlib.sha256(b"".join(one.tobytes() for one in made)).hexdigest()
    print(json.dumps({"bytes": most - before, "seconds": seconds, "digest": digest}))


def measured(model: pathlib.Path, reuse: bool) -> dict:
    done = subprocess.run([sys.executable, __file__, "--run", model, "reuse" if reuse else "free"], check=True,
                          stdout=subprocess.PIPE, env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"})
    return json.loads(done.stdout)


def main(program: str) -> None:
    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples" / "onnx")]
    import make_model
    import onnxruntime
    import results
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
                runs.setdefault(name, []).append(measured(file, False) | {"reused": measured(file, True)["bytes"]})
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
    if sys.argv[1] == "--run":
        run_once(sys.argv[2], sys.argv[3] == "reuse")
    else:
        main(sys.argv[1])
