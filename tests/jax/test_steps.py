"""Steps of many kinds: rewritten they need no more, and compute the same. bench/jax looks at all of steps.py."""

from __future__ import annotations

import unittest
from typing import Any

import jax
import models
import numpy as np
import steps

import echo_jax

TOLERANCE = 1e-5  # of the largest value: what recompilation itself changes in float32
LEAST = {
    "custom_vjp": 1.3,
    "loops in loops": 1.4,
    "two gradients in a row": 1.3,
}  # before / after, where another one than 1


class Steps(unittest.TestCase):
    def test_never_more_and_the_same_values(self) -> None:
        for name in steps.FAST:
            with self.subTest(name):
                judged = steps.CASES[name]().judged()
                self.assertGreater(judged.decision.before, 0, judged.decision.reason)
                self.assertLessEqual(LEAST.get(name, 1.0) * judged.stated, judged.decision.before)
                self.assertLessEqual(judged.differs, TOLERANCE)


class Exact(unittest.TestCase):
    def test_as_near_to_float64_as_remat_of_jax(self) -> None:
        step = models.lstm(8, 32, 64)
        args = models.filled((step.parameters, *step.batch))
        with jax.enable_x64(True):
            exact = jax.value_and_grad(step.loss)(*jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), args))
        ours = echo_jax.remat(jax.value_and_grad(step.loss), compiler_options=echo_jax.MEMORY_SCHEDULER)
        ways = (ours, jax.jit(jax.value_and_grad(step.loss)), jax.jit(jax.value_and_grad(jax.checkpoint(step.loss))))
        errors = [self.error(way(*args), exact) for way in ways]
        self.assertEqual(ours.decisions[0].reason, "")
        self.assertLessEqual(errors[0], 2 * max(errors[1:]))
        self.assertGreater(errors[0], 0)

    def error(self, found: Any, exact: Any) -> float:
        """The largest one, in parts of the largest value."""
        pairs = list(zip(jax.tree.leaves(found), map(np.asarray, jax.tree.leaves(exact)), strict=True))
        self.assertTrue(all(b.dtype == np.float64 for _, b in pairs))
        return max(float(np.abs(a - b).max()) for a, b in pairs) / max(float(np.abs(b).max()) for _, b in pairs)


if __name__ == "__main__":
    unittest.main()
