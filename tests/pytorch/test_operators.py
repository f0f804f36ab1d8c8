"""A part of the walk over PyTorch's operators; `operators.py` alone walks over all of them."""

from __future__ import annotations

import unittest
import unittest.mock

import support  # noqa: F401  makes the modules beside the package importable
import torch
from operators import FORMS, watch
from torch.testing._internal.common_methods_invocations import op_db

from echo_torch import costs
from echo_torch.made_up import Like

# Views and what looks like one, writes, random numbers, and as a whole what is planned as two parts.
NAMED = ("unsafe_chunk", "unsafe_split", "reshape", "t", "expand", "conj_physical", "positive")
NAMED += ("nn.functional.dropout", "nn.functional.batch_norm", "nn.functional.rrelu")
NAMED += ("bernoulli", "softmax", "clone", "nn.functional.gelu", "add", "where", "to")
NAMED += ("nn.functional.mse_loss", "nn.functional.fold", "nn.functional.smooth_l1_loss")

# Products, transforms, factorizations and layouts of complex numbers.
COMPLEX = (
    "mm",
    "bmm",
    "fft.ifft",
    "linalg.inv",
    "linalg.svd",
    "linalg.pinv",
    "matrix_exp",
    "view_as_real",
)
COMPLEX += ("mul", "sum", "clone", "index_put", "new_zeros", "gather", "cumsum", "abs", "where")


class Operators(unittest.TestCase):
    def test_what_is_said_of_operators_is_what_they_do(self):
        found = watch([e for k, e in enumerate(op_db) if k % 12 == 0 or e.name in NAMED], 2)
        self.assertGreater(len(found.traced), 60)
        self.assertGreater(len(found.ran), 100)
        self.assertGreater(len(found.written_over), 20)
        self.assertGreater(len(found.measured), 90)
        self.assertEqual(found.wrong, {})

    def test_complex_numbers_gaps_and_lazy_views(self):
        chosen = [e for e in op_db if e.name in COMPLEX]
        found = watch(chosen, 1, (torch.float32, torch.complex64), tuple(FORMS))
        self.assertGreater(len(found.traced), 10)
        self.assertGreater(len(found.measured), 25)
        self.assertEqual(found.wrong, {})

    def test_half_precision(self):
        names = ("addmm", "acos", "pow", "lerp", "addcmul", "nn.functional.gelu", "softmax", "var")
        kinds = (torch.bfloat16, torch.float16)
        found = watch([e for e in op_db if e.name in names], 3, kinds)
        self.assertIn("aten.mul.Scalar", found.written_over)
        self.assertEqual(found.wrong, {})

    def test_what_runs_otherwise_under_a_mode_is_found(self):
        inverse = [entry for entry in op_db if entry.name == "pinverse"]
        with unittest.mock.patch("echo_torch.graph.OTHER_BITS", ()):
            found = watch(inverse, 1, (torch.complex64,))
        target = "aten.linalg_pinv.atol_rtol_tensor"
        self.assertIn((target, "makes other bits when it runs again under a dispatch mode"), found.wrong)

    def test_scratch_memory_that_is_not_measured_right_is_found(self):
        entries = [entry for entry in op_db if entry.name in ("addbmm", "cholesky")]
        make = Like.make
        with unittest.mock.patch.object(Like, "make", lambda *args: make(*args).resolve_conj()):
            wrong = watch(entries, 2, (torch.complex64,)).wrong
        self.assertIn("needs other scratch memory", str(wrong))
        series = [entry for entry in op_db if entry.name == "matrix_exp"]
        with unittest.mock.patch.object(costs, "USUAL", (costs.LEAST,)):
            wrong = watch(series, 8).wrong
        self.assertIn("needs other scratch memory", str(wrong))

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
