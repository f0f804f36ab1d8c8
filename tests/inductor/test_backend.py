#!/usr/bin/env python3
"""The backend "echo": under Inductor as Inductor itself, in less memory, and in some other way where Inductor fails."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
import sys
import unittest
import unittest.mock
import warnings
from pathlib import Path
from typing import Any

import torch
from measure import Training
from support import Case
from test_inductor import KERNELS, WIDTH, deep, kernels_alone, squares, transformer, under_inductor
from torch import nn

import echo_torch
from echo_torch import fused, outside, say
from echo_torch.options import BudgetError, OptionError, UnknownOption
from echo_torch.say import EchoWarning

PROGRAM = """
import sys, torch, echo_torch
from measure import Training
from test_inductor import KERNELS, deep
training = Training(deep, "echo", options={"budget": 0.9, "measure": False})
print(*training.train(1).digests)
(report,) = echo_torch.reports()
print(report.default_peak, report.peak, report.reason, report.cached, len(report.live), report.where)
"""

REPEATED = """
import torch
from echo_torch import outside
from measure import peak_of, profiled
torch.manual_seed(0)
module = torch.nn.Sequential(
    torch.nn.Linear(8, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 4))
compiled = torch.compile(module, backend="echo")
for _ in range(6):
    module.zero_grad()
    watched = outside._watch is None or not outside._watch.ended
    with profiled() as profile:
        torch.stack([compiled(torch.randn(16, 8)).square().mean() for _ in range(12)]).sum().backward()
    print(watched, peak_of(profile))
"""


class Backend(Case):
    def trained(self, backend: Any, build: Any = deep, **options: Any) -> Any:
        with under_inductor():
            return Training(build, backend, options=options or None).train(2)

    def test_it_trains_as_inductor_does_in_less_memory(self) -> None:
        default, echo = self.trained("inductor"), self.trained("echo", max_overhead=0.9)
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertEqual(echo.digests, default.digests)
        self.assertLess(echo.peak, default.peak)
        self.assertLess(abs(report.peak - echo.peak), 64)
        self.assertGreater(report.recomputed, 0)

    def test_options_of_both(self) -> None:
        expected = self.trained("inductor", transformer, epilogue_fusion=False).digests
        with unittest.mock.patch.object(fused, "_compile", wraps=fused._compile) as compiled:
            found = self.trained("echo", transformer, budget=0.9, epilogue_fusion=False).digests
        settings = compiled.call_args[0][2]
        self.assertFalse(settings["epilogue_fusion"])
        self.assertEqual(settings["custom_partitioner_fn"].options.budget, 0.9)
        self.assertEqual(found, expected)

    def test_a_mode_is_inductors(self) -> None:
        step = transformer()
        with under_inductor(), unittest.mock.patch.object(fused, "_compile", wraps=fused._compile) as compiled:
            module = torch.compile(step.module, backend="echo", mode="reduce-overhead")
            squares(module(*step.inputs)).backward()
        self.assertTrue(compiled.call_args[0][2]["triton.cudagraphs"])

    def test_a_mode_of_nobody(self) -> None:
        with self.assertRaisesRegex(OptionError, "max-autotun.*should be one of"):
            torch.compile(nn.Linear(4, 4), backend="echo", mode="max-autotun")(torch.randn(2, 4))

    def test_options_of_nobody(self) -> None:
        for options, kind, text in (
            ({"budgett": 0.5}, UnknownOption, "did you mean 'budget'"),
            ({"max_autotunne": True}, UnknownOption, "did you mean 'max_autotune'"),
            ({"custom_partitioner_fn": None}, OptionError, "take Echo's place"),
        ):
            with self.subTest(options=options), self.assertRaisesRegex(kind, text):
                self.trained("echo", transformer, **options)

    def test_a_strict_budget_reaches_the_user(self) -> None:
        with self.assertRaises(BudgetError):
            self.trained(echo_torch.backend(budget="10kB", strict=True))

    def test_it_is_saved_with_its_model(self) -> None:
        backend = echo_torch.backend(budget=0.5)
        self.assertEqual(pickle.loads(pickle.dumps(backend)), backend)
        self.assertEqual(copy.deepcopy(backend), backend)
        self.assertNotEqual(backend, echo_torch.eager_backend(budget=0.5))

    def test_what_is_not_trained(self) -> None:
        module, x = transformer().module.eval(), torch.randn(2, 64, WIDTH)
        before = len(echo_torch.reports())
        with under_inductor(), torch.no_grad():
            self.assertTrue(torch.allclose(torch.compile(module, backend="echo")(x), module(x), atol=1e-5))
        self.assertEqual(len(echo_torch.reports()), before)

    def test_what_has_no_backward_half_has_no_report(self) -> None:
        weights = [nn.Parameter(torch.randn(WIDTH)) for _ in range(2)]

        def step() -> None:
            with torch.no_grad():
                for weight in weights:
                    weight.mul_(0.9)

        before = len(echo_torch.reports())
        with under_inductor(), torch._functorch.config.patch(enable_autograd_cache=True):
            for _ in range(2):  # the second one finds it in the cache
                torch._dynamo.reset()
                torch.compile(step, backend="echo")()
        self.assertEqual(echo_torch.reports()[before:], [])

    def test_gradients_that_are_taken_within_are_told(self) -> None:
        module = nn.Linear(WIDTH, WIDTH, bias=False)

        def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return squares(torch.func.functional_call(module, {"weight": weight}, (x,)))

        compiled = torch.compile(torch.func.grad(loss), backend="echo")
        with under_inductor(), self.assertWarnsRegex(EchoWarning, "gradients are taken within"):
            compiled(module.weight.detach(), torch.randn(4, WIDTH))
        self.assertIn("taken within", echo_torch.reports()[-1].reason)

    def test_halves_from_the_cache_of_a_graph_without_a_file(self) -> None:
        """As where it was compiled for other sizes."""
        module = transformer().module
        with under_inductor(), torch._functorch.config.patch(enable_autograd_cache=True):
            for _ in range(2):
                torch._dynamo.reset()
                shutil.rmtree(Path(KERNELS, "echo"), ignore_errors=True)
                compiled = torch.compile(module, backend=echo_torch.backend(budget=0.9, measure=False))
                with self.assertLogs("echo_torch", "INFO") as said:
                    squares(compiled(torch.randn(4, 64, WIDTH))).backward()
                self.assertIn("1 of 1 graphs planned", "".join(said.output))
        first, second = echo_torch.reports()[-2:]
        self.assertIsNone(second.reason)
        self.assertTrue(second.cached)
        self.assertEqual(second.peak, first.peak)
        self.assertIn("other sizes", "".join(second.notes))

    def test_a_layer_outside_of_the_graph_is_told(self) -> None:
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.last = nn.LSTM(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                hidden: torch.Tensor = self.last(self.first(x)[0])
                return hidden

        model = Model()
        with under_inductor(), self.assertLogs("echo_torch", "WARNING") as said:
            compiled = torch.compile(model, backend="echo")
            for _ in range(6):
                squares(compiled(torch.randn(4, 2, WIDTH))).backward()
        self.assertIn("nn.LSTM", "\n".join(said.output))


class Failures(Case):
    """Inductor does not compile what Echo chooses, or nothing at all: the model trains all the same."""

    def losses(self) -> Any:
        with under_inductor():
            return Training(transformer, "echo").train(1).digests

    def test_a_graph_that_inductor_compiles_without_echo(self) -> None:
        with under_inductor():
            expected = Training(transformer, "inductor").train(1).digests
        inner = fused._compile

        def failing(graph: Any, inputs: Any, settings: Any, watched: Any) -> Any:
            if settings["custom_partitioner_fn"] is not None:
                raise RuntimeError("planted")
            return inner(graph, inputs, settings, watched)

        with unittest.mock.patch.object(fused, "_compile", failing):
            with self.assertWarnsRegex(EchoWarning, "its own halves run: RuntimeError: planted"):
                self.assertEqual(self.losses(), expected)

    def test_a_backward_pass_that_inductor_does_not_compile(self) -> None:
        """It is compiled when the forward pass has run."""
        expected = self.gradients("inductor")
        lowering = outside.Graph.lowering

        def failing(watched: Any, lower: Any) -> Any:
            def lowered(graph: Any, inputs: Any, **told: Any) -> Any:
                if told.get("is_backward"):
                    raise RuntimeError("planted")
                return lower(graph, inputs, **told)

            return lowering(watched, lowered)

        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic), unittest.mock.patch.object(outside.Graph, "lowering", failing):
                say.warn_once.cache_clear()
                with self.assertWarnsRegex(EchoWarning, "a backward pass, and its operators run one by one"):
                    for one, other in zip(self.gradients("echo", dynamic), expected, strict=True):
                        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

    def gradients(self, backend: str, dynamic: bool = False) -> list[torch.Tensor]:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Softmax(-1))
        with under_inductor():
            squares(torch.compile(module, backend=backend, dynamic=dynamic)(torch.randn(64, WIDTH))).backward()
        return [p.grad for p in module.parameters() if p.grad is not None]

    def test_no_compiler(self) -> None:
        with torch.random.fork_rng():
            expected = Training(transformer, "aot_eager").train(1).digests
        with unittest.mock.patch.object(torch._inductor.config.cpp, "cxx", ("no-such-compiler",)):
            with self.assertWarnsRegex(EchoWarning, "operators one by one: InvalidCxxCompiler"):
                self.assertEqual(self.losses(), expected)
        self.assertIn("cannot compile", "".join(str(report.reason) for report in echo_torch.reports()[-2:]))


class Processes(Case):
    """Processes of their own."""

    def test_a_graph_that_runs_several_times_in_a_step(self) -> None:
        """Autograd adds its gradients up in place, also in the first steps, which are watched."""
        with kernels_alone():
            steps = [line.split() for line in self.output_of(REPEATED)][1:]
        watched, alone = (max(int(peak) for was, peak in steps if was == kind) for kind in ("True", "False"))
        self.assertLess(watched, 1.05 * alone, steps)

    def test_a_second_process(self) -> None:
        """It finds the halves in Inductor's cache, and knows what was decided."""
        with kernels_alone():
            first, second = (self.output_of(PROGRAM) for _ in range(2))
            self.assertEqual(first[0], second[0])
            default, peak, reason, cached, *rest = first[1].split(" ", 5)
            self.assertEqual((reason, cached), ("None", "False"))
            self.assertLess(int(peak), int(default))
            self.assertEqual(second[1].split(" ", 5), [default, peak, reason, "True", *rest])

    def output_of(self, program: str) -> list[str]:
        here = Path(__file__).parent
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True,
            text=True,
            cwd=here,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
