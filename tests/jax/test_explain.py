"""Explanations against the compiler's own figures."""

from __future__ import annotations

import json
import pathlib
import tempfile
import unittest
from typing import Any

import jax
import jax.numpy as jnp
import models

import echo_jax
from echo_jax import assignment, hlo
from echo_jax.compiling import compile_step, fault_of_version
from echo_jax.explain import explained
from echo_jax.flops import flops
from echo_jax.pages import graph_of

BAR = 0.01  # of the compiler's figure that may be told wrongly
GAPS = 0.05  # of it that may lie between buffers


def steps() -> list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """Ten real steps: loops, donation and both schedulers of the CPU among them."""
    found: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = []
    for name, make in models.SMALL.items():
        each = make()
        gradient, train = jax.value_and_grad(each.loss), jax.jit(each.step, donate_argnums=(0, 1))
        found.append((name + ", gradient", gradient, (each.parameters, *each.batch), {}))
        found.append((name + ", donated", train, each.arguments, echo_jax.MEMORY_SCHEDULER))
    return found


class Explanations(unittest.TestCase):
    def test_ten_steps_as_the_compiler_states(self) -> None:
        for name, step, args, options in steps():
            with self.subTest(name):
                compiled = compile_step(step, args, {}, compiler_options=options)
                assert compiled.memory is not None
                stated = compiled.executable.memory_analysis().temp_size_in_bytes
                told = explained(compiled)
                self.assertLessEqual(abs(compiled.memory.temp_bytes() / stated - 1), BAR)
                self.assertEqual(told.live_bytes + told.unused_bytes, stated)
                self.assertLessEqual(0, told.unused_bytes)
                self.assertLess(told.unused_bytes / stated, GAPS)
                self.assertEqual(told.live_bytes, sum(told.by("module").values()))
                self.assertEqual("donated" in name, told.sizes.aliased > 0)
                if "loop" not in name:
                    known = compiled.executable.cost_analysis()["flops"]
                    self.assertLess(abs(told.flops / known - 1), 0.05)

    def test_names_the_line_and_what_it_keeps(self) -> None:
        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            with jax.named_scope("first"):
                kept = jnp.sin(x @ w)  # this line
            with jax.named_scope("second"):
                return jnp.sum(jnp.cos(kept @ w) ** 2)

        line = loss.__code__.co_firstlineno + 2
        told = echo_jax.explain(jax.grad(loss), models.shape(64, 64), models.shape(512, 64))
        own = [buffer for buffer in told.live if buffer.module == "first"]
        self.assertTrue(own)
        self.assertTrue(all(f"test_explain.py:{line} " in buffer.source for buffer in own), own)
        self.assertIn("forward", told.by("role"))
        self.assertIn("first", str(told))
        self.assertEqual(json.loads(told.to_json())["live_bytes"], told.live_bytes)

    def test_tells_what_a_loop_stacks(self) -> None:
        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            return jnp.sum(jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=16)[0])

        told = echo_jax.explain(jax.grad(loss), models.shape(64, 64), models.shape(256, 64))
        stacked = [buffer for buffer in told.live if buffer.shape.startswith("f32[16,256,64]")]
        self.assertGreaterEqual(len(stacked), 2)
        self.assertEqual({buffer.bytes for buffer in stacked}, {16 * 256 * 64 * 4})
        self.assertLessEqual({buffer.role for buffer in stacked}, {"forward"})

    def test_counts_the_iterations_of_loops(self) -> None:
        def run(w: jax.Array, x: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, 10, lambda _, c: c @ w, x)

        compiled = compile_step(run, (models.shape(32, 32), models.shape(32, 32)), {})
        assert compiled.program is not None
        self.assertLess(abs(flops(compiled.program) / (10 * 2 * 32**3) - 1), 0.01)

    def test_conditionals_and_asynchronous_calls(self) -> None:
        def run(which: jax.Array, x: jax.Array) -> jax.Array:
            a, b = (lambda x: jnp.sin(x) @ x), (lambda x: jnp.exp(x).T)
            return jnp.sum(jax.lax.cond(which, a, b, x)) + jnp.sum(jnp.sort(x))

        told = echo_jax.explain(run, models.shape(dtype=jnp.bool_), models.shape(128, 128))
        self.assertGreaterEqual(told.live_bytes, 4 * 128 * 128)

    def test_compares(self) -> None:
        each = models.SMALL["llama"]()
        gradient = jax.value_and_grad(each.loss)
        a = echo_jax.explain(gradient, each.parameters, *each.batch)
        b = echo_jax.explain(jax.grad(jax.checkpoint(each.loss)), each.parameters, *each.batch)
        text = echo_jax.compare(a, b)
        self.assertIn("temporary", text)
        self.assertIn(f"{(b.sizes.temp - a.sizes.temp) / 1e6:+,.1f}", text)


class Pages(unittest.TestCase):
    def test_draws_what_the_compiler_has_planned(self) -> None:
        for name in ("lstm, loop over time", "llama"):
            each = models.SMALL[name]()
            compiled = compile_step(each.step, each.arguments, {}, compiler_options=echo_jax.MEMORY_SCHEDULER)
            told = explained(compiled)
            graph = graph_of(*told.compiled)
            drawn = graph.replay(list(range(told.steps)), True)[0]
            self.assertLess(abs(drawn / told.live_bytes - 1), 0.01)
        with tempfile.TemporaryDirectory() as folder:
            page = told.report(folder)
            self.assertEqual(page, pathlib.Path(folder, "index.html"))
            self.assertIn("</html>", page.read_text())
            first = page.read_bytes()
            self.assertEqual(told.report(folder).read_bytes(), first)


class Refusals(unittest.TestCase):
    def refuses(self, words: str, *args: Any, **options: Any) -> None:
        with self.assertRaises(echo_jax.Declined) as caught:
            echo_jax.explain(*args, **options)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_says_what_is_wrong_in_a_sentence(self) -> None:
        self.refuses("cannot be traced", lambda x: 1 if x else 2, models.shape(3))
        self.refuses("cannot be traced", lambda x: x[x > 0], models.shape(3))
        self.refuses("refuses the step", jnp.sin, models.shape(3), compiler_options={"no_such_option": 1})

    def test_refuses_another_text(self) -> None:
        for text in ("", "HloModule jit_f, entry_computation_layout={()->()}", "module @jit_f {"):
            with self.assertRaises(ValueError):
                hlo.parse(text)
        with self.assertRaises(ValueError):
            assignment.parse("BufferAssignment:\nallocation zero", "    0:x\n")
        with self.assertRaises(ValueError):
            assignment.parse("", "    0:x\n")


class Versions(unittest.TestCase):
    def test_this_version_of_jax_writes_what_is_read(self) -> None:
        self.assertEqual(fault_of_version(), "")


if __name__ == "__main__":
    unittest.main()
