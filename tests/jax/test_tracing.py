"""Steps as lists of equations: equal ones are one, and regions of jax.checkpoint can be opened."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from models import filled, shape
from steps import Case, squares

from echo_jax import calls, kernels, tracing
from echo_jax.compiling import compile_step


def traced(step: Any, *args: Any) -> tracing.Traced:
    return tracing.trace(step, calls.of(step, args, {}))[0]


def names(step: tracing.Traced) -> list[str]:
    return [equation.primitive.name for equation in step.equations]


def layers(around: Any, weights: Any, x: jax.Array) -> jax.Array:
    for w in weights:
        x = x + around(lambda w, x: jnp.tanh(jax.nn.gelu(x @ w)))(w, x)
    return (x**2).mean()


class Costs(unittest.TestCase):
    def test_results_lie_in_no_temporary_memory(self) -> None:
        """New weights lie where donated ones did, or in the memory of results."""
        optimizer = optax.adam(1e-3)

        def step(weights: Any, state: Any, x: jax.Array) -> Any:
            value, found = jax.value_and_grad(lambda w: layers(lambda f: f, w, x))(weights)
            updates, state = optimizer.update(found, state)
            return optax.apply_updates(weights, updates), state, value

        weights, x = squares(3, 128, 256)
        arguments = (weights, jax.eval_shape(optimizer.init, weights), x)
        made = traced(jax.jit(step, donate_argnums=(0, 1)), *arguments)
        compiled = compile_step(made.jitted(tracing.scoped(made)), tuple(jax.tree.leaves(arguments)), {})
        graph = kernels.read(made, compiled)
        count = graph.core().plan("baseline", None, 0.0, 10.0, True).peak_bytes
        self.assertLess(abs(count / compiled.sizes.temp - 1), 0.15)
        for value in made.closed.jaxpr.outvars:
            node, output = graph.place[value]
            self.assertEqual(graph.nodes[node].sizes(made.equations[graph.nodes[node].root])[output], 0)

    def test_a_scatter_is_as_expensive_as_its_updates(self) -> None:
        made = traced(lambda x, at, new: x.at[at].add(new), shape(64, 8), shape(5, dtype="int32"), shape(5, 8))
        (scatter,) = [each for each in made.equations if each.primitive.name == "scatter-add"]
        self.assertEqual(tracing.operations(scatter), 40.0)
        self.assertFalse(tracing.is_heavy(scatter))


class Equal(unittest.TestCase):
    def test_equal_equations_are_one(self) -> None:
        def step(x: jax.Array) -> Any:
            inner = jax.jit(lambda x: jnp.sin(x) * 2)
            return inner(x) + jnp.sin(x), jnp.sin(x) * 2

        self.assertEqual(sorted(names(traced(step, shape(3)))), ["add", "mul", "sin"])

    def test_what_differs_stays_apart(self) -> None:
        def zeros(x: jax.Array) -> Any:
            return x / 0.0, x / -0.0, jax.lax.optimization_barrier(x), jax.lax.optimization_barrier(x)

        x = jnp.asarray([1.0, -1.0])
        step = traced(zeros, x)
        self.assertEqual(len(step.equations), 4)
        for ours, theirs in zip(tracing.plain(step)(x), zeros(x), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_numbers_that_print_alike_stay_apart(self) -> None:
        def near(x: jax.Array) -> Any:
            return x * np.float32(1.23456e-4), x * np.float32(1.23461e-4), x * np.float32(1.23456e-4)

        step = traced(near, jnp.ones(3))
        self.assertEqual(names(step), ["mul", "mul"])
        for ours, theirs in zip(tracing.plain(step)(jnp.ones(3)), near(jnp.ones(3)), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_the_same_values(self) -> None:
        weights, x = filled(squares(3, 16, 8))
        gradient = jax.value_and_grad(functools.partial(layers, lambda layer: layer))
        flat = tracing.plain(traced(gradient, weights, x))(*weights, x)
        for ours, theirs in zip(flat, jax.tree.leaves(gradient(weights, x)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


class Regions(unittest.TestCase):
    def test_an_opened_step_is_the_one_without_regions(self) -> None:
        weights, x = squares(3, 16, 8)
        plain = traced(jax.value_and_grad(functools.partial(layers, lambda layer: layer)), weights, x)
        self.assertIsNone(tracing.opened(plain))
        for around in (jax.checkpoint, lambda layer: jax.checkpoint(jax.checkpoint(layer))):
            step = traced(jax.value_and_grad(functools.partial(layers, around)), weights, x)
            opened = tracing.opened(step)
            assert opened is not None
            self.assertEqual(sorted(names(opened)), sorted(names(plain)))

    def test_a_plan_of_all_is_below_checkpoints_around_layers(self) -> None:
        policy = jax.checkpoint_policies.dots_saveable
        around = functools.partial(jax.checkpoint, policy=policy)
        case = Case(jax.value_and_grad(functools.partial(layers, around)), squares(6, 128, 1024))
        judged = case.judged()
        self.assertLess(judged.stated, 0.9 * judged.decision.before)
        self.assertLessEqual(judged.decision.overhead, 0.05)
        self.assertLessEqual(judged.differs, 1e-5)


if __name__ == "__main__":
    unittest.main()
