"""A few random programs; `programs.py` alone trains as many as are asked for."""

from __future__ import annotations

import unittest
import unittest.mock

import support  # noqa: F401  makes the modules beside the package importable
from other_memory import other_memory
from programs import MOVES, Program, expected_of, faults

from echo_torch import reuse

# Among them are checkpoints, batches of several sizes, and an input and results that the caller writes to.
SEEDS = (4, 9, 12, 28)
ASKED = ({"strategy": "min_cut"}, {"budget": 0.3})


class Programs(unittest.TestCase):
    def trained(self, seed):
        program = Program(seed)
        expected = expected_of(program)
        self.assertNotIsInstance(expected, str)
        return program, expected

    def test_programs_train_alike(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.assertEqual(list(faults(*self.trained(seed), ASKED)), [])

    def test_programs_train_alike_with_moves_to_the_host(self):
        for seed in (5, 12):
            with self.subTest(seed=seed), other_memory() as memory:
                self.assertEqual(list(faults(*self.trained(seed), MOVES[1:3])), [])
                self.assertGreater(memory.copies, 0)

    def test_a_fault_is_found(self):
        def wrong(*args, **kwargs):
            return right(*args, **kwargs) + 1

        right = reuse.run_over
        with unittest.mock.patch.object(reuse, "run_over", wrong):
            found = "\n".join(faults(*self.trained(SEEDS[0]), ASKED[:1]))
        self.assertRegex(found, "these differ|does not train")


if __name__ == "__main__":
    unittest.main()
