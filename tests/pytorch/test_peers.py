# SPDX-License-Identifier: BSL-1.0
"""bench/peers: PyTorch's partitioner is run, and each of its plans is replayed."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE = ROOT / "bench" / "pieces" / "peers" / "torch_points.py"


class Points(unittest.TestCase):
    def test_a_small_model_has_a_plan_at_each_budget(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "points.json"
            done = subprocess.run(
                [sys.executable, "-W", "ignore", PIECE, out, "tiny_cnn"], capture_output=True, text=True, timeout=300
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            model = json.loads(out.read_text(encoding="utf-8"))["models"]["tiny_cnn"]
        points = model["points"]
        self.assertEqual([point["budget"] for point in points], [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
        self.assertLess(min(point["peak"] for point in points), model["baseline"])
        self.assertGreater(max(point["overhead"] for point in points), 0)


if __name__ == "__main__":
    unittest.main()
