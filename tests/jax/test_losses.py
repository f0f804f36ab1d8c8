"""A loss in echo_jax.remat: its gradients are planned where it is differentiated."""

from __future__ import annotations

import os
import tempfile
import unittest
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from models import filled
from steps import squares

import echo_jax
from echo_jax import search


def loss(weights: Any, x: jax.Array, times: int = 1, key: Any = None) -> jax.Array:
    for w in weights * times:
        x = x + jax.nn.gelu(x @ w)
    return (x**2).mean() if key is None else (x**2 * jax.random.bernoulli(key, 0.9, x.shape)).mean()


def with_more(weights: Any, x: jax.Array) -> Any:
    return loss(weights, x), {"means": x.mean(0), "none": None}


SHAPES = squares(3, 128, 512)


class Losses(unittest.TestCase):
    def ours(self, function: Any = loss) -> echo_jax.Remat:
        return echo_jax.remat(function, compiler_options=echo_jax.MEMORY_SCHEDULER)

    def same(self, found: Any, want: Any) -> None:
        self.assertEqual(jax.tree.structure(found), jax.tree.structure(want))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * float(jnp.max(jnp.abs(b))))

    def test_gradients_by_any_argument(self) -> None:
        args = filled(SHAPES)
        for numbers in (0, (0, 1)):
            with self.subTest(numbers):
                ours = self.ours()
                gradient, plain = (jax.value_and_grad(each, numbers) for each in (ours, loss))
                self.same(jax.jit(gradient)(*args), jax.jit(plain)(*args))
                self.same(gradient(*args), plain(*args))
                (decision,) = ours.decisions
                self.assertEqual(decision.reason, "")
                self.assertLess(decision.after, decision.before)

    def test_a_policy_of_jax_around_the_loss(self) -> None:
        """It is a candidate as the user would write it, and found again on disk."""
        args, policy = filled(SHAPES), jax.checkpoint_policies.nothing_saveable
        marked = jax.value_and_grad(jax.checkpoint(loss, policy=policy))
        wanted = echo_jax.explain(marked, *args, compiler_options=echo_jax.MEMORY_SCHEDULER).sizes.temp
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, ECHO_JAX_CACHE=folder),
            mock.patch.object(search.Search, "_plans"),
        ):
            for is_cached in (False, True):
                ours = echo_jax.remat(loss, max_overhead=0.9, compiler_options=echo_jax.MEMORY_SCHEDULER)
                self.same(jax.value_and_grad(ours)(*args), jax.value_and_grad(loss)(*args))
                (decision,) = ours.decisions
                self.assertEqual((decision.reason, decision.cached), ("", is_cached))
                self.assertLessEqual(decision.after, wanted)
                self.assertIn((wanted, "nothing_saveable"), [(each.temp, each.how) for each in decision.tried])

    def test_keys_keywords_and_what_is_not_differentiated(self) -> None:
        (weights, x), ours = filled(SHAPES), self.ours()
        key = jax.random.key(1)
        self.same(jax.grad(ours)(weights, x, key=key), jax.grad(loss)(weights, x, key=key))
        self.assertEqual(len(ours.decisions), 1)
        self.same(ours(weights, x), loss(weights, x))
        self.assertEqual(len(ours.decisions), 1)

    def test_further_results(self) -> None:
        args, ours = filled(SHAPES), self.ours(with_more)
        self.same(jax.value_and_grad(ours, has_aux=True)(*args), jax.value_and_grad(with_more, has_aux=True)(*args))
        self.assertEqual(ours.decisions[0].reason, "")

    def test_what_else_is_done_with_it(self) -> None:
        """Weighted, with its further results differentiated, mapped, and derived twice."""
        (weights, x), ours = filled(SHAPES), self.ours(with_more)

        def twice(function: Any, weights: Any, x: jax.Array) -> jax.Array:
            value, more = function(weights, x)
            return 3 * value + more["means"].sum()

        found, want = (jax.grad(lambda w, x, f=f: twice(f, w, x), (0, 1))(weights, x) for f in (ours, with_more))
        self.same(found, want)
        xs = x.reshape(4, 128, 128)
        found, want = (jax.vmap(jax.grad(f), (None, 0))(weights, xs) for f in (self.ours(), loss))
        self.same(found, want)
        found, want = (
            jax.grad(lambda x, f=f: (jax.grad(f, 1)(weights, x) ** 2).sum() * 1e6)(x) for f in (self.ours(), loss)
        )
        self.same(found, want)

    def test_decides_ahead(self) -> None:
        decision = self.ours().decide(*SHAPES)
        self.assertLess(decision.after, decision.before)


if __name__ == "__main__":
    unittest.main()
