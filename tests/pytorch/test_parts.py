"""Parts of a step that are compiled by themselves: what each keeps for its backward half adds up."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

import torch
from support import Case
from torch import nn
from torch.utils.checkpoint import checkpoint

import echo_torch
from echo_torch import between
from echo_torch.between import Alike
from echo_torch.breaks import count_alike
from echo_torch.say import EchoWarning

WIDTH = 64


class Perceptron(nn.Module):
    """A block whose inner part may be marked by `torch.utils.checkpoint`."""

    def __init__(self, marked: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.marked = marked

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.marked else self.inner(x))


class Parts(Case):
    def trained(self, backend: Any, marked: bool = False, wanted: bool = True) -> tuple[float, list[torch.Tensor]]:
        """The bytes that four blocks keep for their backward pass, and their gradients. `wanted`: of the input too."""
        torch._dynamo.reset()
        torch.manual_seed(0)
        module = nn.Sequential(*(Perceptron(marked) for _ in range(4)))
        for block in module:
            block.compile(backend=backend)
        x = torch.randn(512, WIDTH, requires_grad=wanted)
        kept: dict[int, int] = {}  # what is saved lives until the backward pass, so no address comes twice

        def keep(value: torch.Tensor) -> torch.Tensor:
            storage = value.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return value

        for _ in range(2):
            module.zero_grad()
            kept.clear()
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
                loss = module(x).square().mean()
            loss.backward()
        return sum(kept.values()), [p.grad for p in module.parameters() if p.grad is not None]

    def test_blocks_keep_less(self) -> None:
        before, expected = self.trained("aot_eager")
        after, found = self.trained(echo_torch.eager_backend(budget=0.6, measure=False))
        self.assertLess(after, 0.8 * before)
        self.assert_same_bits(expected, found)
        report = echo_torch.reports()[-1]
        self.assertIsNone(report.reason)
        self.assertLessEqual(report.kept, 0.6 * report.default_kept)
        self.assertLessEqual(report.peak - report.default_peak, 3 * (report.default_kept - report.kept))
        self.assertEqual(report.kept, report.halves.kept)

    def test_how_many_are_alike(self) -> None:
        def call(block: nn.Module) -> nn.Module:
            block.compile(backend=backend)
            return block

        def wrap(block: nn.Module) -> nn.Module:
            wrapped: nn.Module = torch.compile(block, backend=backend)  # type: ignore[assignment]
            return wrapped

        def replace(block: nn.Module) -> nn.Module:
            block.forward = torch.compile(block.forward, backend=backend)  # type: ignore[method-assign]
            return block

        def backend(graph: Any, _: Any) -> Any:
            found.append(count_alike())
            return graph.forward

        found = list[int]()
        for ways in ([call] * 4, [wrap] * 4, [replace] * 4, [call, nn.Identity, nn.Identity, call], [call]):
            torch._dynamo.reset()
            module = nn.Sequential(*(way(Perceptron(False)) for way in ways))
            another = copy.deepcopy(module)
            module(torch.randn(8, WIDTH, requires_grad=True))
            del another
        torch.compile(Perceptron(False), backend=backend)(torch.randn(8, WIDTH))
        self.assertEqual(found, [4, 4, 4, 2, 1, 1])

    def test_what_is_checkpointed_from_outside_is_alone(self) -> None:
        found, alike = list[Alike](), between.alike

        def counted(*of: Any) -> Alike:
            found.append(alike(*of))
            return found[-1]

        for around in (None, False, True):
            torch._dynamo.reset()
            module = nn.Sequential(*(Perceptron(False) for _ in range(3)))
            x = torch.randn(64, WIDTH, requires_grad=True)
            with mock.patch.object(between, "alike", counted):
                for block in module:
                    block.compile(backend=echo_torch.eager_backend(measure=False))
                for block in module:
                    x = block(x) if around is None else checkpoint(block, x, use_reentrant=around)
                x.square().mean().backward()
        self.assertEqual([each.count for each in found], [3, 1, 1])

    def test_a_part_may_need_more_where_others_keep_less(self) -> None:
        alike = Alike(count=4, gradients=10)
        self.assertEqual(alike.above(50, 30), 60)
        self.assertEqual(alike.above(50, 5), 120)  # in the end they have their gradients
        self.assertEqual(alike.above(8, 5), 0)
        self.assertEqual(Alike().above(50, 30), 0)

    def test_no_block_keeps_more_than_its_checkpoints_do(self) -> None:
        """Neither the first one, before which nothing runs that is trained."""
        for wanted in (True, False):
            with self.subTest(wanted):
                before, expected = self.trained("aot_eager", True, wanted)
                after, found = self.trained(echo_torch.eager_backend(measure=False), True, wanted)
                self.assertLessEqual(after, before)
                self.assert_same_bits(expected, found)

    def test_a_budget_that_cannot_be_met(self) -> None:
        with self.assertWarnsRegex(EchoWarning, "the least that is kept between the halves"):
            self.trained(echo_torch.eager_backend(budget=0.01, measure=False))
