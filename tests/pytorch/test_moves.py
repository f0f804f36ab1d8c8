"""Values that wait in the host's memory: gradients stay the same bits, and a step needs what was predicted."""

from __future__ import annotations

import contextlib
import copy
import unittest
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from other_memory import Late, other_memory
from support import Case, default_backend
from test_predictions import Step, of_module, trained
from torch import nn

import echo_torch
from echo_torch import halves, moves
from echo_torch.options import OptionError, rate_of
from echo_torch.say import EchoWarning, warn_once


class Attention(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widened = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.dropout(self.out(mixed), 0.1, self.training)
        return x + F.dropout(self.widened(x), 0.1, self.training)


class Widened(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Residual(nn.Module):
    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        layers = (nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.layers = nn.Sequential(*layers, nn.ReLU(), *map(copy.deepcopy, layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.layers(x))


TRANSFORMER = of_module(lambda: nn.Sequential(*(Attention() for _ in range(4))), lambda: (torch.randn(8, 64, 64),))
RESNET = of_module(
    lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *(Residual() for _ in range(4))),
    lambda: (torch.randn(8, 3, 32, 32),),
)
FAST = {"offload": "25GB/s", "budget": 0.3, "measure": False}


@contextlib.contextmanager
def steps_built() -> Iterator[list[Any]]:
    """The builders of the halves that are built within it."""
    built: list[Any] = []
    begin = halves.Builder.__init__

    def noted(self: Any, *args: Any) -> None:
        begin(self, *args)
        built.append(self)

    with unittest.mock.patch.object(halves.Builder, "__init__", noted):
        yield built


class Moves(Case):
    def moved(self, make: Callable[[], Step], ways: Late, **asked: Any) -> tuple[Any, int]:
        """The report and the measured peak of a step with moves, whose gradients are those without."""
        expected, _ = trained(make, default_backend())
        found, peak = trained(make, echo_torch.eager_backend(**asked))
        self.assert_same_bits(expected, found)
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertEqual(ways.copies, 2 * report.offloaded, "two steps were trained")
        return report, peak

    def test_gradients_and_bytes(self):
        for make in (TRANSFORMER, RESNET):
            for rate, asked in (("25GB/s", {"budget": 0.3}), ("1GB/s", {"max_overhead": "20%"})):
                with self.subTest(rate=rate, make=make), other_memory() as ways:
                    report, peak = self.moved(make, ways, offload=rate, **asked)
                    self.assertGreater(report.offloaded, 0)
                    self.assertLessEqual(abs(peak / report.peak - 1), 0.01, (peak, report.peak))
                    self.assertEqual(ways.most, report.host_bytes)
                    self.assertEqual(ways.bytes, 0)
                    self.assertFalse(ways.out + ways.back, "somebody has waited for every copy")
                    self.assertIn("wait in the host's memory", "".join(report.notes))

    def test_moves_bring_a_step_further_down(self):
        with other_memory() as ways:
            without, _ = self.moved(TRANSFORMER, ways, max_overhead=0.02, measure=False)
            moved, _ = self.moved(TRANSFORMER, ways, max_overhead=0.02, measure=False, offload="25GB/s")
        self.assertLess(moved.peak, without.peak)

    def test_a_copy_that_is_waited_for_in_the_backward_half(self):
        """What has begun to leave in the forward half is saved with its copy."""
        with other_memory() as ways, steps_built() as built:
            self.moved(TRANSFORMER, ways, offload="6GB/s", max_overhead=0.02, measure=False)
        steps, boundary = built[0].steps, built[0].boundary
        late = [reads for _, kind, reads, _ in steps[boundary:] if kind == "offload"]
        self.assertTrue(any(step < boundary for ((step, _),) in late))

    def test_what_the_forward_half_would_bring_back_for_the_backward_half(self):
        """The plan's first reload is set before the backward half: that half begins with it."""

        def earlier(steps: Any, calls: Any) -> Any:
            boundary = next(t for t, (node, *_) in enumerate(steps) if calls[node].phase == "backward")
            gone = {t for t, step in enumerate(steps[:boundary]) if step[1] == "offload"}
            back = next(t for t, step in enumerate(steps) if step[1] == "reload" and step[2][0][0] in gone)
            place = {t: t + 1 for t in range(boundary, back)} | {back: boundary}
            order = [*range(boundary), back, *(t for t in range(boundary, len(steps)) if t != back)]
            rewritten = ((*steps[t][:2], [(place.get(s, s), k) for s, k in steps[t][2]], steps[t][3]) for t in order)
            return list(rewritten)

        begin, found = halves.Builder.__init__, []

        def begin_with(builder: Any, host: Any, steps: Any) -> None:
            begin(builder, host, earlier(steps, host.calls))
            found.append(builder._late_reloads() == [builder.boundary - 1])

        with other_memory() as ways, unittest.mock.patch.object(halves.Builder, "__init__", begin_with):
            self.moved(TRANSFORMER, ways, **FAST)
        self.assertEqual(found, [True])

    def test_who_does_not_wait_is_found(self):
        expected, _ = trained(TRANSFORMER, default_backend())

        def never(coming: moves.Coming) -> torch.Tensor:
            coming.wait = None
            return coming.value

        for name, wrong in (("left", lambda away, _: away), ("came_back", never)):
            with self.subTest(name), other_memory():
                with unittest.mock.patch.object(moves, name, wrong):
                    found, _ = trained(TRANSFORMER, echo_torch.eager_backend(**FAST))
                self.assertFalse(all(map(torch.equal, expected, found)))

    def test_states_of_generators_lie_in_the_hosts_memory(self):
        """A plan that moved one told of more than is moved."""
        with other_memory() as ways, steps_built() as built:
            self.moved(TRANSFORMER, ways, offload="2.25GB/s", budget=0.24, measure=False)
        states = [call for call in built[0].host.calls if call.part == "state"]
        self.assertTrue(states)
        self.assertEqual({value.bytes for call in states for value in call.outputs}, {0})

    def test_no_pinned_memory(self):
        for room in (0, 3):
            expected, _ = trained(TRANSFORMER, default_backend())
            warn_once.cache_clear()
            with other_memory(room) as ways, warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found, _ = trained(TRANSFORMER, echo_torch.eager_backend(**FAST))
            self.assert_same_bits(expected, found)
            self.assertEqual(ways.copies, room)
            said = [str(each.message) for each in said if issubclass(each.category, EchoWarning)]
            self.assertEqual(len(said), 1, said)
            self.assertRegex(said[0], "^Echo moves no more values to the host, .*: no pinned memory$")

    def test_a_graph_that_is_retained(self):
        def train(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            model, x = nn.Sequential(*(Attention() for _ in range(4))), torch.randn(8, 64, 64)
            loss = torch.compile(lambda x: model(x).square().mean(), backend=backend)(x)
            loss.backward(retain_graph=True)
            loss.backward()
            return [p.grad for p in model.parameters()]

        for room in (None, 5):
            with other_memory(room) as ways:
                self.trains_alike(train, echo_torch.eager_backend(**FAST))
            self.assertGreater(ways.copies, 0)

    def test_gradients_of_a_batch_of_directions(self):
        def train(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            model, x = nn.Sequential(*(Widened() for _ in range(6))), torch.randn(8, 64, 64)
            result = torch.compile(lambda x: model(x).flatten(1).mean(1), backend=backend)(x)
            return [*torch.autograd.grad(result, [*model.parameters()], torch.eye(8), is_grads_batched=True)]

        with other_memory() as ways:
            self.trains_alike(train, echo_torch.eager_backend(**FAST))
        self.assertGreater(ways.copies, 0)

    def test_hooks_on_saved_tensors_read_no_copy_that_is_not_made(self):
        def train(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            model, x = nn.Sequential(*(Attention() for _ in range(4))), torch.randn(8, 64, 64)
            compiled = torch.compile(lambda x: model(x).square().mean(), backend=backend)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
                loss = compiled(x)
            loss.backward()
            return [p.grad for p in model.parameters()]

        with other_memory() as ways:
            self.trains_alike(train, echo_torch.eager_backend(**FAST))
        self.assertEqual(ways.copies, 0)

    def test_several_sizes(self):
        def train(backend: Any) -> list[torch.Tensor]:
            torch.manual_seed(0)
            model = nn.Sequential(*(Attention() for _ in range(4)))
            compiled = torch.compile(lambda x: model(x).square().mean(), backend=backend, dynamic=True)
            for rows in (8, 5, 11):
                compiled(torch.randn(rows, 64, 64)).backward()
            return [p.grad for p in model.parameters()]

        with other_memory() as ways:
            self.trains_alike(train, echo_torch.eager_backend(**FAST))
        self.assertGreater(ways.copies, 0)

    def test_a_budget_of_the_host(self):
        with other_memory() as ways:
            free, _ = self.moved(TRANSFORMER, ways, offload="25GB/s", max_overhead=0.02, measure=False)
        with other_memory() as ways:
            tight, _ = self.moved(
                TRANSFORMER, ways, offload="25GB/s", max_overhead=0.02, measure=False, host_budget="1MB"
            )
        self.assertLessEqual(ways.most, 1_000_000)
        self.assertLess(tight.host_bytes, free.host_bytes)


class Asked(Case):
    def test_rates(self):
        for given, rate in (("25GB/s", 25_000.0), ("1.5 gib / s", 1610.612736), (25e9, 25_000.0), ("1kB/s", 0.001)):
            self.assertEqual(rate_of("offload", given), rate)
        for given in (0, 0.0, 1, 0.5, "0GB/s", "fast", "25", "25GB", "50%", "25GB/h", "10B/s", -1, float("nan"), [1]):
            with (
                self.subTest(given),
                self.assertRaisesRegex(OptionError, "^offload=.* is no rate .*'25GB/s', or True$"),
            ):
                echo_torch.eager_backend(offload=given)

    def test_what_makes_no_sense(self):
        for asked, why in (
            ({"host_budget": "64GB"}, "^host_budget= is a limit on what offload= moves: .*"),
            ({"offload": "25GB/s", "host_budget": 0.5}, "^host_budget=0.5 is no size: .*"),
            ({"offload": "25GB/s", "strategy": "min_cut"}, "^offload= is planned by strategy='budget', .*"),
        ):
            with self.subTest(asked), self.assertRaisesRegex(OptionError, why + "$"):
                echo_torch.eager_backend(**asked)

    def test_the_memory_of_a_cpu_is_the_hosts(self):
        for offload in ("25GB/s", True):
            for door in (echo_torch.backend, echo_torch.eager_backend, echo_torch.partition_fn):
                with self.assertRaisesRegex(OptionError, "^offload=.* no GPU is here: leave it out, or ask .*$"):
                    door(offload=offload)
        compiled = torch.compile(nn.Linear(4, 4), backend="echo_eager", options={"offload": "25GB/s"})
        with self.assertRaisesRegex(OptionError, "no GPU is here"):
            compiled(torch.randn(2, 4)).sum().backward()

    def test_who_cannot_carry_it_out(self):
        for ask in (
            lambda: echo_torch.partitioner(offload="25GB/s"),
            lambda: echo_torch.estimate(nn.Linear(4, 4), torch.randn(2, 4), compiled=True, offload="25GB/s"),
        ):
            with self.assertRaisesRegex(OptionError, "^offload= is carried out by echo_torch.backend, not .*$"):
                ask()

    def test_an_estimate_plans_for_a_device_that_is_not_here(self):
        with torch.device("meta"):
            model, x = nn.Sequential(*(Attention() for _ in range(4))), torch.randn(8, 64, 64)

        def estimated(**asked: Any) -> echo_torch.Estimate:
            return echo_torch.estimate(model, x, lambda y: y.square().mean(), max_overhead=0.02, **asked)

        without, moved = estimated(), estimated(offload="25GB/s", points=4)
        self.assertLess(moved.echo_peak, without.echo_peak)
        self.assertGreater(moved.on_host, 1_000_000)
        self.assertGreaterEqual(moved.offloaded, moved.on_host)
        self.assertIn("in the host's memory, at most", str(moved))
        self.assertNotIn("in the host's memory", str(without))
        self.assertLessEqual(min(peak for peak, _ in moved.front), moved.echo_peak)
        self.assertLessEqual(estimated(offload="25GB/s", host_budget="1MB").on_host, 1_000_000)
        with self.assertRaisesRegex(OptionError, "^offload=True measures .* device is cpu: give a rate .*$"):
            estimated(offload=True)


if __name__ == "__main__":
    unittest.main()
