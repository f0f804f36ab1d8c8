"""The policy that is chosen is as good as each of JAX's own, and can be pasted."""

from __future__ import annotations

import dataclasses
import functools
import unittest
import unittest.mock
from typing import Any

import jax
import jax.numpy as jnp
import models

import echo_jax
from echo_jax.compiling import compile_step
from echo_jax.policy import STOCK

OPTIONS = echo_jax.MEMORY_SCHEDULER


def build(policy: Any) -> Any:
    return jax.value_and_grad(models.llama(layers=1, words=256, policy=policy).loss)


class Policies(unittest.TestCase):
    def test_as_low_as_each_stock_policy(self) -> None:
        each = models.llama(layers=1, words=256)
        args = (each.parameters, *each.batch)
        for options in ({}, {"max_overhead": 0.05}):
            with self.subTest(options):
                chosen = echo_jax.policy(build, *args, compiler_options=OPTIONS, tries=5, **options)
                self.assertEqual(set(chosen.names), {"q", "k", "v", "mixed", "gate", "up"})
                most = chosen.most.flops * (1 + options["max_overhead"]) if options else float("inf")
                stock = [each for each in chosen.tried if each.line.rpartition(".")[2] in STOCK and each.flops <= most]
                self.assertGreater(len(stock), 1)
                self.assertLessEqual(chosen.best.temp, min(each.temp for each in stock))
                self.assertLessEqual(chosen.best.flops, most)
                self.assertLess(chosen.best.temp, chosen.most.temp)
                pasted = eval(chosen.best.line, {"jax": jax})
                told = echo_jax.explain(build(pasted), *args, compiler_options=OPTIONS)
                self.assertEqual(told.sizes.temp, chosen.best.temp)
                self.assertIn(f"policy={chosen.best.line}", str(chosen))
                self.assertIn("moves nothing to the host's memory", str(chosen))  # XLA for CPUs

    def test_names_on_the_host_are_candidates_where_the_compiler_moves_them(self) -> None:
        """By a compiler that is made up: what is offloaded leaves the device."""
        asked: list[Any] = []

        def named(policy: Any) -> Any:
            def layer(x: jax.Array) -> jax.Array:
                return jnp.tanh(jax.ad_checkpoint.checkpoint_name(x @ x, "product"))

            asked.append(policy)
            return jax.grad(lambda x: jnp.sum(jax.checkpoint(layer, policy=policy)(x)))

        def judged(*told: Any, **options: Any) -> Any:
            compiled = compile_step(*told, **options)
            if "offload" not in getattr(asked[-1], "__qualname__", ""):
                return compiled
            return dataclasses.replace(compiled, sizes=dataclasses.replace(compiled.sizes, temp=1, host=7))

        with unittest.mock.patch("echo_jax.policy.compile_step", judged):
            chosen = echo_jax.policy(named, models.shape(64, 64), compiler_options=OPTIONS, tries=4)
        self.assertEqual((chosen.best.temp, chosen.best.host), (1, 7))
        pasted = eval(chosen.best.line, {"jax": jax})
        self.assertGreater(echo_jax.explain(named(pasted), models.shape(64, 64)).sizes.temp, 0)

    def test_finds_names_within_loops(self) -> None:
        def loss(policy: Any, x: jax.Array) -> jax.Array:
            def body(c: jax.Array, _: Any) -> Any:
                return jnp.sin(jax.ad_checkpoint.checkpoint_name(c * 2, "twice")), None

            return jnp.sum(jax.lax.scan(jax.checkpoint(body, policy=policy), x, None, length=8)[0])

        chosen = echo_jax.policy(lambda policy: jax.grad(functools.partial(loss, policy)), models.shape(1000))
        self.assertGreaterEqual(chosen.names["twice"], 8 * 4000)

    def test_says_what_is_missing(self) -> None:
        with self.assertRaisesRegex(echo_jax.Declined, "no checkpoint_name"):
            echo_jax.policy(lambda _: jnp.sin, models.shape(3))
        with self.assertRaisesRegex(ValueError, "give one of them"):
            echo_jax.policy(build, budget="1GiB", max_overhead=0.1)


if __name__ == "__main__":
    unittest.main()
