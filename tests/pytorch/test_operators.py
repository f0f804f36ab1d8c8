"""A part of the walk over PyTorch's operators; `operators.py` alone walks over all of them."""

from __future__ import annotations

import unittest
import unittest.mock

import support  # noqa: F401  makes the modules beside the package importable
from operators import watch
from torch.testing._internal.common_methods_invocations import op_db

# Views and what looks like one, writes, random numbers, and as a whole what is planned as two parts.
NAMED = ("unsafe_chunk", "unsafe_split", "reshape", "t", "expand", "conj_physical", "positive")
NAMED += ("nn.functional.dropout", "nn.functional.batch_norm", "nn.functional.rrelu")
NAMED += ("bernoulli", "softmax", "clone", "nn.functional.gelu", "add", "where", "to")
NAMED += ("nn.functional.mse_loss", "nn.functional.fold", "nn.functional.smooth_l1_loss")


class Operators(unittest.TestCase):
    def test_what_is_said_of_operators_is_what_they_do(self):
        found = watch([e for k, e in enumerate(op_db) if k % 12 == 0 or e.name in NAMED], 2)
        self.assertGreater(len(found.traced), 60)
        self.assertGreater(len(found.ran), 100)
        self.assertGreater(len(found.written_over), 20)
        self.assertEqual(found.wrong, {})

    def test_what_copies_the_storage_of_a_part_as_a_whole(self):
        padded = [entry for entry in op_db if entry.variant_test_name == "circular"]
        found = watch(padded, 6)
        self.assertIn("aten.copy.default", found.ran)
        self.assertEqual(found.wrong, {})

    def test_a_fault_of_ours_is_a_finding(self):
        gelu = [entry for entry in op_db if entry.name == "nn.functional.gelu"]
        for place in ("operators.call_of", "echo_torch.reuse.writer_of", "echo_torch.reuse.fits"):
            with unittest.mock.patch(place, side_effect=KeyError("broken")):
                self.assertIn("broken", str(watch(gelu, 1).wrong))

        def writes_nowhere(*_, **__):
            raise TypeError("broken")

        writer = (writes_nowhere, None)
        with unittest.mock.patch("echo_torch.reuse.writer_of", return_value=writer):
            self.assertIn("broken", str(watch(gelu, 1).wrong))

    def test_what_does_not_run_here_is_no_finding(self):
        def needs_what_is_missing(*_):
            raise RuntimeError("no such library")

        entry = next(entry for entry in op_db if entry.name == "nn.functional.gelu")
        with unittest.mock.patch("operators.traced", side_effect=needs_what_is_missing):
            found = watch([entry], 1)
        self.assertEqual((found.wrong, list(found.untraced)), ({}, [entry.name]))


if __name__ == "__main__":
    unittest.main()
