"""Ways to call a step: static arguments, leaves that are no arrays, objects that it changes in place, shardings."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from models import filled
from steps import mesh, squares

import echo_jax

OPTIONS = echo_jax.MEMORY_SCHEDULER


def loss(weights: Any, x: jax.Array) -> jax.Array:
    for w in weights:
        x = x + jax.nn.gelu(x @ w)
    return (x**2).mean()


gradient = jax.value_and_grad(loss)
SHAPES = squares(3, 128, 512)


class Planned(unittest.TestCase):
    def planned(self, ours: Any, theirs: Any, *args: Any, **kwargs: Any) -> echo_jax.Decision:
        """Both give the same, and the step was rewritten."""
        found, want = ours(*args, **kwargs), theirs(*args, **kwargs)
        self.assertEqual(jax.tree.structure(found), jax.tree.structure(want))
        jax.tree.map(self.near, found, want)
        decision = ours.decisions[-1]
        self.assertEqual(decision.reason, "")
        self.assertLess(decision.after, decision.before)
        return decision

    def near(self, a: Any, b: Any) -> None:
        self.assertEqual(
            (a.shape, a.dtype, a.sharding.spec if isinstance(a.sharding, NamedSharding) else None),
            (b.shape, b.dtype, b.sharding.spec if isinstance(b.sharding, NamedSharding) else None),
        )
        self.assertLessEqual(float(jnp.max(jnp.abs(a - b))), 1e-5 * float(jnp.max(jnp.abs(b))))


class Arguments(Planned):
    def test_static_arguments(self) -> None:
        def step(weights: Any, times: int, x: jax.Array, *, how: str = "sum") -> Any:
            return jax.value_and_grad(lambda w: loss(w, x * times) * (2 if how == "twice" else 1))(weights)

        plain = jax.jit(step, static_argnums=1, static_argnames="how", compiler_options=OPTIONS)
        ours, (weights, x) = echo_jax.remat(plain), filled(SHAPES)
        decision = self.planned(ours, plain, weights, 2, x, how="twice")
        self.assertEqual(echo_jax.explain(ours, weights, 2, x, how="twice").sizes.temp, decision.after)
        self.planned(ours, plain, weights, 1, x)
        self.planned(ours, plain, weights, times=1, x=x)
        self.assertEqual(len(ours.decisions), 3)

    def test_leaves_that_are_no_arrays(self) -> None:
        @jax.tree_util.register_dataclass
        @dataclass
        class Layer:
            w: Any
            activation: Any

        def step(layers: Any, x: jax.Array) -> Any:
            def apply(weights: Any) -> jax.Array:
                y = x
                for layer, w in zip(layers, weights):
                    y = y + layer.activation(y @ w)
                return (y**2).mean()

            value, found = jax.value_and_grad(apply)([layer.w for layer in layers])
            return value, [Layer(w, layer.activation) for w, layer in zip(found, layers)]

        weights, x = filled(SHAPES)
        layers = [Layer(w, jnp.tanh) for w in weights]
        ours = echo_jax.remat(step, compiler_options=OPTIONS)
        value, after = ours(layers, x)
        self.assertEqual([layer.activation for layer in after], [jnp.tanh] * 3)
        self.assertEqual(ours.decisions[0].reason, "")
        want, gradients = step(layers, x)
        self.near(value, want)
        self.near(after[0].w, gradients[0].w)
        self.assertGreater(echo_jax.explain(step, layers, x).live_bytes, 0)

    def test_results_that_are_arguments_and_trees_of_any_kind(self) -> None:
        def step(state: Any, unused: Any, x: jax.Array) -> Any:
            value, found = gradient(state["weights"], x)
            return {**state, "weights": found}, unused, value, jnp.zeros((0, 3)), None, 3

        weights, x = filled(SHAPES)
        state = {"weights": weights, "none": None, "at": 0, "empty": ()}
        ours = echo_jax.remat(step, compiler_options=OPTIONS)
        found = ours(state, jnp.arange(3), x)
        want = jax.jit(step)(state, jnp.arange(3), x)
        self.assertEqual(jax.tree.structure(found), jax.tree.structure(want))
        self.assertEqual(
            [leaf.shape for leaf in jax.tree.leaves(found)], [leaf.shape for leaf in jax.tree.leaves(want)]
        )
        (decision,) = ours.decisions
        self.assertEqual(decision.reason, "")
        self.assertTrue(0 < decision.again < decision.kernels, decision)

    def test_a_jitted_function_within_that_donates(self) -> None:
        inner = jax.jit(gradient, donate_argnums=0)
        ours = echo_jax.remat(lambda weights, x: inner(weights, x), compiler_options=OPTIONS)
        weights, x = filled(SHAPES)
        want = gradient(weights, x)
        value, _ = ours(weights, x)
        self.near(value, want[0])
        self.assertTrue(weights[0].is_deleted())
        self.assertEqual(ours.decisions[0].reason, "")


class InPlace(Planned):
    def test_a_module_and_an_optimizer(self) -> None:
        class Model(nnx.Module):
            def __init__(self, rngs: nnx.Rngs) -> None:
                self.first, self.third = (nnx.Linear(64, 256, rngs=rngs) for _ in range(2))
                self.second, self.last = (nnx.Linear(256, 64, rngs=rngs) for _ in range(2))
                self.norm = nnx.BatchNorm(64, rngs=rngs)
                self.dropout = nnx.Dropout(0.1, rngs=rngs)

            def __call__(self, x: jax.Array) -> jax.Array:
                x = x + self.dropout(self.second(nnx.gelu(self.first(x))))
                return x + self.last(nnx.gelu(self.third(self.norm(x))))

        def step(model: Model, optimizer: Any, x: jax.Array) -> jax.Array:
            value, found = nnx.value_and_grad(lambda model: ((model(x) - x) ** 2).mean())(model)
            optimizer.update(model, found)
            return value

        x = filled(squares(1, 64, 1024))[1]
        for ours in (
            echo_jax.remat(step, compiler_options=OPTIONS),
            echo_jax.remat(nnx.jit(step), compiler_options=OPTIONS),
        ):
            models = [Model(nnx.Rngs(0)) for _ in range(2)]
            optimizers = [nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param) for model in models]
            for _ in range(2):
                values = [run(*each, x) for run, each in zip((ours, nnx.jit(step)), zip(models, optimizers))]
                self.near(*values)
            self.assertEqual(ours.decisions[0].reason, "")
            self.assertEqual(len(ours.decisions), 1)
            self.assertEqual([int(model.dropout.rngs.count[...]) for model in models], [2, 2])
            states = [jax.tree.leaves(nnx.state(model, nnx.Any(nnx.Param, nnx.BatchStat))) for model in models]
            for a, b in zip(*states, strict=True):
                self.assertLess(float(jnp.max(jnp.abs(a - b))), 1e-5)

    def test_declines_what_cannot_be_written_back(self) -> None:
        def step(weights: Any, x: jax.Array) -> Any:
            value, weights[:] = gradient(weights, x)
            return value

        weights, x = filled(SHAPES)
        ours = echo_jax.remat(step)
        first = weights[0]
        ours(weights, x)
        self.assertIn("in place", ours.decisions[0].reason)
        self.assertIsNot(weights[0], first)


class Sharded(Planned):
    def test_shardings_of_jit(self) -> None:
        devices = mesh()
        rows, whole = (NamedSharding(devices, spec) for spec in (P("data"), P()))
        plain = jax.jit(gradient, in_shardings=(whole, rows), out_shardings=(whole, rows), compiler_options=OPTIONS)
        ours, (weights, x) = echo_jax.remat(plain), filled(SHAPES)
        self.planned(ours, plain, weights, x)
        within = jax.jit(lambda weights, x: ours(weights, x)[1])(weights, x)
        self.near(within[0], plain(weights, x)[1][0])


if __name__ == "__main__":
    unittest.main()
