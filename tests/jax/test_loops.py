"""Loops that keep less: pairs of loops that are not one to one, and loops in loops, by derivatives of one's own."""

from __future__ import annotations

import unittest
from typing import Any

import jax
import jax.numpy as jnp
from models import shape
from steps import Case


def cell(h: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(h @ w + jnp.sin(x))


@jax.custom_vjp
def chain(w: jax.Array, xs: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda h, x: (cell(h, x, w),) * 2, jnp.zeros_like(xs[0]), xs)[1]


def kept(w: jax.Array, xs: jax.Array) -> tuple[jax.Array, Any]:
    def step(h: jax.Array, x: jax.Array) -> Any:
        after = cell(h, x, w)
        return after, (after, h, 1 - after**2, jnp.exp(-(after**2)), jnp.cos(x))

    hs, *saved = jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)[1]
    return hs, (w, *saved)


def by_two_loops(saved: Any, g: jax.Array) -> Any:
    """One loop for what the inputs need, another one for the weights; both read what one loop has stacked."""
    w, before, slopes, bells, cosines = saved

    def back(carry: jax.Array, told: Any) -> Any:
        g, slope, bell = told
        inner = (g + carry) * slope * bell
        return inner @ w.T, inner

    inner = jax.lax.scan(back, jnp.zeros_like(g[0]), (g, slopes, bells), reverse=True)[1]

    def add(total: jax.Array, told: Any) -> Any:
        h, inner, cosine = told
        return total + h.T @ inner, inner * cosine

    total, xs = jax.lax.scan(add, jnp.zeros_like(w), (before, inner, cosines))
    return total, xs


def twice(saved: Any, g: jax.Array) -> Any:
    """A loop that reads one stacked value in two places."""
    w, before, slopes, _, cosines = saved

    def back(carry: jax.Array, told: Any) -> Any:
        g, h, slope, cosine, again = told
        inner = (g + carry) * (slope + again) / 2
        return inner @ w.T, (inner * cosine, h.T @ inner)

    told = (g, before, slopes, cosines, slopes)
    xs, each = jax.lax.scan(back, jnp.zeros_like(g[0]), told, reverse=True)[1]
    return each.sum(0), xs


class Pairs(unittest.TestCase):
    def test_the_same_gradients_however_many_loops_read_what_one_stacks(self) -> None:
        for backward in (by_two_loops, twice):
            for is_inner in (False, True):
                with self.subTest(backward.__name__, is_inner=is_inner):
                    chain.defvjp(kept, backward)

                    def loss(w: jax.Array, xs: jax.Array, is_inner: bool = is_inner) -> jax.Array:
                        if is_inner:
                            xs = jax.lax.scan(lambda xs, _: (chain(w, xs), None), xs, None, length=3)[0]
                        return (chain(w, xs) ** 2).mean()

                    judged = Case(jax.value_and_grad(loss, (0, 1)), (shape(32, 32), shape(16, 32, 32))).judged()
                    self.assertNotIn("Echo failed", judged.decision.reason)
                    self.assertGreater(judged.decision.before, 0)
                    self.assertLessEqual(judged.stated, judged.decision.before)
                    self.assertLessEqual(judged.differs, 1e-5)

    def test_a_loop_in_a_region_of_checkpoint(self) -> None:
        def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
            def layer(xs: jax.Array) -> jax.Array:
                def step(h: jax.Array, x: jax.Array) -> Any:
                    h = jax.nn.gelu(cell(h, x, w))
                    return h, h

                return jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)[1]

            return (jax.checkpoint(layer)(jax.checkpoint(layer)(xs)) ** 2).mean()

        judged = Case(jax.value_and_grad(loss), (shape(32, 32), shape(16, 32, 32))).judged()
        self.assertEqual(judged.decision.reason, "")
        self.assertLess(1.2 * judged.stated, judged.decision.before)
        self.assertLessEqual(judged.differs, 1e-5)

    def test_three_loops_deep(self) -> None:
        def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
            def inner(xs: jax.Array, _: Any) -> Any:
                return jax.lax.scan(lambda h, x: (cell(h, x, w),) * 2, jnp.zeros_like(xs[0]), xs)[1], None

            def outer(xs: jax.Array, _: Any) -> Any:
                return jax.lax.scan(inner, jnp.sin(xs), None, length=2)[0], None

            return (jax.lax.scan(outer, xs, None, length=3)[0] ** 2).mean()

        judged = Case(jax.value_and_grad(loss), (shape(32, 32), shape(16, 32, 32))).judged()
        self.assertEqual(judged.decision.reason, "")
        self.assertLess(1.2 * judged.stated, judged.decision.before)
        self.assertLessEqual(judged.decision.overhead, 0.05)
        self.assertLessEqual(judged.differs, 1e-5)


if __name__ == "__main__":
    unittest.main()
