"""Ways to call a step: static arguments, leaves that are no arrays, objects that it changes in place, shardings."""

from __future__ import annotations

import concurrent.futures
import functools
import unittest
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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


class Numbers(Planned):
    def test_static_arguments_of_other_types(self) -> None:
        def step(weights: Any, x: jax.Array, how: Any) -> Any:
            return gradient(weights, x * {bool: 2, int: 3, float: 4}[type(how)])

        plain, (weights, x) = jax.jit(step, static_argnums=2, compiler_options=OPTIONS), filled(SHAPES)
        ours = echo_jax.remat(plain)
        for how in (1, True, 1.0):
            self.planned(ours, plain, weights, x, how)

    def test_numbers_of_equinox_are_fixed(self) -> None:
        class Model(eqx.Module):
            weights: Any
            factor: float
            residual: bool

            def __call__(self, x: jax.Array) -> jax.Array:
                for w in self.weights:
                    made = self.factor * jax.nn.gelu(x @ w)
                    x = x + made if self.residual else made
                return x

        def step(model: Any, x: jax.Array, times: int) -> Any:
            value, found = eqx.filter_value_and_grad(lambda m: (m(x) ** 2).mean())(model)
            for _ in range(times):
                model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, found))
            return model, value

        weights, x = filled(SHAPES)
        for plain, given in ((eqx.filter_jit(step), (x, 2)), (lambda m, x: step(m, x, 2), (x,))):
            ours = echo_jax.remat(plain, compiler_options=OPTIONS)
            models = [Model(weights, 0.5, True)] * 2
            for _ in range(2):
                (models[0], a), (models[1], b) = ours(models[0], *given), plain(models[1], *given)
                self.near(a, b)
            self.assertEqual([(model.factor, model.residual) for model in models], [(0.5, True)] * 2)
            self.assertEqual(ours.decisions[0].reason, "")
            self.assertEqual(len(ours.decisions), 1)

    def test_a_flag_and_a_large_number_of_a_step_that_is_not_jitted(self) -> None:
        def step(weights: Any, x: jax.Array, seed: int, training: bool, rate: float) -> Any:
            x = x + jax.random.normal(jax.random.key(seed), x.shape) if training else x
            return gradient(weights, x * rate), {"seed": 7, "training": training}

        weights, x = filled(SHAPES)
        ours = echo_jax.remat(step, compiler_options=OPTIONS)
        for training in (True, False):
            found, told = ours(weights, x, 2**40, training, 0.5)
            want, _ = step(weights, x, 2**40, training, 0.5)
            jax.tree.map(self.near, found, want)
            self.assertEqual(told, {"seed": 7, "training": training})
        ours(weights, x, 2**40, False, 0.25)
        self.assertEqual(len(ours.decisions), 2, "a rate is an array")

    def test_numbers_that_choose_what_a_step_does(self) -> None:
        def step(weights: Any, x: jax.Array, times: int) -> Any:
            return gradient(weights * times, x)

        weights, x = filled(SHAPES)
        for plain in (step, nnx.jit(step, static_argnums=2)):
            ours = echo_jax.remat(plain, compiler_options=OPTIONS)
            for times in (1, 2):
                jax.tree.map(self.near, ours(weights, x, times), step(weights, x, times))
            self.assertEqual([decision.reason for decision in ours.decisions], ["", ""])
        self.assertGreater(echo_jax.explain(step, weights, x, 2).live_bytes, 0)
        self.assertEqual(echo_jax.explain(ours, weights, x, 2).sizes.temp, ours.decisions[-1].after)
        for times in range(3, 12):
            ours.known.setdefault(times, (None, None))
        ours(weights, x, 12)
        ours(weights, x, 13)
        self.assertEqual(len(ours.decisions), 3)
        self.assertRegex(ours.decisions[-1].reason, "^it was planned 8 times, for other values of its numbers")


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
        want = step(state, jnp.arange(3), x)
        self.assertEqual(jax.tree.structure(found), jax.tree.structure(want))
        self.assertEqual([jnp.shape(leaf) for leaf in jax.tree.leaves(found)], [*map(jnp.shape, jax.tree.leaves(want))])
        self.assertIs(type(found[-1]), int)
        (decision,) = ours.decisions
        self.assertEqual(decision.reason, "")
        self.assertTrue(0 < decision.again < decision.kernels, decision)

    def test_a_method_that_is_jitted_and_one_that_echo_decorates(self) -> None:
        class Trainer:
            @functools.partial(jax.jit, static_argnums=0, compiler_options=OPTIONS)
            def jitted(self, weights: Any, x: jax.Array) -> Any:
                return gradient(weights, x)

            @echo_jax.remat
            def decorated(self, weights: Any, x: jax.Array) -> Any:
                return gradient(weights, x * self.factor)

            factor, name = 1.0, ""

        trainer, (weights, x) = Trainer(), filled(SHAPES)
        trainer.name = "an object is one value to jax.jit"
        self.planned(echo_jax.remat(trainer.jitted), trainer.jitted, weights, x)
        jax.tree.map(self.near, Trainer().decorated(weights, x), gradient(weights, x))

    def test_what_may_change_unseen(self) -> None:
        class Settings:
            factor = 1.0

        def step(settings: Any, weights: Any, x: jax.Array) -> Any:
            return gradient(weights, x * settings.factor)

        settings, (weights, x) = Settings(), filled(SHAPES)
        ours = echo_jax.remat(step, compiler_options=OPTIONS)
        for settings.factor in (1.0, 2.0):
            jax.tree.map(self.near, ours(settings, weights, x), step(settings, weights, x))
        self.assertRegex(ours.decisions[0].reason, "^what an argument of type Settings holds may change unseen: ")

    def test_types_that_cannot_be_compared(self) -> None:
        @jax.tree_util.register_dataclass
        @dataclass
        class State:
            weights: Any
            factors: Any = field(metadata={"static": True})

        def step(state: Any, x: jax.Array) -> Any:
            return gradient(state.weights, x * state.factors.sum())

        weights, x = filled(SHAPES)
        ours = echo_jax.remat(step, compiler_options=OPTIONS)
        for at in range(1, 4):
            state = State(weights, np.full(2, at))
            jax.tree.map(self.near, ours(state, x), step(state, x))

    def test_a_jitted_loss_with_options(self) -> None:
        ours, (weights, x) = echo_jax.remat(jax.jit(loss, compiler_options=OPTIONS)), filled(SHAPES)
        self.near(ours(weights, x), loss(weights, x))
        jax.tree.map(self.near, jax.grad(ours)(weights, x), jax.grad(loss)(weights, x))

    def test_threads_plan_once(self) -> None:
        ours, (weights, x) = echo_jax.remat(gradient, compiler_options=OPTIONS), filled(SHAPES)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: ours(weights, x), range(4)))
        self.assertEqual(len(ours.decisions), 1)
        self.assertTrue(jax.config.jax_enable_compilation_cache)
        jax.tree.map(self.near, found[3], gradient(weights, x))

    def test_settings_of_jax(self) -> None:
        """A change of them traces a step anew, as it does for jax.jit."""

        def drawn(weights: Any, x: jax.Array) -> Any:
            return gradient(weights, x * jax.random.normal(jax.random.key(0), x.shape))

        plain, (weights, x) = jax.jit(drawn, compiler_options=OPTIONS), filled(SHAPES)
        ours = echo_jax.remat(plain)
        self.planned(ours, plain, weights, x)
        with jax.threefry_partitionable(False):
            self.planned(ours, plain, weights, x)
        with jax.default_matmul_precision("highest"):
            self.assertIn("HIGHEST", ours.lower(weights, x).as_text())

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
