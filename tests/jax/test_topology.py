"""Steps compiled for a TPU that is not there: one that does not fit is explained and made to fit; meshes of devices."""

from __future__ import annotations

import unittest
from typing import Any

import jax
import jax.numpy as jnp
import models
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import echo_jax
from echo_jax.compiling import compile_step

TOPOLOGY = "v5e:2x2"


class DoesNotFit(unittest.TestCase):
    def test_it_is_explained_and_a_plan_of_it_fits(self) -> None:
        each = models.lstm(1024, 512, 512)
        step = jax.jit(each.step, donate_argnums=(0, 1))
        told = echo_jax.explain(step, *each.arguments, topology=TOPOLOGY)
        self.assertIn("it does not fit: ", str(told))
        self.assertTrue(all("models.py" in value.source for value in told.live[1:5]), told)
        self.assertGreater(told.sizes.total, 16 * 2**30)
        self.assertLess(abs(told.unused_bytes), 0.03 * told.sizes.temp)

        decision = echo_jax.remat(step, topology=TOPOLOGY).decide(*each.arguments)
        self.assertEqual((decision.reason, decision.warning, decision.fitted), ("", "", False))
        self.assertEqual((decision.before, [each.fits for each in decision.tried][-1]), (told.sizes.temp, True))
        self.assertLess(decision.after + told.sizes.arguments, 16 * 2**30)
        self.assertIn("does not fit", decision.table())


class Loops(unittest.TestCase):
    def test_operations_count_as_often_as_a_loop_runs(self) -> None:
        each = models.lstm(64, 32, 128)
        here, there = (
            compile_step(jax.jit(each.step), each.arguments, {}, topology=name).flops for name in (None, TOPOLOGY)
        )
        self.assertLess(abs(there / here - 1), 0.1)


class Meshes(unittest.TestCase):
    def step(self, devices: list[Any], is_constrained: bool) -> tuple[Any, tuple[Any, ...]]:
        mesh = Mesh(np.asarray(devices).reshape(2, 2), ("data", "model"))

        def sharded(*extents: int, spec: P) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(extents, jnp.bfloat16, sharding=NamedSharding(mesh, spec))

        def loss(weights: Any, x: jax.Array) -> jax.Array:
            for up, down in weights:
                wide = x @ up
                if is_constrained:
                    wide = jax.lax.with_sharding_constraint(wide, NamedSharding(mesh, P("data", "model")))
                x = x + jax.nn.relu(wide) @ down
            return (x.astype(jnp.float32) ** 2).mean()

        pair = sharded(256, 1024, spec=P(None, "model")), sharded(1024, 256, spec=P("model", None))
        return jax.jit(jax.value_and_grad(loss)), ([pair] * 2, sharded(512, 256, spec=P("data")))

    def test_arguments_are_sharded_as_they_state(self) -> None:
        here, args = self.step(jax.devices(), False)
        there, placed = self.step(echo_jax.devices(TOPOLOGY), False)
        told = [
            echo_jax.explain(here, *args, topology=TOPOLOGY),
            echo_jax.explain(there, *placed, topology=TOPOLOGY),
            echo_jax.explain(there, *placed),
        ]
        parts = [2 * 2 * 256 * 1024 // 2, 512 * 256 // 2]  # of one device
        self.assertEqual({each.sizes for each in told}, {told[0].sizes})
        self.assertEqual(told[0].sizes.arguments, 2 * sum(parts))
        self.assertEqual([each.platform for each in told], [TOPOLOGY, TOPOLOGY, "tpu"])
        decision = echo_jax.remat(here, topology=TOPOLOGY).decide(*args)
        self.assertEqual(decision.before, told[0].sizes.temp)

    def test_what_cannot_be_placed_is_told(self) -> None:
        here, args = self.step(jax.devices(), True)
        with self.assertRaisesRegex(echo_jax.Declined, r"echo_jax\.devices"):
            echo_jax.explain(here, *args, topology=TOPOLOGY)
        reason = echo_jax.remat(here, topology=TOPOLOGY).decide(*args).reason
        self.assertRegex(reason, r"^the step cannot be lowered.*echo_jax\.devices")
        with self.assertRaisesRegex(echo_jax.Declined, "lie on 4 devices, and the topology 'v5e:1x1' has 1"):
            echo_jax.explain(here, *args, topology="v5e:1x1")
        there, placed = self.step(echo_jax.devices(TOPOLOGY), True)
        self.assertGreater(echo_jax.explain(there, *placed).sizes.temp, 0)


if __name__ == "__main__":
    unittest.main()
