"""Steps that are rewritten: the same values, less memory as the compiler states, and a sentence where Echo declines."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import jax
import jax.numpy as jnp
import models
import numpy as np
from models import filled

import echo_jax
from echo_jax.amounts import bytes_of_budget, part_of
from echo_jax.compiling import compile_step
from echo_jax.cuts import cheapest

OPTIONS = echo_jax.MEMORY_SCHEDULER
TOLERANCE = 1e-5  # of the largest value: what recompilation itself changes in float32


class Rewritten(unittest.TestCase):
    def same(self, ours: Any, theirs: Any) -> None:
        pairs = list(itertools.zip_longest(jax.tree.leaves(ours), jax.tree.leaves(theirs)))
        largest = max(float(jnp.max(jnp.abs(b))) for _, b in pairs)
        for a, b in pairs:
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertLessEqual(float(jnp.max(jnp.abs(a - b))), TOLERANCE * largest)

    def test_same_values_in_less(self) -> None:
        least = {"lstm, loop over time": 1.5, "llama": 1.5}
        for name, part in least.items():
            with self.subTest(name):
                each = models.SMALL[name]()
                gradient = jax.jit(jax.value_and_grad(each.loss), compiler_options=OPTIONS)
                ours = echo_jax.remat(gradient)
                args = filled((each.parameters, *each.batch))
                self.same(ours(*args), gradient(*args))
                (decision,) = ours.decisions
                self.assertEqual(decision.reason, "")
                self.assertLess(decision.after * part, decision.before)
                self.assertLessEqual(decision.overhead, 0.05)
                stated = ours.lower(*args).compile().memory_analysis().temp_size_in_bytes
                self.assertEqual(stated, decision.after)

    def test_before_is_the_step_as_the_user_has_it(self) -> None:
        """Also where options of the compiler are for what is rewritten alone, or make that worse."""

        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            return (jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w) @ w) ** 2).mean()

        def temp(step: Any) -> int:
            return int(step.lower(*shapes).compile().memory_analysis().temp_size_in_bytes)

        shapes = jax.ShapeDtypeStruct((128, 128), "float32"), jax.ShapeDtypeStruct((2048, 128), "float32")
        plain = jax.jit(jax.value_and_grad(loss))
        for options in (None, OPTIONS):
            ours = echo_jax.remat(plain, compiler_options=options)
            decision = ours.decide(*shapes)
            self.assertEqual(decision.before, temp(plain))
            self.assertEqual(decision.after, temp(ours))
            self.assertLessEqual(decision.after, decision.before)

    def test_a_training_with_donated_arguments_and_dropout(self) -> None:
        each = models.transformer(scanned=True, words=256)
        plain = jax.jit(each.step, donate_argnums=(0, 1), compiler_options=OPTIONS)
        told = plain.lower(*each.arguments).compile().memory_analysis()
        total = told.temp_size_in_bytes + told.argument_size_in_bytes  # the results take over donated arguments
        ours = echo_jax.remat(plain, budget=total - told.temp_size_in_bytes // 2)
        parameters, _, tokens, _ = filled(each.arguments)
        states = [[jax.tree.map(jnp.copy, parameters), each.optimizer.init(parameters)] for _ in range(2)]
        losses: list[list[float]] = [[], []]
        for at in range(3):
            for state, step, told in zip(states, (plain, ours), losses):
                given = jax.tree.leaves(state)
                *state[:], loss = step(*state, tokens, jax.random.key(at))
                told.append(float(loss))
                self.assertTrue(given[-1].is_deleted())
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
        (decision,) = ours.decisions
        self.assertLessEqual(2 * decision.after, decision.before)

    def test_within_another_jit_and_by_keywords(self) -> None:
        each = models.SMALL["lstm, loop over time"]()
        ours = echo_jax.remat(jax.value_and_grad(each.loss), compiler_options=OPTIONS)
        args = filled((each.parameters, *each.batch))
        want = jax.value_and_grad(each.loss)(*args)
        self.same(jax.jit(lambda w, xs, ys: ours(w, ys=ys, xs=xs), compiler_options=OPTIONS)(*args), want)
        self.assertEqual(ours.decisions[0].reason, "")
        shorter = (args[0], args[1][:8], args[2][:8])
        self.same(ours(*shorter), jax.value_and_grad(each.loss)(*shorter))
        self.assertEqual(len(ours.decisions), 2)

    def test_a_budget(self) -> None:
        each = models.SMALL["lstm, loop over time"]()
        gradient = jax.jit(jax.value_and_grad(each.loss), compiler_options=OPTIONS)
        args = (each.parameters, *each.batch)
        sizes = echo_jax.explain(gradient, *args).sizes
        for part in (0.4, 0.7):
            limit = sizes.total - int(sizes.temp * (1 - part))
            ours = echo_jax.remat(gradient, budget=limit)
            ours.lower(*args)
            self.assertLessEqual(ours.decisions[0].after, part * sizes.temp)
        ours = echo_jax.remat(gradient, budget="1GiB")
        ours.lower(*args)
        self.assertIn("fits the budget", ours.decisions[0].reason)

    def test_a_budget_that_cannot_be_kept_costs_no_more_than_the_least_does(self) -> None:
        def loss(weights: Any, x: jax.Array, key: jax.Array) -> jax.Array:
            x = x * jax.random.bernoulli(key, 0.9, x.shape)
            for w in weights:
                x = x + jax.nn.gelu(x @ w)
            return (x**2).mean()

        step = jax.jit(jax.value_and_grad(loss), compiler_options=OPTIONS)
        args = ([models.shape(128, 128)] * 3, models.shape(512, 128), jax.random.PRNGKey(0))
        free = echo_jax.remat(step).decide(*args)
        tight = echo_jax.remat(step, budget=1000).decide(*args)
        self.assertIn("the least found", tight.warning)
        self.assertLessEqual((tight.after, tight.overhead), (free.after, free.overhead))


class Beside(unittest.TestCase):
    def test_no_more_than_with_a_policy_of_jax(self) -> None:
        """Around each layer, written into the model."""
        plain = models.llama(layers=2, words=256)
        policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        own, theirs = (
            compile_step(jax.jit(each.step, donate_argnums=(0, 1)), each.arguments, {}, compiler_options=OPTIONS)
            for each in (plain, models.llama(layers=2, words=256, policy=policy))
        )
        most = theirs.flops / own.flops - 1
        step = jax.jit(plain.step, donate_argnums=(0, 1), compiler_options=OPTIONS)
        decision = echo_jax.remat(step, max_overhead=most).decide(*plain.arguments)
        self.assertLessEqual(decision.after, theirs.sizes.temp, decision.table())
        self.assertLessEqual(decision.overhead, most)


class OnDisk(unittest.TestCase):
    def test_a_second_process_compiles_the_winner_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            first, second = self.told(folder), self.told(folder)
            self.assertGreater(first.pop("compiled"), 1)
            self.assertEqual(second.pop("compiled"), 1)
            self.assertEqual(first, second)
            (file,) = pathlib.Path(folder).iterdir()
            file.write_text(file.read_text().replace('"again": ', '"again": 1'))
            third = self.told(folder)
            self.assertGreater(third.pop("compiled"), 1)
            self.assertEqual(first, third)

    def told(self, folder: str) -> dict[str, Any]:
        """What a process of its own says."""
        environment = {**os.environ, "ECHO_JAX_CACHE": folder}
        done = subprocess.run(
            [sys.executable, pathlib.Path(__file__).with_name("again.py")],
            env=environment,
            check=True,
            capture_output=True,
        )
        return json.loads(done.stdout)


class Declines(unittest.TestCase):
    def declines(self, words: str, step: Any, *args: Any) -> Any:
        ours = echo_jax.remat(step)
        with self.assertLogs("echo_jax", logging.INFO) as logs:
            result = ours(*args)
        self.assertIn(words, str(ours.decisions[-1]))
        self.assertIn("runs as it was", logs.output[-1])
        return result

    def test_the_step_runs_as_it_was(self) -> None:
        x = jnp.arange(3.0)
        np.testing.assert_array_equal(self.declines("no backward pass", jnp.sin, x), jnp.sin(x))

        def told(x: jax.Array) -> jax.Array:
            jax.debug.print("{}", x[0])
            return jnp.sum(x * x)

        np.testing.assert_array_equal(self.declines("effects", jax.grad(told), x), 2 * x)

        def called(x: jax.Array) -> jax.Array:
            shape = jax.ShapeDtypeStruct((3,), jnp.float32)
            return jnp.sum(x * jax.pure_callback(np.tanh, shape, jax.lax.stop_gradient(x)))

        self.declines("calls back into Python", jax.grad(called), x)
        self.declines("no operation of it is counted", jax.grad(lambda x: jnp.sum(x * x)), jnp.zeros((0, 3)))
        inner = jax.jit(jax.grad(lambda x: jnp.sum(x * x)), compiler_options=OPTIONS)
        self.declines("made with compiler_options", functools.partial(inner), x)
        self.declines("hidden state", jax.grad(lambda x: jnp.sum(x * jax.lax.rng_uniform(0.0, 1.0, (3,)))), x)
        np.testing.assert_array_equal(self.declines("no plan was found", jax.grad(lambda x: jnp.sum(x * x)), x), 2 * x)
        abstract = jax.sharding.NamedSharding(jax.sharding.AbstractMesh((2,), ("data",)), jax.sharding.PartitionSpec())
        nowhere = jax.ShapeDtypeStruct((3,), jnp.float32, sharding=abstract)
        reason = echo_jax.remat(jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))).decide(nowhere).reason
        self.assertRegex(reason, "^the step cannot be lowered.*AbstractMesh")
        power = jax.jit(jax.grad(lambda x, n: jnp.sum(x**n)), static_argnums=1)
        np.testing.assert_array_equal(self.declines("runs as it was", power, x, 2), 2 * x)
        self.declines("runs as it was", functools.partial(jax.grad(lambda x, words: jnp.sum(x * x))), x, "words")

    def test_what_fails_by_itself_fails_as_before(self) -> None:
        with self.assertRaises(jax.errors.TracerBoolConversionError):
            jax.jit(echo_jax.remat(lambda x: 1 if x else 2))(jnp.ones(()))

    def test_refuses_amounts(self) -> None:
        for options in ({"budget": "many"}, {"budget": 0.5}, {"max_overhead": 5}, {"max_overhead": "x"}):
            with self.assertRaises(ValueError):
                echo_jax.remat(jnp.sin, **options)

    def test_reads_amounts_as_all_of_echo_does(self) -> None:
        told = {"8g": 8 * 10**9, "8GiB": 8 * 2**30, "1.5 MB": 1_500_000, "100b": 100, 8e9: 8 * 10**9}
        self.assertEqual({amount: bytes_of_budget(amount) for amount in told}, told)
        self.assertEqual([part_of(amount, "max_overhead") for amount in ("5%", 0.05, "100%")], [0.05, 0.05, 1.0])


class Cuts(unittest.TestCase):
    def test_as_good_as_trying_all(self) -> None:
        random = np.random.default_rng(0)
        for _ in range(200):
            count = int(random.integers(2, 8))
            prices: dict[Any, int] = {at: int(random.integers(1, 9)) for at in range(count)}
            made_from: dict[Any, list[Any]] = {
                at: [int(k) for k in random.choice(at, min(at, 2), replace=False)] for at in range(1, count)
            }
            bases = {0, *(at for at in range(count) if random.random() < 0.2)}
            wanted = {count - 1, int(random.integers(count))}

            def enough(kept: Any) -> bool:
                have = [at in kept for at in range(count)]
                for at in range(1, count):
                    have[at] = have[at] or (at not in bases and all(have[k] for k in made_from[at]))
                return all(have[at] for at in wanted)

            subsets = itertools.chain.from_iterable(itertools.combinations(range(count), n) for n in range(count + 1))
            best = min(sum(prices[at] for at in kept) for kept in subsets if enough(kept))
            found = cheapest(prices, made_from, wanted, bases)
            self.assertTrue(enough(found))
            self.assertEqual(sum(prices[at] for at in found), best)


if __name__ == "__main__":
    unittest.main()
