#!/usr/bin/env python3
"""`estimate(…, compiled="sm_90")`: steps are lowered for a card that is not here, and no trace of it stays behind."""

from __future__ import annotations

import functools
import importlib.util
import sys
import unittest
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any

import torch
from support import Case
from test_inductor import squares, transformer
from torch import nn
from torch.nn import functional

import echo_torch
from echo_torch import card, chosen, inductor, lowered
from echo_torch.card import CARDS
from echo_torch.made_up import Like

aten = torch.ops.aten
WIDTH, HEADS = 128, 2


class Layer(nn.Module):
    """A layer of a transformer whose attention is one operator, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.qkv(self.norms[0](x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.norms[0](self.convolutions[0](x)).relu()
        return (x + self.norms[1](self.convolutions[1](made))).relu()


def layers() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(Layer(), Layer()), torch.randn(4, 128, WIDTH)


def residual() -> tuple[nn.Module, torch.Tensor]:
    stem = nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    return nn.Sequential(*stem, Residual(32), Residual(32), *head), torch.randn(8, 3, 64, 64)


def estimated(build: Callable[[], tuple[nn.Module, torch.Tensor]], **asked: Any) -> echo_torch.Estimate:
    module, inputs = build()
    return echo_torch.estimate(module, inputs, squares, **{"compiled": "sm_90"} | asked)


WHY_NOT = (
    "a card is here"
    if torch.cuda.is_available()
    else "PyTorch is built without CUDA"
    if torch.version.cuda is None
    else "Triton is not installed"
    if importlib.util.find_spec("triton") is None
    else ""
)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Lowered(Case):
    """Steps are lowered and judged."""

    def assert_lowered(self, found: echo_torch.Estimate) -> None:
        self.assertLessEqual(found.echo_peak, found.default_peak)
        self.assertFalse(found.measured)
        self.assertIn("Lowered for sm_90 (H100 SXM), not run.", str(found))
        self.assertIn("by the card's data sheet", str(found))
        for operator in found.libraries:
            self.assertIn(operator, str(found))

    def test_a_transformer_twice(self) -> None:
        first, again = (estimated(layers, max_overhead=0.9) for _ in range(2))
        self.assert_lowered(first)
        self.assertLess(first.echo_peak, first.default_peak)
        self.assertIn("aten._scaled_dot_product_efficient_attention", first.libraries)
        self.assertEqual(first.json(), again.json())

    def test_a_residual_network(self) -> None:
        found = estimated(residual, max_overhead=0.13)
        self.assert_lowered(found)
        self.assertLess(found.echo_peak, found.default_peak)
        self.assertIn("aten.convolution_backward", found.libraries)

    def test_the_same_is_saved_as_on_a_cpu(self) -> None:
        """Where both run the same operators; each tensor is rounded up for the card."""
        step, kept = transformer(), list[int]()
        judge = lowered.Step.judge

        def noted(of: Any, halves: Any) -> Any:
            judged = judge(of, halves)
            kept.append(judged.kept)
            self.saved = len(halves[0].graph.output_node().args[0])
            return judged

        with (
            unittest.mock.patch.object(lowered.Step, "judge", noted),
            unittest.mock.patch.object(chosen.Chooser, "_asked", lambda *_: ()),  # no other plans
        ):
            for compiled in (True, "sm_80"):
                found = echo_torch.estimate(step.module, step.inputs, step.loss_fn, compiled=compiled)
                self.assertGreater(found.default_peak, kept[-1])
        self.assertGreaterEqual(kept[1], kept[0])
        self.assertLess(kept[1] - kept[0], 512 * self.saved, kept)

    def test_attention_that_is_written_out_is_fused(self) -> None:
        """Inductor does so on a card where it may use TF32, and traces the operator's gradients for it."""

        class Attention(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                q, k, v = (each.unflatten(-1, (4, 16)).transpose(1, 2) for each in super().forward(x).chunk(3, -1))
                scores = (q @ k.transpose(-2, -1) / 4.0).softmax(-1)
                return functional.dropout(scores, 0.1) @ v

        before = torch.get_float32_matmul_precision()
        self.addCleanup(torch.set_float32_matmul_precision, before)
        for precision in (before, "high"):
            torch.set_float32_matmul_precision(precision)
            with unittest.mock.patch.object(chosen.Chooser, "_asked", lambda *_: ()):
                found = estimated(lambda: (Attention(64, 192), torch.randn(2, 32, 64)))
            fused = "aten._scaled_dot_product_efficient_attention_backward" in found.libraries
            self.assertEqual(fused, precision == "high", found.libraries)

    def test_constants_and_tensors_on_no_device(self) -> None:
        held = torch.randn(8, 16)

        class Scaled(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                scales = torch.tensor([1.0, 2.0], device=x.device).repeat(8) * torch.tensor(0.5)
                return super().forward(x) * scales * held + torch.arange(16, device=x.device)

        def step(device: str) -> tuple[nn.Module, torch.Tensor]:
            return Scaled(16, 16, device=device), torch.randn(8, 16, device=device)

        here, nowhere = (estimated(functools.partial(step, each), budget="1GB", points=2) for each in ("cpu", "meta"))
        self.assertEqual(here.json(), nowhere.json())
        self.assertLessEqual(here.front[-1][0], here.default_peak)

    def test_nothing_stays_behind(self) -> None:
        from torch._dynamo import device_interface
        from triton.runtime.driver import driver

        def seen() -> list[Any]:
            interface = device_interface.get_interface_for_device("cuda")
            return [interface, driver._active, torch.cuda._DeviceGuard, torch.cuda.current_device]

        before = seen()
        with self.assertRaisesRegex(ZeroDivisionError, "planted"), card.standing_in(CARDS["sm_90"]):
            self.assertTrue(torch.utils._triton.has_triton())
            self.assertFalse(torch.cuda.is_available())
            raise ZeroDivisionError("planted")
        self.assertEqual(seen(), before)
        self.assertFalse(torch.utils._triton.has_triton())


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Traced(Case):
    """A step is traced as a card would run it."""

    def operators(self, module: nn.Module, *inputs: torch.Tensor) -> set[str]:
        joint, *_ = inductor.joint_graph(module, squares, (inputs, ()), CARDS["sm_90"])
        values = [node.meta.get("val") for node in joint.graph.nodes]
        tensors = [one for value in values for one in graph_leaves(value) if isinstance(one, torch.Tensor)]
        self.assertEqual({str(tensor.device) for tensor in tensors}, {"cuda:0"})
        return {str(getattr(node.target, "overloadpacket", "")) for node in joint.graph.nodes}

    def test_attention_is_what_cuda_chooses(self) -> None:
        def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
            return functional.scaled_dot_product_attention(q, k, v, mask)

        class Attention(nn.Module):
            def __init__(self, width: int, kind: torch.dtype) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width, dtype=kind))

            def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
                return attention(x * self.scale, x, x, mask)

        chosen_for = (
            (torch.float32, 64, None, "efficient"),
            (torch.bfloat16, 64, None, "flash"),
            (torch.bfloat16, 60, None, "flash"),  # padded
            (torch.bfloat16, 64, torch.ones(1, 1, 24, 24, dtype=torch.bool), "efficient"),
            (torch.float32, 63, None, "bmm"),  # rows of no whole vectors
            (torch.float64, 64, None, "bmm"),
        )
        for kind, width, mask, expected in chosen_for:
            with self.subTest(kind=kind, width=width, mask=mask is not None):
                inputs = [torch.randn(2, 4, 24, width).to(kind)] + ([] if mask is None else [mask])
                found = self.operators(Attention(width, kind), *inputs)
                name = expected if expected == "bmm" else f"_scaled_dot_product_{expected}_attention"
                self.assertIn(f"aten.{name}", found)
                self.assertFalse(any("cpu" in each for each in found), found)
        with torch.autocast("cpu", torch.bfloat16):
            found = self.operators(Attention(64, torch.float32), torch.randn(2, 4, 24, 64))
        self.assertIn("aten._scaled_dot_product_flash_attention", found)

    def test_what_has_no_effect_without_a_card_is_said(self) -> None:
        class Cast(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cuda", torch.bfloat16):
                    return super().forward(x)

        with self.assertRaisesRegex(echo_torch.StepError, r"torch.autocast\('cuda'\) casts nothing"):
            estimated(lambda: (Cast(4, 4), torch.randn(2, 4)))

    def test_times_are_those_of_the_data_sheet(self) -> None:
        sm_90 = CARDS["sm_90"]
        for kind, rate in ((torch.float32, sm_90.single), (torch.bfloat16, sm_90.half)):
            square = Like(torch.empty(1024, 1024, dtype=kind, device="meta"))
            (cost,) = sm_90.of_jobs([(aten.mm.default, (square, square), {})], torch.device("cuda", 0))
            self.assertAlmostEqual(cost.microseconds, max(2 * 1024**3 / rate, 3 * 2**20 * kind.itemsize / sm_90.bytes))
        moving = sm_90.moving_on(torch.device("cuda", 0))
        for size in (1 << 10, 3 << 30):
            self.assertAlmostEqual(moving.takes(size), size / sm_90.bytes)


class Asked(Case):
    """What cannot be done is one sentence."""

    def test_a_card_that_is_not_known(self) -> None:
        with self.assertRaisesRegex(ValueError, r"'sm_95' is none of True, False, 'sm_80', 'sm_90'"):
            estimated(layers, compiled="sm_95")

    @unittest.skipIf(WHY_NOT, WHY_NOT)
    def test_what_only_a_card_can_do(self) -> None:
        with self.assertRaisesRegex(ValueError, "measure=True times operators on a device"):
            estimated(layers, measure=True)

    @unittest.skipIf(torch.cuda.is_available(), "a card is here")
    def test_parts_that_are_missing(self) -> None:
        with unittest.mock.patch.dict(sys.modules, {"triton": None}):
            with self.assertRaisesRegex(ValueError, "needs Triton, which is not installed: pip install triton"):
                estimated(layers)
        if not WHY_NOT:
            with unittest.mock.patch.dict(card._PARTS, {"guard": "torch.cuda:_Nothing"}):
                with self.assertRaisesRegex(ValueError, "needs torch.cuda._Nothing, which PyTorch .* lacks"):
                    estimated(layers)

    def test_a_card_that_is_here(self) -> None:
        with (
            unittest.mock.patch.object(torch.cuda, "is_available", lambda: True),
            unittest.mock.patch.object(torch.cuda, "get_device_name", lambda: "a card"),
            warnings.catch_warnings(record=True) as told,
        ):
            warnings.simplefilter("always")
            self.assertIsNone(card.asked_for("sm_90", measure=False))
        self.assertIn("here is a card: the step is estimated for the device of its tensors", str(told[0].message))


def graph_leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


if __name__ == "__main__":
    unittest.main()
