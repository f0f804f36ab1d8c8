# SPDX-License-Identifier: BSL-1.0
"""What onnxruntime takes to run a model once: memory, time and a hash of its results.

    python3 runtime.py MODEL (reuse|free)        prints them as JSON; in an environment with onnxruntime

Memory is what the process takes during its second run beyond what it had before it, with large blocks mapped and returned
one by one. onnxruntime plans its buffers in two ways, with reuse and without. Its nodes run in the file's order
(`PRIORITY_BASED`), on one thread, without graph optimisation, which would merge what runs again with its original.
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time


def taken(key: str) -> int:
    """Bytes, by /proc/self/status."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def run_once(model: str, reuse: bool) -> None:
    """Prints bytes, processor seconds and a hash of all outputs."""
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
    """`run_once` in a process of its own: `bytes`, `seconds`, `digest`."""
    done = subprocess.run([sys.executable, __file__, model, "reuse" if reuse else "free"], check=True,
                          stdout=subprocess.PIPE, env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"})
    return json.loads(done.stdout)


if __name__ == "__main__":
    run_once(sys.argv[1], sys.argv[2] == "reuse")
