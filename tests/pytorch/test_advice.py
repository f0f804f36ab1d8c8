"""What docs/pytorch/integrations.md advises, and what it says does not work with any backend. Where a test of the
second kind fails, PyTorch has become better and the page may say less.
"""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import torch
from support import Case
from torch import nn

import echo_torch  # isort: split


class Classifier(nn.Module):
    """Reads the last output of a recurrent module, as the MNIST example of PyTorch does."""

    def __init__(self, kind: str, words: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 28) if words else nn.Identity()
        self.recurrent, self.out = getattr(nn, kind)(28, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.recurrent(self.embedding(x))[0][:, -1])


class Masked(nn.Module):
    def __init__(self, is_causal: bool | None) -> None:
        super().__init__()
        self.layers, self.is_causal = (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2),
            is_causal,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layers(x, mask=mask, is_causal=self.is_causal)


@contextlib.contextmanager
def recurrent_modules_in_graphs() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def train(module: Callable[..., torch.Tensor], x: torch.Tensor) -> None:
    module(x).sum().backward()


class Advice(Case):
    def nodes(self, model: nn.Module, x: torch.Tensor, backend: Any = "echo_eager") -> int:
        """How many nodes the graphs of a step have."""
        torch._dynamo.reset()
        before = len(echo_torch.reports())
        train(torch.compile(model, backend=backend), x)
        return sum(report.nodes for report in echo_torch.reports()[before:])

    def test_recurrent_modules_come_into_the_graph(self) -> None:
        x = torch.randn(4, 6, 28)
        for kind in ("GRU", "RNN"):
            with self.subTest(kind):
                outside = self.nodes(Classifier(kind), x)
                with recurrent_modules_in_graphs():
                    self.assertGreater(self.nodes(Classifier(kind), x), 2 * outside)

    def test_an_lstm_comes_into_the_graph_whether_its_input_needs_a_gradient_or_not(self) -> None:
        words, x = torch.randint(0, 50, (4, 6)), torch.randn(4, 6, 28)
        outside = self.nodes(Classifier("LSTM"), x)
        with recurrent_modules_in_graphs():
            self.assertGreater(self.nodes(Classifier("LSTM", words=50), words), 2 * outside)
            self.assertGreater(self.nodes(Classifier("LSTM"), x), 2 * outside)

    def test_an_lstm_that_reads_the_batch_fails_in_pytorchs_backend(self) -> None:
        with recurrent_modules_in_graphs(), self.assertRaises(AssertionError):
            self.nodes(Classifier("LSTM"), torch.randn(4, 6, 28), "aot_eager")

    def test_an_encoder_with_a_mask_comes_into_the_graph_where_it_is_told_to_be_causal(self) -> None:
        x = torch.randn(4, 8, 32)
        self.assertGreater(self.nodes(Masked(True), x), 5 * self.nodes(Masked(None), x))

    def test_the_method_compile_of_a_module_of_pytorch_compiles_nothing(self) -> None:
        before = len(echo_torch.reports())
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU())
        model.compile(backend="echo_eager")
        train(model, torch.randn(4, 8))
        self.assertEqual(len(echo_torch.reports()), before)


if __name__ == "__main__":
    unittest.main()
