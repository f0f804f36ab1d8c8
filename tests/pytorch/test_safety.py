"""Whatever a model does, gradients are the same bits as by PyTorch's default partition, or training
goes on by it.
"""

from __future__ import annotations

import unittest
import unittest.mock
import warnings

import torch
from support import Case, default_backend
from torch import nn
from torch.utils.checkpoint import checkpoint

import echo_torch
from echo_torch.partition import EchoWarning, Options, warn_once

TIGHT = {"budget": 0.4}


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.layers(x))


def blocks(count: int = 4, width: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(count)))


def trained(
    module: nn.Module, loss, backend, shape=(256, 64), steps: int = 3
) -> list[torch.Tensor]:
    """Losses, gradients and buffers of some steps; what is drawn is the same every time."""
    compiled = torch.compile(lambda x: loss(module, x), backend=backend)
    torch.manual_seed(1)
    values = []
    for _ in range(steps):
        module.zero_grad()
        x = torch.randn(shape)
        value = compiled(x)
        value.backward()
        values += [value.detach(), x, torch.rand(2)]
        values += [p.grad.clone() for p in module.parameters() if p.grad is not None]
        values += [buffer.clone() for buffer in module.buffers()]
        with torch.no_grad():
            for p in module.parameters():
                if p.grad is not None:
                    p -= 0.01 * p.grad
    return values


def last() -> echo_torch.partition.Report:
    return echo_torch.reports()[-1]


class SameBits(Case):
    def same(self, build, loss, shape=(256, 64), *, planned: bool = True, **options) -> None:
        def train(backend):
            return trained(build(), loss, backend, shape)

        before = len(echo_torch.reports())
        self.trains_alike(train, echo_torch.backend(**(TIGHT | options)))
        self.assertGreater(len(echo_torch.reports()), before)
        reasons = [r.reason for r in echo_torch.reports()[before:]]
        if planned:
            self.assertIn(None, reasons)

    def test_dropout_runs_again_with_the_same_mask(self):
        self.same(blocks, lambda m, x: m(x).square().mean())

    def test_random_numbers_are_drawn_again(self):
        def loss(m, x):
            return (m(x * torch.rand_like(x)) * torch.rand_like(x)).square().mean()

        self.same(blocks, loss, budget=0.3)

    def test_batch_norm_updates_its_statistics_once(self):
        def build():
            torch.manual_seed(0)
            layers = [nn.Conv2d(3, 8, 3, padding=1)]
            for _ in range(4):
                layers += [nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
            return nn.Sequential(*layers)

        for budget in (0.6, 0.35):
            self.same(build, lambda m, x: m(x).square().mean(), (4, 3, 32, 32), budget=budget)
        self.same(build, lambda m, x: m.eval()(x).square().mean(), (4, 3, 32, 32))

    def test_a_mutated_input(self):
        def loss(m, x):
            y = m(torch.sin(x) * 2)
            x.mul_(0.5)
            return (m(y) + x).square().mean()

        self.same(blocks, loss)

    def test_a_mutated_buffer(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = blocks()
                self.register_buffer("mean", torch.zeros(64))

            def forward(self, x):
                y = torch.tanh(x - self.mean)
                self.mean.lerp_(x.mean(0), 0.1)
                return self.inner(y) - self.mean

        self.same(Counting, lambda m, x: m(x).square().mean())

    def test_tied_weights(self):
        def build():
            m = blocks()
            m[2].layers[0].weight = m[0].layers[0].weight
            return m

        self.same(build, lambda m, x: m(x).square().mean())

    def test_outputs_that_alias(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: (m(x), m(x).view(-1), x.t(), x), backend=backend)
            torch.manual_seed(1)
            x = torch.randn(32, 64, requires_grad=True)
            a, b, c, d = f(x)
            (a.sum() + b.square().sum() + c.sum() + d.sum()).backward()
            return [a.detach(), b.detach(), x.grad, *(p.grad for p in m.parameters())]

        self.trains_alike(train, echo_torch.backend(**TIGHT))

    def test_the_users_own_checkpoints(self):
        def loss(m, x):
            for block in m:
                x = checkpoint(block, x, use_reentrant=False)
            return x.square().mean()

        self.same(blocks, loss, planned=False)

    def test_retained_graph(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend)
            torch.manual_seed(1)
            value = f(torch.randn(32, 64))
            value.backward(retain_graph=True)
            value.backward()
            return [value.detach(), *(p.grad for p in m.parameters())]

        self.trains_alike(train, echo_torch.backend(**TIGHT))

    def test_autocast(self):
        def loss(m, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = m(x)
            return y.float().square().mean()

        self.same(blocks, loss)

    def test_graph_breaks(self):
        def loss(m, x):
            for block in m:
                x = block(x)
                torch._dynamo.graph_break()
            return x.square().mean()

        self.same(blocks, loss)

    def test_an_operator_of_the_user_runs_once(self):
        runs = []

        @torch.library.custom_op("echo_test::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            runs.append(1)
            return x * 2

        double.register_fake(lambda x: torch.empty_like(x))
        double.register_autograd(lambda ctx, g: g * 2)
        self.same(blocks, lambda m, x: m(torch.sin(double(m(x)))).square().mean())
        self.assertEqual(len(runs), 6)

    def test_no_gradient_is_asked_for(self):
        m = blocks().eval()
        f = torch.compile(m, backend=echo_torch.backend())
        x = torch.randn(32, 64)
        with torch.no_grad():
            self.assertTrue(torch.equal(f(x), m(x)))

    def test_double_backward_is_declined_as_pytorch_does(self):
        m = blocks()
        f = torch.compile(lambda x: m(x).square().mean(), backend=echo_torch.backend(**TIGHT))
        x = torch.randn(32, 64, requires_grad=True)
        (gradient,) = torch.autograd.grad(f(x), x, create_graph=True)
        with self.assertRaises(RuntimeError):
            gradient.sum().backward()

    def test_one_compilation_for_three_batch_sizes(self):
        def train(backend):
            m = blocks()
            f = torch.compile(lambda x: m(x).square().mean(), backend=backend, dynamic=True)
            values = []
            for batch in (256, 384, 512):
                torch.manual_seed(batch)
                m.zero_grad()
                value = f(torch.randn(batch, 64))
                value.backward()
                values += [value.detach(), *(p.grad.clone() for p in m.parameters())]
            return values

        before = len(echo_torch.reports())
        self.trains_alike(train, echo_torch.backend(**TIGHT))
        self.assertEqual(len(echo_torch.reports()), before + 1)
        self.assertIsNone(last().reason)


class Falls(Case):
    """What Echo does not know, or cannot do, is left to PyTorch, with one warning."""

    def setUp(self):
        super().setUp()
        warn_once.cache_clear()

    def train(self, **options):
        return trained(
            blocks(), lambda m, x: m(x).square().mean(), echo_torch.backend(**options), steps=1
        )

    def test_a_fault_of_ours(self):
        expected = trained(blocks(), lambda m, x: m(x).square().mean(), default_backend(), steps=1)
        for place in (
            "echo_torch.partition.Builder",
            "echo_torch.partition.Host",
            "echo_torch.costs.fill",
        ):
            torch._dynamo.reset()
            with unittest.mock.patch(place, side_effect=RuntimeError("broken")):
                with self.assertWarnsRegex(EchoWarning, "broken"):
                    self.assert_same_bits(expected, self.train())
            warn_once.cache_clear()

    def test_planning_that_takes_too_long(self):
        with self.assertWarnsRegex(EchoWarning, "took longer"):
            self.train(seconds=1e-9, max_overhead=0.31)

    def test_a_budget_that_cannot_be_met(self):
        with self.assertWarnsRegex(EchoWarning, "cannot be met.*none lies below"):
            self.train(budget=1000)
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "cannot be met"):
            self.train(budget=1000, strict=True)

    def test_options_that_make_no_sense(self):
        wrong = [{"budget": budget} for budget in ("much", -1, float("nan"))]
        for options in (*wrong, {"max_overhead": float("nan")}, {"strategy": "best"}):
            with self.assertRaises(ValueError):
                echo_torch.backend(**options)
        with self.assertRaises(TypeError):
            echo_torch.backend(budgets=1)

    def test_budgets_in_all_their_forms(self):
        for budget, expected in (
            ("8GiB", 8 << 30),
            ("1.5MB", 1_500_000),
            (0.5, 50),
            (1000, 1000),
            (None, None),
        ):
            self.assertEqual(Options(budget=budget).bytes_of(100), expected)

    def test_kept_modules_do_not_run_again(self):
        self.train(budget=0.3)
        some = last().recomputed
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.train(budget=0.3, keep="*layers*")
        self.assertLess(last().recomputed, some)

    def test_the_same_graph_is_planned_once(self):
        self.train(budget=0.45)
        torch._dynamo.reset()
        self.train(budget=0.45)
        self.assertTrue(last().cached)

    def test_the_entry_point(self):
        self.assertIn("echo", torch._dynamo.list_backends(None))


if __name__ == "__main__":
    unittest.main()
