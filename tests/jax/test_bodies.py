"""Steps whose backward pass lies within a loop, a conditional or shard_map: the body is planned."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P
from models import shape
from steps import Case, squares

import echo_jax

Step = Callable[..., Any]


def loss(weights: Any, x: jax.Array) -> jax.Array:
    for w in weights:
        x = x + jax.nn.gelu(x @ w)
    return (x**2).mean()


gradient = jax.value_and_grad(loss)


def mesh() -> Mesh:
    return jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))


def accumulated_by_scan(weights: Any, parts: jax.Array) -> Any:
    def add(total: Any, part: jax.Array) -> Any:
        value, found = gradient(weights, part)
        return jax.tree.map(jnp.add, total, found), value

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, weights), parts)


def accumulated_by_fori_loop(weights: Any, parts: jax.Array) -> Any:
    def add(at: jax.Array, state: Any) -> Any:
        value, found = gradient(weights, parts[at])
        return state[0] + value, jax.tree.map(jnp.add, state[1], found)

    return jax.lax.fori_loop(0, len(parts), add, (jnp.zeros(()), jax.tree.map(jnp.zeros_like, weights)))


def until(weights: Any, parts: jax.Array) -> Any:
    """A number of steps that is not known before."""

    def step(state: Any) -> Any:
        at, weights = state
        return at + 1, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient(weights, parts[at])[1])

    return jax.lax.while_loop(lambda state: (state[0] < 2) & (loss(state[1], parts[0]) > 0), step, (0, weights))


def epochs_of_steps(weights: Any, parts: jax.Array) -> Any:
    """A loop in a loop, and the step within the inner one."""

    def step(weights: Any, part: jax.Array) -> Any:
        value, found = gradient(weights, part)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, found), value

    return jax.lax.scan(lambda weights, _: jax.lax.scan(step, weights, parts), weights, None, length=2)


def conditional(weights: Any, parts: jax.Array) -> Any:
    whole = parts.reshape(-1, parts.shape[-1])
    nothing = lambda weights, x: (jnp.zeros(()), jax.tree.map(jnp.zeros_like, weights))  # noqa: E731
    return jax.lax.cond(whole[0, 0] < 1e9, gradient, nothing, weights, whole)


def by_device(weights: Any, parts: jax.Array) -> Any:
    """Each device computes gradients of its part, the mean of which is taken."""

    def step(weights: Any, x: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: jax.lax.pmean(leaf, "data"), gradient(weights, x))

    whole = parts.reshape(-1, parts.shape[-1])
    return jax.shard_map(step, mesh=mesh(), in_specs=(P(), P("data")), out_specs=P(), check_vma=False)(weights, whole)


def by_device_in_parts(weights: Any, parts: jax.Array) -> Any:
    """Gradients that each device accumulates, with a collective operation in the loop."""

    def step(weights: Any, parts: jax.Array) -> Any:
        def add(total: Any, part: jax.Array) -> Any:
            found = jax.lax.pmean(gradient(weights, part)[1], "data")
            return jax.tree.map(jnp.add, total, found), None

        return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, weights), parts)[0]

    mapped = jax.shard_map(step, mesh=mesh(), in_specs=(P(), P(None, "data")), out_specs=P(), check_vma=False)
    return mapped(weights, parts)


def of_all_devices(weights: Any, parts: jax.Array) -> Any:
    """Gradients of a loss that shard_map makes: two regions, as one."""

    def mean(weights: Any, biases: Any, x: jax.Array) -> jax.Array:
        for w, b in zip(weights, biases):
            x = x + jax.nn.gelu(x @ w + b)
        return jax.lax.pmean((x**2).mean(), "data")

    mapped = jax.shard_map(mean, mesh=mesh(), in_specs=(P(), P(), P("data")), out_specs=P())
    biases = [w[0] for w in weights]
    value, found = jax.value_and_grad(mapped)(weights, biases, parts.reshape(-1, parts.shape[-1]))
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, found), value


class Bodies(unittest.TestCase):
    def test_less_than_before_and_the_same_values(self) -> None:
        weights, _ = squares(3, 128, 1)
        for step in (
            accumulated_by_scan,
            accumulated_by_fori_loop,
            until,
            epochs_of_steps,
            conditional,
            by_device,
            by_device_in_parts,
            of_all_devices,
        ):
            with self.subTest(step.__name__):
                judged = Case(step, (weights, shape(2, 1024, 128))).judged()
                self.assertEqual(judged.decision.reason, "")
                self.assertLess(judged.stated, judged.decision.before)
                self.assertLessEqual(judged.decision.overhead, 0.05)
                self.assertLessEqual(judged.differs, 1e-5)

    def test_a_loop_without_gradients_is_no_body(self) -> None:
        ours = echo_jax.remat(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: jnp.sin(x), x))
        self.assertIn("no backward pass", ours.decide(shape(8)).reason)


if __name__ == "__main__":
    unittest.main()
