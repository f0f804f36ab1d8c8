"""Whether a step needs what was predicted, where operators are the user's, random, complex or sparse."""

from __future__ import annotations

import os
import threading
import time
import unittest
import unittest.mock
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from support import Case, default_backend
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

import echo_torch
from echo_torch import costs, forked, graph
from echo_torch.made_up import MOST, Like

Step = tuple[Iterable[torch.Tensor], Callable[..., torch.Tensor], Callable[[], tuple[Any, ...]]]


def defined(name: str, function: Callable[..., Any], fake: Callable[..., Any], writes: Any = ()) -> Any:
    """An operator of the user's, with a gradient by another that needs as much."""
    made = torch.library.custom_op(f"echo_predictions::{name}", function, mutates_args=writes)
    made.register_fake(fake)
    return made


def with_gradient(forward: Any, backward: Any) -> Any:
    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    forward.register_autograd(lambda ctx, g: backward(g, *ctx.saved_tensors), setup_context=keep)
    return forward


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v


def attention_gradient(
    g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    p = torch.softmax(q @ k.transpose(-1, -2) / 8, -1)
    dp = g @ v.transpose(-1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / 8
    return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g


ATTENTION = with_gradient(
    defined("attention", attention, lambda q, k, v: torch.empty_like(q)),
    defined("attention_gradient", attention_gradient, lambda g, *qkv: tuple(map(torch.empty_like, qkv))),
)


class Block(nn.Module):
    def __init__(self, mixed: Callable[..., torch.Tensor] = ATTENTION) -> None:
        super().__init__()
        self.mixed, self.norm, self.qkv = mixed, nn.LayerNorm(64), nn.Linear(64, 192)
        self.widened = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.contiguous() for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.mixed(q, k, v)
        return x + self.widened(x)


def of_module(build: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]]) -> Callable[[], Step]:
    def make() -> Step:
        module = build()
        return module.parameters(), lambda *x: module(*x).square().mean(), inputs

    return make


def trained(make: Callable[[], Step], backend: Any) -> tuple[list[torch.Tensor], int]:
    """Loss and gradients of a second step, and its peak as the allocator counts it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    parameters, function, inputs = make()
    parameters = list(parameters)
    compiled = torch.compile(function, backend=backend)
    losses: list[torch.Tensor] = []

    def step() -> None:
        loss = compiled(*given)
        loss.backward()
        losses.append(loss.detach())

    peak = 0
    for number in range(2):
        torch.manual_seed(number)
        given = inputs()
        for parameter in parameters:
            parameter.grad = None
        peak = costs._held(step, lambda: 0.0)[1] if number else step() or 0
    return [losses[-1], *(p.grad for p in parameters if p.grad is not None)], peak


class Predictions(Case):
    def predicted(self, make: Callable[[], Step], *budgets: float, most: float = 0.01) -> Any:
        """Trains the same thing without and with Echo: the same bits, and the peaks that were predicted."""
        expected, default = trained(make, default_backend())
        for budget in budgets:
            found, peak = trained(make, echo_torch.eager_backend(budget=budget))
            report = echo_torch.reports()[-1]
            self.assertIsNone(report.reason)
            for measured, told in ((default, report.default_peak), (peak, report.peak)):
                self.assertLessEqual(abs(measured / told - 1), most, (budget, measured, told))
            for one, other in zip(expected, found, strict=True):
                one, other = (x.coalesce() if x.is_sparse else x for x in (one, other))
                ones, others = ([x.indices(), x.values()] if x.is_sparse else [x] for x in (one, other))
                self.assert_same_bits(ones, others)
        return report


class Users(Predictions):
    """Operators of the user's."""

    def test_their_scratch_memory(self):
        build = lambda: nn.Sequential(*(Block() for _ in range(3)))  # noqa: E731
        report = self.predicted(of_module(build, lambda: (torch.randn(4, 256, 64),)), 0.6, 0.3)
        self.assertEqual(report.notes, [])

    def test_results_on_larger_storages(self):
        def padded(x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x, x], -1).sin()[..., : x.shape[-1]].as_strided(x.shape, x.stride())

        made = defined("padded", padded, torch.empty_like)
        with_gradient(made, lambda g, x: g * x.cos())
        self.predicted(self.chain(made), 0.7)

    def test_what_writes_to_an_argument(self):
        def filled(x: torch.Tensor, out: torch.Tensor) -> None:
            out.copy_(torch.softmax(torch.cat([x, x], -1), -1)[..., : x.shape[-1]])

        write = defined("filled", filled, lambda x, out: None, writes=("out",))

        def mixed(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            write(x.detach(), out)
            return x * out

        self.predicted(self.chain(mixed), 0.7)

    def test_random_numbers_that_it_draws_are_drawn_in_order(self):
        def noisy(x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(x.shape)

        draw = defined("noisy", noisy, torch.empty_like)
        with_gradient(draw, lambda g, x: g * 1)
        self.predicted(self.chain(lambda x: F.dropout(draw(x), 0.3)), 0.6)

    def chain(self, mixed: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Step]:
        def make() -> Step:
            layers = [nn.Linear(128, 128) for _ in range(4)]

            def function(x: torch.Tensor) -> torch.Tensor:
                for layer in layers:
                    x = x + mixed(F.gelu(layer(x)))
                return x.square().mean()

            return (
                [p for layer in layers for p in layer.parameters()],
                function,
                lambda: (torch.randn(512, 128),),
            )

        return make

    def unknown(
        self,
        name: str,
        body: Callable[[torch.Tensor], torch.Tensor],
        why: str,
        is_once: bool = True,
    ) -> None:
        """Trains by an operator that does what it should on the data of a step alone, and finds it noted."""
        runs = []

        def function(x: torch.Tensor) -> torch.Tensor:
            runs.append(1)
            return body(x) * 2

        made = with_gradient(defined(name, function, torch.empty_like), lambda g, x: g * 2)
        make = self.chain(lambda x: made(x) if is_once else made(made(x)))
        expected, _ = trained(make, default_backend())
        del runs[:]
        with unittest.mock.patch.object(costs, "SECONDS_FOR_USERS", 1.0):
            found, _ = trained(make, echo_torch.eager_backend(budget=0.7))
        self.assertEqual(len(runs), 8, "it runs four times a step and never else")
        self.assert_same_bits(expected, found)
        notes = "\n".join(echo_torch.reports()[-1].notes)
        self.assertRegex(notes, f"the scratch memory of 'echo_predictions::{name}'.* is in no prediction: {why}")
        self.assertEqual(len(echo_torch.reports()[-1].notes), 1)

    def test_one_that_raises_on_made_up_tensors(self):
        def body(x: torch.Tensor) -> torch.Tensor:
            if made_up(x):
                raise ValueError("no such data")
            return x.clone()

        self.unknown("raising", body, "on made-up tensors it raised ValueError: no such data")

    def test_one_that_never_ends(self):
        def body(x: torch.Tensor) -> torch.Tensor:
            while made_up(x):
                time.sleep(0.01)
            return x.clone()

        self.unknown("endless", body, "it ended its process or took longer than 1 s")

    def test_one_that_ends_its_process(self):
        def body(x: torch.Tensor) -> torch.Tensor:
            if made_up(x):
                os.abort()
            return x.clone()

        self.unknown("aborting", body, "it ended its process or took longer than 1 s")

    def test_what_it_does_beside_stays_in_its_process(self):
        done: list[int] = []
        reading, writing = os.pipe()

        def function(x: torch.Tensor) -> torch.Tensor:
            done.append(1)
            torch.rand(1)
            print("it runs")
            os.write(writing, b"x")
            return x * 2

        made = with_gradient(defined("beside", function, torch.empty_like), lambda g, x: g * 2)
        value = Like(torch.empty(64, 64))
        before = torch.get_rng_state()
        (cost,) = costs._measure_apart({"": (made._opoverload, (value,), {})}, "cpu").values()
        self.assertRegex(str(cost), "raised OSError")  # the pipe is not there
        os.write(writing, b"y")
        self.assertEqual(os.read(reading, 9), b"y")
        self.assertEqual(done, [])
        self.assertTrue(torch.equal(before, torch.get_rng_state()))
        os.close(reading)
        os.close(writing)

    def test_the_others_are_known_where_one_is_lost(self):
        def lost() -> None:
            os._exit(1)

        tasks = {"a": lambda: [1], "b": lost, "c": lambda: [3], "d": lost, "e": lambda: [5]}
        found = forked.answers(tasks, 5.0)
        self.assertEqual((found["a"], found["c"]), ([1], [3]))
        self.assertEqual(list(found), list(tasks))
        self.assertIn("it was not tried", found["e"])

    def test_from_another_thread(self):
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(forked.answers({"a": lambda: [1]}, 5.0)))
        thread.start()
        thread.join()
        self.assertEqual(found, [{"a": [1]}])


def made_up(x: torch.Tensor) -> bool:
    """Whether an operator is being measured: the noise of made-up tensors comes again."""
    return bool(x.flatten()[0] == Like(x).make(MOST).flatten()[0])


class Random(Predictions):
    def test_states_of_the_generator(self):
        def make() -> Step:
            layers = [nn.Linear(128, 128) for _ in range(24)]

            def function(x: torch.Tensor) -> torch.Tensor:
                for layer in layers:
                    y = F.gelu(layer(x))
                    x = x + F.dropout(y, 0.1) * torch.randn_like(y)
                return x.square().mean()

            return (
                [p for layer in layers for p in layer.parameters()],
                function,
                lambda: (torch.randn(128, 128),),
            )

        # Known: while numbers are drawn again, the generator's own state is kept, 5,056 bytes that no plan counts.
        report = self.predicted(make, 0.6, 0.3, most=0.003)
        self.assertGreater(report.recomputed, 24)


class Complex(Predictions):
    def test_conjugated_arguments(self):
        def make() -> Step:
            v, w = (
                nn.Parameter(torch.randn(64, 64)),
                nn.Parameter(torch.randn(96, 64, dtype=torch.complex64)),
            )

            def function(x: torch.Tensor) -> torch.Tensor:
                z = torch.fft.fft(x.to(torch.complex64) @ v.to(torch.complex64))
                y = z @ w.t()
                return torch.view_as_real(y.conj() * y).sum(-1).sqrt().log1p().sum()

            return [v, w], function, lambda: (torch.randn(4, 256, 64),)

        self.predicted(make, 0.9)

    def test_negated_arguments(self):
        def make() -> Step:
            w = nn.Parameter(torch.randn(128, 128, dtype=torch.complex64))

            def function(x: torch.Tensor) -> torch.Tensor:
                for _ in range(4):
                    y = (x @ w).conj()
                    x = torch.complex(y.imag @ y.real.t(), y.real.sin()).tanh()
                return x.abs().square().mean()

            return [w], function, lambda: (torch.randn(128, 128, dtype=torch.complex64),)

        self.predicted(make, 0.7)

    def test_numbers(self):
        def make() -> Step:
            w = nn.Parameter(torch.randn(64, 64, dtype=torch.complex64))

            def function(x: torch.Tensor) -> torch.Tensor:
                return ((x @ w * 0.02).sin() * (0.5 + 0.5j)).cos().abs().square().mean()

            return [w], function, lambda: (torch.randn(256, 64, dtype=torch.complex64),)

        self.predicted(make, 0.9)

    def test_the_inverse_of_a_matrix(self):
        def make() -> Step:
            w = nn.Parameter(torch.randn(4, 96, 64, dtype=torch.complex64))

            def function(x: torch.Tensor) -> torch.Tensor:
                return torch.view_as_real(x.to(torch.complex64) @ torch.linalg.pinv(w)).square().sum()

            return [w], function, lambda: (torch.randn(4, 256, 64),)

        torch._dynamo.reset()
        for steps in (1, 2):  # the first call of a graph runs under a mode of AOTAutograd's
            with self.subTest(steps=steps):
                self.trains_alike(lambda backend: once(make, backend, steps), echo_torch.eager_backend(budget=0.5))


def once(make: Callable[[], Step], backend: Any, steps: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    parameters, function, inputs = make()
    compiled, found = torch.compile(function, backend=backend), []
    for _ in range(steps):
        loss = compiled(*inputs())
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in parameters)]
    return found


class Sparse(Predictions):
    def test_gradients_of_known_parts(self):
        class Embedded(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.table = nn.Embedding(5000, 64, sparse=True)
                self.inner = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 64), nn.SiLU())

            def forward(self, rows: torch.Tensor) -> torch.Tensor:
                return self.inner(self.table(rows))

        def rows() -> tuple[torch.Tensor]:
            return (torch.randint(0, 5000, (512,)),)

        self.predicted(of_module(Embedded, rows), 0.8)
        found = echo_torch.estimate(Embedded(), rows(), lambda y: y.square().mean())
        self.assertLess(found.echo_peak, found.default_peak)

    def test_others_are_refused_by_name(self):
        table = nn.Parameter(torch.randn(500, 64))

        def make() -> Step:
            return (
                [table],
                lambda rows: F.embedding_bag(rows, table, sparse=True).tanh().sum(),
                rows,
            )

        def rows() -> tuple[torch.Tensor]:
            return (torch.randint(0, 500, (64, 4)),)

        trained(make, echo_torch.eager_backend())
        reason = echo_torch.reports()[-1].reason
        self.assertRegex(reason, "'_embedding_bag_backward'.*torch.sparse_coo, whose bytes are not known ahead")


class Data(Predictions):
    """Operators whose scratch memory depends on data."""

    def test_a_series_that_ends_early(self):
        def make(scale: float) -> Step:
            m = nn.Sequential(orthogonal(nn.Linear(128, 128)), nn.GELU(), orthogonal(nn.Linear(128, 128)))
            with torch.no_grad():
                for layer in (m[0], m[2]):
                    layer.parametrizations.weight.original.add_(torch.randn(128, 128), alpha=scale)
            return m.parameters(), lambda x: m(x).square().mean(), lambda: (torch.randn(128, 128),)

        _, peak = trained(lambda: make(1.0), default_backend())
        _, less = trained(lambda: make(0.0), default_backend())
        trained(lambda: make(1.0), echo_torch.eager_backend(budget=0.9))
        report = echo_torch.reports()[-1]
        self.assertLessEqual(abs(peak / report.default_peak - 1), 0.01)
        self.assertLess(less, 0.9 * peak)
        self.assertRegex(
            "\n".join(report.notes),
            "'linalg_matrix_exp'.* depends on its data: from .* and the most is",
        )

    def test_a_mask_that_is_full(self):
        def make(part: float) -> Step:
            w = nn.Parameter(torch.randn(32, 32))

            def function(x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
                for _ in range(3):
                    x = torch.ops.aten.index_put(torch.tanh(x @ w), [mask], value, accumulate=True)
                return x.square().mean()

            shape = 64, 32, 32
            return (
                [w],
                function,
                lambda: (torch.randn(shape), torch.rand(shape) < part, torch.zeros(())),
            )

        _, full = trained(lambda: make(2.0), default_backend())
        _, empty = trained(lambda: make(-1.0), default_backend())
        trained(lambda: make(0.5), echo_torch.eager_backend(budget=0.9))
        report = echo_torch.reports()[-1]
        self.assertLessEqual(abs(full / report.default_peak - 1), 0.01)
        self.assertLess(empty, 0.9 * full)
        self.assertRegex("\n".join(report.notes), "'index_put'.* depends on its data")

    def test_made_up_tensors_are_like_the_real_ones(self):
        z = torch.randn(3, 4, 5, dtype=torch.complex64)
        for value in (
            z.transpose(0, 2).conj(),
            z.imag,
            z.conj().imag,
            z.real[:, 1:, ::2],
            z.abs() > 1,
            torch.arange(7),
        ):
            made = Like(value).make(MOST)
            for fact in ("shape", "dtype", "device"):
                self.assertEqual(getattr(made, fact), getattr(value, fact))
            self.assertEqual(
                (made.stride(), made.is_conj(), made.is_neg()),
                (value.stride(), value.is_conj(), value.is_neg()),
            )

    def test_a_check_of_a_factorization_is_not_noted(self):
        def make() -> Step:
            w = nn.Parameter(torch.randn(128, 128) + 12 * torch.eye(128))

            def function(x: torch.Tensor) -> torch.Tensor:
                for _ in range(3):
                    x = torch.tanh(torch.linalg.solve(w, torch.sin(x)))
                return x.square().mean()

            return [w], function, lambda: (torch.randn(128, 128),)

        self.assertEqual(self.predicted(make, 0.8).notes, [])

    def test_factorizations_of_made_up_matrices(self):
        made = Like(torch.empty(6, 9, 9)).make(MOST)
        torch.linalg.cholesky(made)
        torch.linalg.inv(made)
        self.assertGreater(float(made.std()), 0.1)


class Views(unittest.TestCase):
    def test_what_is_known_of_views_and_sparse_tensors_is_of_operators_that_are_there(self):
        for target in (*graph.MADE_OF, *graph.OTHER_BITS):
            self.assertIsInstance(target, torch._ops.OpOverload)


if __name__ == "__main__":
    unittest.main()
