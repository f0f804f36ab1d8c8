#!/usr/bin/env python3
"""Under Inductor: what is judged is what the allocator counts, gradients are those of Inductor's default, and no choice
takes more than it.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from measure import Training, allocator_peak
from models import Step
from programs import faults_under_inductor
from random_program import Program
from support import Case
from test_distributed import run_ranks
from test_parts import Perceptron
from test_report import page_of
from torch import nn
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import echo_torch
from echo_torch import chosen, inductor, judge, lowered
from echo_torch.apart import keep_apart
from echo_torch.options import Options

WIDTH = 64


class Block(nn.Module):
    """A block of a transformer with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2) / 8).softmax(-1)
        x = x + self.drop(self.out(self.drop(scores) @ v))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norms[1](x)))))


class CheckpointedBlock(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return made


def transformer(blocks: int = 1, batch: int = 8) -> Step:
    return Step(nn.Sequential(*(Block() for _ in range(blocks))), squares, [torch.randn(batch, 64, WIDTH)], [])


def deep() -> Step:
    return transformer(blocks=2)


def perceptrons(marked: bool = False) -> Step:
    return Step(nn.Sequential(*(Perceptron(marked) for _ in range(3))), squares, [torch.randn(512, WIDTH)], [])


def judged(build: Any, **asked: Any) -> Any:
    """What becomes of a step, which is lowered and not compiled."""
    step = build()
    joint, _, count = inductor.joint_graph(step.module, step.loss_fn, (step.inputs, step.labels), None)
    (report,) = inductor.judged(joint, count, [Options(**asked)], None)
    return report


def squares(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


def convolutions() -> Step:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return Step(nn.Sequential(*layers, nn.MaxPool2d(2)), squares, [torch.randn(8, 3, 32, 32)], [])


def convolution_behind_a_matrix() -> Step:
    """The matrix's gradient is made last; then that of the convolution is copied."""
    layers = [nn.Linear(16384, 48), nn.Unflatten(1, (3, 4, 4)), nn.Conv2d(3, 128, 3), nn.Conv2d(128, 128, 2)]
    return Step(nn.Sequential(*layers), squares, [torch.randn(2, 16384)], [])


class Tied(nn.Module):
    """A language model's ends: the output's weights are the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(500, WIDTH), nn.Sequential(*(Block() for _ in range(2)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.body(self.words(ids)) @ self.words.weight.t()


def tied() -> Step:
    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    ids = torch.randint(500, (16, 64))
    return Step(Tied(), loss, [ids], [ids.flip(0)])


# What Inductor compiles in C++ stays for the next test, and what it lowers does not.
KERNELS = tempfile.mkdtemp(prefix="echo-inductor-")
atexit.register(shutil.rmtree, KERNELS, ignore_errors=True)


@contextlib.contextmanager
def kernels_alone() -> Iterator[None]:
    """Within it Inductor, of other processes too, finds what it compiled, and what it has lowered within."""
    for folder in ("fxgraph", "aotautograd"):
        shutil.rmtree(Path(KERNELS, folder), ignore_errors=True)
    with unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=KERNELS):
        yield


@contextlib.contextmanager
def under_inductor(partitioner: Any = None, **more: Any) -> Iterator[None]:
    """Programs that are compiled within it are lowered anew, by this partitioner."""
    settings = {"custom_partitioner_fn": partitioner, **more}
    torch._dynamo.reset()
    torch._inductor.utils.clear_caches()
    with (
        kernels_alone(),
        torch._inductor.config.patch(settings),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


class Judge(Case):
    """The allocator counts what was judged."""

    def trained(self, build: Any, backend: Any = "inductor") -> tuple[Training, Any]:
        with under_inductor():
            training = Training(build, backend)
            return training, training.train(2)

    def assert_judged(self, build: Any, **asked: Any) -> None:
        default = self.trained(build)[1]
        misses: list[int] = []
        judged_as = lowered.Step.judge

        def counted(*of: Any) -> Any:
            judged = judged_as(*of)
            self.assertLessEqual(sum(live.bytes for live in judged.live), judged.peak)
            self.assertGreater(sum(live.bytes for live in judged.live), 0.7 * judged.peak)  # at the peak, not elsewhere
            self.assertRegex(judged.at, r"^(cpp_|extern_kernels\.|aten\.|torch\.ops)")  # what is about to run
            misses.append(counters["inductor"]["fxgraph_cache_miss"])
            return judged

        with unittest.mock.patch.object(lowered.Step, "judge", counted):
            chosen = self.trained(build, echo_torch.backend(**asked))[1]
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        for judged, measured in ((report.default_peak, default.peak), (report.peak, chosen.peak)):
            self.assertLess(abs(judged - measured), 64, (judged, measured))  # the loss, and no more
        self.assertLess(chosen.peak, default.peak)
        self.assertIn("MB", report.at_peak())
        self.assertTrue(any(each.module.startswith("module.") for each in report.live), report.at_peak())
        self.assertEqual(chosen.digests, default.digests)
        # What was chosen comes from Inductor's own cache: nothing is lowered once all was judged.
        self.assertEqual(counters["inductor"]["fxgraph_cache_miss"], misses[-1])

    def test_a_transformer_with_dropout(self) -> None:
        self.assert_judged(deep, max_overhead=0.9, measure=False)

    def test_convolutions_with_their_scratch_memory(self) -> None:
        default = self.trained(convolutions)[1]
        chosen = self.trained(convolutions, echo_torch.backend(max_overhead=0.9))[1]
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertLess(abs(report.default_peak - default.peak), 0.01 * default.peak)
        self.assertLess(abs(report.peak - chosen.peak), 0.01 * chosen.peak)
        self.assertLess(chosen.peak, default.peak)
        self.assert_estimated(convolutions(), report)

    def assert_estimated(self, step: Step, report: Any) -> None:
        """Without compiling, the same is found; and no point of the front beats another."""
        how = {"compiled": True, "max_overhead": 0.9, "points": 1}
        before = len(echo_torch.reports())
        found, data, _ = page_of(step.module, step.inputs, step.loss_fn, step.labels, **how)
        self.assertEqual([side["peak"] for side in data["sides"]], [found.default_peak, found.echo_peak])
        self.assertEqual(len(echo_torch.reports()), before)
        self.assertEqual(echo_torch.say._untold, [])
        self.assertEqual((found.default_peak, found.echo_peak), (report.default_peak, report.peak))
        self.assertIn("Inductor", str(found))
        if found.front[0][1] >= 0:  # no plan takes less time
            self.assertEqual(found.front[0], (found.default_peak, 0.0))
        self.assertLessEqual(found.front[-1][0], found.echo_peak)
        peaks, times = zip(*found.front, strict=True)
        self.assertEqual((sorted(peaks, reverse=True), sorted(times)), ([*peaks], [*times]))
        self.assertGreater(sum(found.at_peak.values()), 0.7 * found.echo_peak)

    def test_an_estimate_is_the_first_to_need_inductor(self) -> None:
        program = (
            "import torch; from echo_torch import capture, inductor\n"
            "step = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2))\n"
            "print(capture.joint_graph(step, torch.sum, (torch.randn(1, 1, 8, 8),), (), **inductor.traced_as())[1])\n"
        )
        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
        self.assertEqual(ran.stdout, "['0.weight', '0.bias']\n", ran.stderr)

    def test_a_gradient_that_autograd_copies(self) -> None:
        default = self.trained(convolution_behind_a_matrix)[1]
        self.trained(convolution_behind_a_matrix, echo_torch.backend())
        report = echo_torch.reports()[-1]
        self.assertLess(abs(report.default_peak - default.peak), 64, (report.default_peak, default.peak))

    def test_what_is_read_of_an_embedding(self) -> None:
        """Rows, and not its weights as a whole; their gradient is written as a whole, once."""
        words, moved = nn.Embedding(40_000, 16), list[int]()
        judged = judge._Run.judged

        def counted(run: Any, prices: Any) -> Any:
            moved.append(sum(work.moved for work in run.work))
            return judged(run, prices)

        with unittest.mock.patch.object(judge._Run, "judged", counted):
            echo_torch.estimate(words, [torch.randint(40_000, (4, 64))], squares, compiled=True, points=1)
        size = words.weight.nbytes
        self.assertTrue(size <= moved[0] < 1.2 * size, (size, moved))


class Apart(Case):
    """A matrix product does not wait for a sum."""

    def test_tied_weights(self) -> None:
        step, judged_as, peaks = tied(), lowered.Step.judge, list[tuple[int, int]]()

        def both(of: Any, halves: Any) -> Any:
            judged, together = judged_as(of, halves), copy.deepcopy(halves)
            for node in together[1].graph.find_nodes(op="call_function", target=torch.ops.prims.add.default):
                node.target = torch.ops.aten.add.Tensor
            peaks.append((judged.peak, judged_as(of, together).peak))
            return judged

        with (
            unittest.mock.patch.object(lowered.Step, "judge", both),
            unittest.mock.patch.object(chosen, "TRIES", 1),
        ):
            how = {"compiled": True, "budget": 0.5, "points": 1, "measure": False}
            echo_torch.estimate(step.module, step.inputs, step.loss_fn, step.labels, **how)
        self.assertTrue(any(apart < 0.9 * together for apart, together in peaks), peaks)

    def sums(self, program: Any, *shapes: tuple[int, ...]) -> list[Any]:
        half = make_fx(program)(*(torch.randn(shape) for shape in shapes))
        keep_apart(half)
        aten, prims = torch.ops.aten.add.Tensor, torch.ops.prims.add.default
        return [node.target for node in half.graph.nodes if node.target in (aten, prims)]

    def test_only_a_product_that_holds_more_than_it_makes(self) -> None:
        aten, prims = torch.ops.aten.add.Tensor, torch.ops.prims.add.default
        late = self.sums(lambda a, b, x: a.sin().t() @ b.sin() + x.sin(), (900, 8), (900, 8), (8, 8))
        small = self.sums(lambda a, b, x: a.sin() @ b.sin() + x.sin(), (900, 8), (8, 900), (900, 900))
        early = self.sums(lambda a, b, x: x.sin() + a.sin().t() @ b.sin(), (900, 8), (900, 8), (8, 8))
        wider = self.sums(lambda a, b, x: a.sin().t() @ b.sin() + x.sin(), (900, 8), (900, 8), (8,))
        read = self.sums(lambda a, b, x: (a.t() @ b + x.sin(), a.sin(), b.sin()), (900, 8), (900, 8), (8, 8))
        self.assertEqual((late, small, early, wider, read), ([prims], [aten], [aten], [aten], [aten]))


class Saved(Case):
    """What the forward half hands on lies on a storage of its own: Inductor writes over it behind its last reader."""

    def test_no_two_lie_on_one_storage(self) -> None:
        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic):
                shared = [self.shared_of(forward) for forward, _ in self.built(dynamic)]
                self.assertEqual(shared, [[]] * len(shared))
                self.assertGreater(len(shared), 1)

    def test_inputs_stand_first(self) -> None:  # compiled autograd counts them so
        for half in (half for dynamic in (False, True) for halves in self.built(dynamic) for half in halves):
            others = [node.op != "placeholder" for node in half.graph.nodes]
            self.assertEqual(others, sorted(others))

    def built(self, dynamic: bool) -> list[Any]:
        """The halves of each plan of Echo that is built."""
        layers = [nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Softmax(-1), nn.Linear(WIDTH, WIDTH)]
        step = Step(nn.Sequential(*layers), squares, [torch.randn(8, 16, WIDTH)], [])
        build, found = chosen.Builder.build, list[Any]()

        def built(builder: Any) -> Any:
            made = build(builder)
            found.append(copy.deepcopy(made))
            return made

        with (
            unittest.mock.patch.object(chosen.Builder, "build", built),
            unittest.mock.patch.object(chosen.Chooser, "_promises", return_value=True),  # each plan is built
            under_inductor(echo_torch.partitioner()),
        ):
            squares(torch.compile(step.module, dynamic=dynamic)(*step.inputs)).backward()
        return found

    def shared_of(self, half: Any) -> list[str]:
        places = [node.meta["val"] for node in half.graph.find_nodes(op="placeholder")]
        given = [torch.randn([*map(int, v.shape)]) if isinstance(v, torch.Tensor) else int(v) for v in places]
        made = [
            (value.untyped_storage().data_ptr(), node.name)
            for node, value in zip(half.graph.output_node().args[0][1:], half(*given)[1:], strict=True)
            if isinstance(value, torch.Tensor)
        ]
        owned = Counter(pointer for pointer, _ in made)
        inputs = {value.untyped_storage().data_ptr() for value in given if isinstance(value, torch.Tensor)}
        return [name for pointer, name in made if owned[pointer] > 1 and pointer not in inputs]


class Choice(Case):
    """What is chosen, and what becomes of faults."""

    def losses(self, build: Any = transformer, settings: dict[str, Any] | None = None, **asked: Any) -> list[str]:
        with under_inductor(echo_torch.partitioner(**asked), **(settings or {})):
            found: list[str] = Training(build, "inductor").train(1).digests
        return found

    def test_a_budget_of_the_judged_default(self) -> None:
        self.losses(deep, {"force_disable_caches": True}, budget=0.7, measure=False)
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertLessEqual(report.peak, 0.7 * report.default_peak)

    def test_a_default_that_fits_is_left(self) -> None:
        self.losses(budget="1GB")
        report = echo_torch.reports()[-1]
        self.assertTrue(report.is_needless)
        self.assertIn("fits the budget", report.reason)

    def test_a_budget_that_cannot_be_met(self) -> None:
        with self.assertWarnsRegex(echo_torch.say.EchoWarning, "cannot be met under Inductor: the least peak found"):
            self.losses(deep, budget="10kB", measure=False)
        report = echo_torch.reports()[-1]
        self.assertLess(report.peak, report.default_peak)

    def test_one_that_cannot_be_met_has_the_least_of_what_is_found(self) -> None:
        """By the planner alone the plan of most recomputation has the least peak."""
        impossible, moderate = (judged(perceptrons, budget=part, measure=False) for part in (0.5, 0.6))
        self.assertLessEqual(impossible.peak, moderate.peak)
        self.assertGreater(len(impossible.tried), 1)

    def test_a_budget_of_pytorchs_is_its_default(self) -> None:
        free = judged(perceptrons, max_overhead=0.0)
        with torch._functorch.config.patch(activation_memory_budget=0.3):
            limited = judged(perceptrons, max_overhead=0.0)
        self.assertLess(limited.default_peak, free.default_peak)
        self.assertLessEqual(limited.best_peak, limited.default_peak)

    def test_checkpoints_are_replaced_by_what_takes_less_time(self) -> None:
        report = judged(functools.partial(perceptrons, marked=True))
        self.assertIsNone(report.reason, report.tried)
        self.assertLessEqual(report.peak, report.default_peak)
        self.assertLess(report.overhead, 0)

    def test_checkpoints_that_draw_again_with_a_kept_random_state(self) -> None:
        step = Step(CheckpointedBlock(), squares, [torch.randn(8, 64, WIDTH)], [])
        with torch._inductor.config.patch(fallback_random=True):
            report = judged(lambda: step)
        self.assertIsNotNone(report.default_peak, report.reason)

    def test_a_sparse_gradient(self) -> None:
        words = nn.Embedding(1000, WIDTH, sparse=True)
        layers = [words, nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH)]
        report = judged(lambda: Step(nn.Sequential(*layers), squares, [torch.randint(1000, (8, 64))], []))
        self.assertIsNotNone(report.default_peak, report.reason)

    def test_planning_that_takes_too_long_is_told(self) -> None:
        self.assertIn("seconds=", judged(perceptrons, seconds=1e-6).reason)

    def test_a_loss_whose_parameters_are_arguments_is_a_whole_step(self) -> None:
        module, names = perceptrons().module, ("0.up.weight", "1.up.weight")
        given = [module.get_parameter(name).detach().requires_grad_() for name in names]

        def step(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return squares(made)

        with under_inductor(echo_torch.partitioner(budget=0.7, measure=False)):
            torch.compile(step)(torch.randn(512, WIDTH), *given).backward()
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertIsNone(report.kept)
        self.assertLessEqual(report.peak, 0.7 * report.default_peak)

    def test_two_backward_passes_through_one_forward_pass(self) -> None:
        """Nothing is written over what the second one reads."""
        x, found = torch.randn(8, 64, WIDTH), list[list[torch.Tensor]]()
        for wanted in ((0, 1), (0,), (1,)):
            torch.manual_seed(0)
            module = Block()
            with under_inductor():
                y = torch.compile(module, backend=echo_torch.backend(measure=False))(x)
            losses = [squares(y), y.sin().mean()]
            for which in wanted:
                losses[which].backward(retain_graph=which != wanted[-1])
            found.append([p.grad for p in module.parameters()])
        for both, *each in zip(*found, strict=True):
            torch.testing.assert_close(both, sum(each))

    def test_dropout_as_in_eager_mode(self) -> None:
        settings = {"fallback_random": True}
        expected = self.losses(settings=settings, budget="1GB")
        self.assertEqual(self.losses(settings=settings, max_overhead=0.9, measure=False), expected)
        self.assertIsNone(echo_torch.reports()[-1].reason)

    def test_blocks_that_are_compiled_by_themselves(self) -> None:
        """What each keeps for its backward half adds up, so that is made less."""
        peaks, gradients = [], []
        for backend in ("inductor", echo_torch.backend(budget=0.6, measure=False)):
            torch.manual_seed(0)
            module = nn.Sequential(*(Block() for _ in range(4)))
            for block in module:
                block.compile(backend=backend)
            x = torch.randn(32, 64, WIDTH, requires_grad=True)
            with under_inductor():
                for _ in range(2):
                    module.zero_grad()
                    peaks.append(allocator_peak(lambda: squares(module(x)).backward())[1])
            gradients.append([p.grad for p in module.parameters()])
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertLessEqual(report.kept, 0.6 * report.default_kept)
        self.assertLessEqual(report.peak - report.default_peak, 3 * (report.default_kept - report.kept))
        self.assertIn("MB between its halves", str(echo_torch.reports()))
        self.assertLess(peaks[3], 0.8 * peaks[1])
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)

    def test_code_that_is_not_python_is_not_judged(self) -> None:
        with self.assertWarnsRegex(echo_torch.say.EchoWarning, "cpp_wrapper"):
            self.losses(settings={"cpp_wrapper": True})

    def test_a_fault_leaves_the_default(self) -> None:
        expected = self.losses(budget="1GB")
        with unittest.mock.patch.object(lowered, "judge", side_effect=RuntimeError("planted")):
            with self.assertWarnsRegex(echo_torch.say.EchoWarning, "RuntimeError"):
                found = self.losses()
        self.assertEqual(found, expected)

    def test_a_plan_that_keeps_more_between_its_halves_is_out(self) -> None:
        judged_as, turns = lowered.Step.judge, iter(range(100))

        def kept(*of: Any) -> Any:
            judged = judged_as(*of)
            judged.kept += next(turns) * judged.peak
            return judged

        with unittest.mock.patch.object(lowered.Step, "judge", kept):
            self.makes_a_tensor(max_overhead=0.9)
            report = echo_torch.reports()[-1]
            self.assertTrue(report.is_needless)
            self.assertIn("between its halves", report.reason)
            with self.assertWarnsRegex(echo_torch.say.EchoWarning, "between its halves"):
                self.makes_a_tensor(budget="10kB")  # it is not met, so somebody should know

    def makes_a_tensor(self, **asked: Any) -> None:
        """What is compiled makes no loss, so that others may run behind it."""
        step = transformer()
        with under_inductor(echo_torch.partitioner(measure=False, **asked)):
            torch.compile(step.module)(*step.inputs).sum().backward()

    def test_a_factor_that_is_made_of_sizes(self) -> None:
        """Batch norm's mean over a batch whose size changes: the backward half computes it from the sizes."""
        layers: list[nn.Module] = []
        for before, after in ((3, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(before, after, 3), nn.BatchNorm2d(after), nn.GELU()]
        module, x, found = nn.Sequential(*layers), torch.randn(8, 3, 24, 24), []
        with under_inductor(echo_torch.partitioner(budget=0.8, measure=False)):
            for trained in (module, torch.compile(module, dynamic=True)):
                squares(trained(x)).backward()
                found.append([p.grad for p in module.parameters()])
                module.zero_grad()
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertLess(report.peak, report.default_peak)
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    def test_sizes_that_change(self) -> None:
        step = deep()
        counters.clear()
        with under_inductor(echo_torch.partitioner(budget=0.9, measure=False)):
            module = torch.compile(step.module, dynamic=True)
            for batch in (8, 12, 5):
                torch.manual_seed(1)
                squares(module(torch.randn(batch, 64, WIDTH))).backward()
        self.assertIsNone(echo_torch.reports()[-1].reason)
        self.assertEqual(counters["stats"]["unique_graphs"], 1)


class Programs(Case):
    """Random programs train as under Inductor's default."""

    def test_some(self) -> None:
        for seed in (1, 4):
            with self.subTest(seed=seed):
                self.assertEqual([*faults_under_inductor(Program(seed))], [])


class Ranks(Case):
    """Two ranks run the same halves."""

    def test_data_parallel(self) -> None:
        with kernels_alone():
            run_ranks("whole", "inductor")


if __name__ == "__main__":
    unittest.main()
