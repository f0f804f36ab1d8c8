"""What a user meets first: checkpoints of their own, saved models, inputs that change, sizes that grow, and words."""

from __future__ import annotations

import ast
import copy
import io
import logging
import pickle
import re
import unittest
import unittest.mock
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measure import allocator_peak
from support import Case, default_backend
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import echo_torch
from echo_torch import partition, report, say
from echo_torch.steps import Step

BATCH, LENGTH, WIDTH = 4, 64, 64


class Block(nn.Module):
    """A transformer's block; `dropout` also drops attention weights."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, dropout_p=self.dropout, is_causal=True)
        x = x + mixed.transpose(1, 2).flatten(-2)
        return x + self.mlp(self.norms[1](x))


class Checkpointed(nn.Module):
    def __init__(self, dropout: float = 0.0, **more: Any) -> None:
        super().__init__()
        self.blocks, self.more = nn.ModuleList(Block(dropout) for _ in range(4)), more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, **self.more)
        return x.square().mean()


def step_of(model: nn.Module, backend: Any, steps: int = 2) -> tuple[list[torch.Tensor], int]:
    """Losses and gradients of some steps, and the peak of the last one."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    values: list[torch.Tensor] = []
    peak = 0
    for step in range(steps):
        torch.manual_seed(7 + step)
        model.zero_grad()
        x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)

        def run(x: torch.Tensor = x) -> torch.Tensor:
            loss = compiled(x)
            loss.backward()
            return loss.detach()

        loss, peak = (run(), 0) if step + 1 < steps else allocator_peak(run)
        values += [loss, x.grad, *(p.grad.clone() for p in model.parameters()), torch.rand(2)]
    return values, peak


def last() -> report.Report:
    return echo_torch.reports()[-1]


class Checkpoints(Case):
    """Regions that the model marks are planned, within the memory that the marks lead to."""

    def model(self, dropout: float = 0.0, **more: Any) -> nn.Module:
        torch.manual_seed(0)
        return Checkpointed(dropout, **more)

    def no_higher_and_faster(self, dropout: float, **more: Any) -> None:
        expected, marked = step_of(self.model(dropout, **more), default_backend())
        found, peak = step_of(self.model(dropout, **more), echo_torch.eager_backend(max_overhead=0.02))
        self.assert_same_bits(expected, found)
        self.assertIsNone(last().reason)
        self.assertEqual(last().checkpoints, 4)
        self.assertLessEqual(peak, marked)
        self.assertLess(last().overhead, last().default_overhead)
        self.assertAlmostEqual(last().default_peak / marked, 1, delta=0.01)
        self.assertAlmostEqual(last().peak / peak, 1, delta=0.01)

    def test_attention_that_draws_nothing(self):
        self.no_higher_and_faster(0.0)

    def test_dropout_inside(self):
        self.no_higher_and_faster(0.1)

    def test_selective_checkpoints(self):
        def policy(context: Any, target: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            is_mm = target in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
            return CheckpointPolicy.MUST_SAVE if is_mm else CheckpointPolicy.PREFER_RECOMPUTE

        def contexts() -> Any:
            return create_selective_checkpoint_contexts(policy)

        expected, marked = step_of(self.model(context_fn=contexts), default_backend())
        found, peak = step_of(self.model(context_fn=contexts), echo_torch.eager_backend())
        self.assert_same_bits(expected, found)
        self.assertLessEqual(peak, marked)
        self.assertIsNone(last().reason)

    def test_less_memory_than_the_marks_lead_to(self):
        expected, marked = step_of(self.model(0.1), default_backend())
        found, peak = step_of(self.model(0.1), echo_torch.eager_backend(budget=0.8))
        self.assert_same_bits(expected, found)
        self.assertLessEqual(peak, 0.8 * marked * 1.01)

    def test_marks_that_stay(self):
        expected, marked = step_of(self.model(0.1), default_backend())
        with warnings.catch_warnings():
            warnings.simplefilter("error", say.EchoWarning)
            found, peak = step_of(self.model(0.1), echo_torch.eager_backend(checkpoints="keep"))
        self.assert_same_bits(expected, found)
        self.assertEqual(peak, marked)
        self.assertIn("checkpoints='keep'", last().reason)


class Saved(Case):
    """A compiled model is saved, copied and pickled as with any other backend, and trains on after that."""

    def test_saved_and_loaded(self):
        for backend in ("echo_eager", echo_torch.eager_backend(budget="0.5", keep="*.0")):
            with self.subTest(backend):
                torch._dynamo.reset()
                torch.manual_seed(0)
                model = torch.compile(Block(), backend=backend)
                x = torch.randn(BATCH, LENGTH, WIDTH)
                model(x).sum().backward()
                file = io.BytesIO()
                torch.save(model, file)
                file.seek(0)
                others = (torch.load(file, weights_only=False), copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
                for other in others:
                    other.zero_grad()
                    other(x).sum().backward()
                    for p, q in zip(model.parameters(), other.parameters(), strict=True):
                        self.assertTrue(torch.equal(p.grad, q.grad))

    def test_backends_of_the_same_options_are_equal(self):
        one, same = (echo_torch.eager_backend(budget="8GiB") for _ in range(2))
        self.assertEqual(one, same)
        self.assertEqual(hash(one), hash(same))
        self.assertEqual(one, pickle.loads(pickle.dumps(one)))
        self.assertNotEqual(one, echo_torch.eager_backend(budget="9GiB"))


class Inputs(Case):
    """What the step may write to between forward and backward is not read again, unless PyTorch's default reads it."""

    def trains(self, forward: Any, change: Any, *inputs: torch.Tensor, **options: Any) -> None:
        def train(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            model = nn.Sequential(
                *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH)) for _ in range(4))
            )
            given = [value.clone() for value in inputs]
            result = torch.compile(lambda *args: forward(model, *args), backend=backend)(*given)
            change(*given)
            result.square().mean().backward()
            return [result.detach(), *(p.grad for p in model.parameters())]

        self.trains_alike(
            train, *(echo_torch.eager_backend(measure=False, **(options | asked)) for asked in ({}, {"budget": 0.4}))
        )
        self.assertIsNone(last().reason)

    def test_an_input_that_is_changed(self):
        x = torch.randn(256, WIDTH)
        self.trains(lambda m, x: m(F.pad(x, (1, -1)).sin()), lambda x: x.div_(255), x)

    def test_a_part_of_an_input(self):
        x = torch.randn(WIDTH, 2, 256)
        self.trains(lambda m, x: m(x[:, 1].t().tanh()), lambda x: x.zero_(), x)

    def test_one_of_two_inputs(self):
        x, scale = torch.randn(256, WIDTH), torch.randn(WIDTH)
        self.trains(lambda m, x, s: m(x * (s.sigmoid() + 1)), lambda x, s: s.add_(1), x, scale)

    def test_what_a_gradient_needs_of_an_input_is_made_in_the_forward_pass(self):
        x, floor = torch.randn(256, WIDTH), torch.zeros(256, WIDTH)
        self.trains(lambda m, x, floor: m[2:](torch.maximum(m[:2](x), floor)), lambda x, floor: floor.add_(1), x, floor)

    def test_what_the_default_saves_may_be_read(self):
        model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.GELU())
        torch.compile(model, backend=echo_torch.eager_backend(budget=0.6))(torch.randn(512, WIDTH)).sum().backward()
        self.assertGreater(last().recomputed, 0)  # the first layer reads the input again, which its gradient needs


class Sizes(Case):
    """A budget in bytes holds for sizes that grow."""

    def peaks(self, lengths: tuple[int, ...], **options: Any) -> list[int]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)) for _ in range(6)))
        loss = torch.compile(lambda x: model(x).square().mean(), backend=echo_torch.eager_backend(**options))
        peaks = []
        for rows in lengths:
            x = torch.randn(rows, 128)
            loss(x).backward()  # compiles
            model.zero_grad()
            peaks.append(allocator_peak(lambda x=x: loss(x).backward())[1])
            model.zero_grad()
        return peaks

    def test_sizes_that_grow(self):
        lengths = (64, 96, 150, 4096)
        free = self.peaks(lengths)
        before = len(echo_torch.reports())
        held = self.peaks(lengths, budget="27MB")
        self.assertGreater(free[-1], 28e6)
        self.assertLess(held[-1], 27.3e6)
        self.assertLessEqual(len(echo_torch.reports()) - before, 3)

    def test_what_fits_is_planned_for_what_is_to_come(self):
        with torch._dynamo.config.patch(recompile_limit=3):
            default, held = self.peaks((64, 96, 4096), strategy="baseline"), self.peaks((64, 96, 4096), budget="30MB")
        self.assertLess(held[-1], 0.9 * default[-1])
        self.assertTrue(any("recompile_limit" in note for note in last().notes), last().notes)


class Results(Case):
    """A model that returns its loss beside something large, as those of transformers do."""

    def test_the_gradients_of_all_results_are_predicted(self):
        def step(x: torch.Tensor, y: torch.Tensor) -> None:
            results = call(x, y)
            results[1].backward()

        x, y = torch.randn(512, WIDTH), torch.randint(2000, (512,))
        for backend in ("default", "echo_eager"):
            torch._dynamo.reset()
            torch.manual_seed(0)
            body = nn.Sequential(
                *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)), nn.Linear(WIDTH, 2000)
            )

            def both(x: torch.Tensor, y: torch.Tensor, body: nn.Module = body) -> tuple[torch.Tensor, torch.Tensor]:
                logits = body(x)
                return logits, F.cross_entropy(logits, y)

            call = torch.compile(both, backend=default_backend() if backend == "default" else backend)
            step(x, y)
            body.zero_grad()
            measured = allocator_peak(lambda: step(x, y))[1]
            if backend == "default":
                default = measured
        self.assertIsNone(last().reason)
        self.assertAlmostEqual(last().default_peak / default, 1, delta=0.001)
        self.assertAlmostEqual(last().peak / measured, 1, delta=0.001)


class Words(Case):
    """What is said, and to whom."""

    FORBIDDEN = re.compile(
        r"primals|tangents|getitem|\bu\d+\b|\bs\d+\b|joint|described|in list|access storage|FakeTensor|assert|"
        r"\baten\.|\bfx\b|\bNoneType|object at 0x|\bself\b|Traceback|placeholder",
        re.IGNORECASE,
    )

    def test_all_reasons_in_the_sources(self):
        found = list(reasons_in(Path(partition.__file__).parent))
        self.assertGreater(len(found), 30)
        for where, text in found:
            with self.subTest(where):
                self.assertNotRegex(text, self.FORBIDDEN)

    def test_reasons_of_real_graphs(self):
        def nonzero(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x * w)[(x > 0).nonzero()[:, 0]].sum()

        def nested(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.compiler.nested_compile_region(lambda a, b: F.gelu(a * b))(x, w).sum()

        def drawn_backwards(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return Noisy.apply(x * w).sum()

        class Noisy(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                return x * 2

            @staticmethod
            def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
                return torch.rand(64, 64) * gradient

        seen = 0
        for program in (nonzero, nested, drawn_backwards):
            torch._dynamo.reset()
            before = len(echo_torch.reports())
            w = torch.randn(64, 64, requires_grad=True)
            with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                torch.compile(program, backend=echo_torch.eager_backend(measure=False))(
                    torch.randn(64, 64), w
                ).backward()
            for one in echo_torch.reports()[before:]:
                if one.reason is not None:
                    self.assertNotRegex(one.reason, self.FORBIDDEN)
                    seen += 1
        self.assertGreaterEqual(seen, 3)

    def test_a_summary_of_a_step(self):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Tanh()) for _ in range(4)))
        with self.assertLogs("echo_torch", logging.INFO) as said, warnings.catch_warnings():
            warnings.simplefilter("error", say.EchoWarning)
            compiled = torch.compile(model, backend=echo_torch.eager_backend(budget=0.8))
            for _ in range(2):
                compiled(torch.randn(512, 256)).square().sum().backward()
        lines = [record.getMessage() for record in said.records if "planned" in record.getMessage()]
        self.assertEqual(len(lines), 1)  # once
        self.assertRegex(
            lines[0], r"^echo: 1 of 1 graphs planned, activations [\d.]+ -> [\d.]+ MB \([\d.]+x\), \+\d+ % time"
        )

    def test_nothing_to_gain_is_no_warning(self):
        with self.assertLogs("echo_torch", logging.DEBUG) as said, warnings.catch_warnings():
            warnings.simplefilter("error", say.EchoWarning)
            model = torch.compile(nn.Linear(8, 8), backend="echo_eager")
            model(torch.randn(4, 8)).sum().backward()
        self.assertTrue(all(record.levelno <= logging.INFO for record in said.records))
        self.assertTrue(any("found nothing below" in record.getMessage() for record in said.records))

    def test_keep_that_names_no_module_is_said(self):
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
        say.warn_once.cache_clear()
        with self.assertWarnsRegex(say.EchoWarning, r"keep='linear.1' names no module: did you mean '[012]'\?"):
            compiled = torch.compile(model, backend=echo_torch.eager_backend(keep=["linear.1", "2"]))
            compiled(torch.randn(32, 64)).square().sum().backward()

    def test_nothing_is_shown_where_no_terminal_is(self):
        program = (
            "import support, torch; m = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU());"
            "torch.compile(m, backend='echo_eager')(torch.randn(512, 256)).square().sum().backward()"
        )
        self.assertNotIn("echo", self.runs(program))

    def test_what_takes_long_is_said(self):
        with (
            unittest.mock.patch.object(say, "SILENT_SECONDS", 0.01),
            self.assertLogs("echo_torch", logging.INFO) as said,
        ):
            with say.busy("measuring operators:", 7) as progress:
                progress.done = 3
                for _ in range(200):
                    if said.records:
                        break
                    progress.over.wait(0.01)
        self.assertIn("measuring operators: 3 of 7", said.records[0].getMessage())

    def test_reports_print_as_a_table(self):
        model = torch.compile(Checkpointed(), backend=echo_torch.eager_backend(measure=False))
        model(torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)).backward()
        reports = report.Reports()
        reports.add(last())
        reports.steps.append(Step(graphs=1, planned=1, default_peak=20_000_000, peak=11_000_000))
        *lines, step = str(reports).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("20 -> 11 MB of activations", step)
        self.assertIn("forward (test_front_door.py:", lines[-1])
        self.assertRegex(lines[-1], r"\d\.\d\dx")

    def test_reports_and_plans_are_bounded(self):
        kept = report.Reports()
        for k in range(report.MOST_REPORTS + 5):
            kept.add(report.Report(nodes=k))
        self.assertEqual((len(kept), kept[0].nodes), (report.MOST_REPORTS, 5))
        self.assertLessEqual(len(partition._plans), partition.MOST_PLANS)


def reasons_in(folder: Path) -> Any:
    """Every text that a user may be told: of errors, warnings and reasons, without what is filled in."""
    tells = {"Unknown", "Needless", "BudgetError", "OptionError", "UnknownOption", "warn_once", "ValueError"}
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name in tells:
                parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                yield f"{path.name}:{node.lineno}", " ".join(part for part in parts if isinstance(part, str))


if __name__ == "__main__":
    unittest.main()
