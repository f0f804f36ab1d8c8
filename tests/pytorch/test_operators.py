"""A part of the walk over PyTorch's operators; `operators.py` alone walks over all of them."""

from __future__ import annotations

import unittest

import support  # noqa: F401  makes the modules beside the package importable
from operators import watch
from torch.testing._internal.common_methods_invocations import op_db

# Views and what looks like one, writes, random numbers, and what is planned as two.
NAMED = ("unsafe_chunk", "unsafe_split", "reshape", "t", "expand", "conj_physical", "positive")
NAMED += ("nn.functional.dropout", "nn.functional.batch_norm", "nn.functional.rrelu")
NAMED += ("bernoulli", "softmax", "clone", "nn.functional.gelu", "add", "where", "to")


class Operators(unittest.TestCase):
    def test_what_is_said_of_operators_is_what_they_do(self):
        found = watch([e for k, e in enumerate(op_db) if k % 12 == 0 or e.name in NAMED], 2)
        self.assertGreater(len(found.traced), 60)
        self.assertGreater(len(found.ran), 100)
        self.assertGreater(len(found.written_over), 20)
        self.assertEqual(found.wrong, {})


if __name__ == "__main__":
    unittest.main()
