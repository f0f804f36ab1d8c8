# SPDX-License-Identifier: BSL-1.0
"""`echo-plan --memory-snapshot`: PyTorch's own functions for memory snapshots take what it writes."""

import base64
import contextlib
import copy
import io
import pathlib
import pickle
import re
import subprocess
import tempfile
import unittest

from torch.cuda import _memory_viz

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "release" / "examples" / "echo-plan"
GRAPH = ROOT / "examples" / "graphs" / "resnet50_b64.json.gz"


def never_made(text):
    """Lines of `trace` that free what was never allocated: those name an address instead of an allocation."""
    return re.findall(r"^# free completed for \d+ .*", text, re.MULTILINE)


@unittest.skipUnless(BUILT.exists(), "echo-plan is not built")
class Snapshot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "snapshot.pickle")
            subprocess.run(
                [BUILT, GRAPH, "--memory-snapshot", file],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            cls.data = pickle.loads(file.read_bytes())

    def test_the_viewer_carries_all_of_it(self):
        for page in (
            _memory_viz.trace_plot(self.data),
            _memory_viz.trace_plot(self.data, plot_segments=True),
            _memory_viz.segment_plot(self.data),
        ):
            packed = re.search(r'"base64": "([^"]*)"', page)[1]
            self.assertEqual(pickle.loads(base64.b64decode(packed)), self.data)

    def test_the_trace_allocates_and_frees_every_tensor(self):
        events = [event["action"] for event in self.data["device_traces"][0]]
        text = _memory_viz.trace(self.data)
        self.assertEqual(len(re.findall(r"^\w+ = (?:seg_\d+|MEM)\[\d+:", text, re.MULTILINE)), events.count("alloc"))
        self.assertEqual(len(re.findall(r"^# free completed for ", text, re.MULTILINE)), events.count("free_completed"))
        self.assertEqual(never_made(text), [])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):  # it says what does not match
            kept = _memory_viz.filter_alloc_free_pairs(copy.deepcopy(self.data))["device_traces"][0]
        self.assertEqual(said.getvalue(), "")
        self.assertEqual(len(kept), events.count("alloc") - events.count("free_completed"))

    def test_the_segments_are_summed_up(self):
        reserved = sum(segment["total_size"] for segment in self.data["segments"])
        self.assertIn(f"total_reserved: {_memory_viz.Bytes(reserved)}", _memory_viz.segsum(self.data))

    def test_what_was_never_made_is_found(self):
        events = [event for event in self.data["device_traces"][0] if event["action"] != "alloc"]
        text = _memory_viz.trace({**self.data, "device_traces": [events]})
        self.assertEqual(len(never_made(text)), len(events) / 2)


if __name__ == "__main__":
    unittest.main()
