"""A random program of PyTorch's, as a module: see `programs.py`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from program_operators import BINARY, OF_INPUT, UNARY
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

SHAPES = ((8, 16, 32), (16, 256), (64, 64), (4, 8, 8, 16))
SIZE = math.prod(SHAPES[0])

Reading = Callable[["Values"], Tensor]


class Values:
    """What a program has at hand while it runs: what it made, an input, parameters, buffers."""

    def __init__(self, made: list[Tensor], given: Tensor, parameters: Any, buffers: Any) -> None:
        self.made, self.given, self.parameters, self.buffers = made, given, parameters, buffers


class Program:
    """A program of a seed. It is drawn by running it once, so that shapes fit and nothing overflows."""

    def __init__(self, seed: int) -> None:
        self.seed, self.draw = seed, random.Random(seed)
        self.shape = self.draw.choice(SHAPES)
        self.batches = self.draw.choice((None, None, None, "seen", "marked"))  # of several sizes?
        self.written = self.draw.choice((None, None, "given", "given", "result"))  # by the caller
        self.parameters: list[tuple[int, ...]] = []
        self.buffers: list[int] = []
        self.calls: list[Reading] = []
        torch.manual_seed(seed)
        self.shapes = [self.shape] * 2
        made, self.given = [torch.randn(self.shape) for _ in range(2)], torch.randn(self.shape)
        kinds = [self._unary, self._binary, self._layout, self._part, self._reduced, self._layer]
        kinds += [self._input] if self.written == "given" or self.draw.random() < 0.3 else []
        kinds += [self._checkpoint] if self.draw.random() < 0.4 else []
        self.inputs = 3  # so many operators at most read the input
        for _ in range(self.draw.randrange(20, 60) if self.batches else self.draw.randrange(40, 160)):
            sizes = len(self.parameters), len(self.buffers)
            back = self.draw.choice((2, 4, 20))
            at = self.draw.randrange(max(0, len(made) - back), len(made))
            call = self.draw.choice(kinds)(at, self.shapes[at])
            value = self._tried(call, made)
            if value is None:
                del self.parameters[sizes[0] :], self.buffers[sizes[1] :]
                continue
            self.calls.append(call)
            made.append(value)
            self.shapes.append(tuple(value.shape))
        ends = range(2, len(made))
        self.read = [*self.draw.sample(ends, min(3, len(ends))), len(made) - 1]
        self.returns_more = self.written == "result" or self.draw.random() < 0.3

    def _tried(self, call: Reading | None, made: list[Tensor]) -> Tensor | None:
        if call is None:
            return None
        parameters = [torch.full(shape, 0.5) for shape in self.parameters]
        try:
            value = call(Values(made, self.given, parameters, [torch.ones(n) for n in self.buffers]))
        except (RuntimeError, IndexError):  # the shapes do not fit
            return None
        return value.detach() if bool(torch.isfinite(value).all()) else None

    def _parameter(self, *shape: int) -> int:
        self.parameters.append(shape)
        return len(self.parameters) - 1

    def _buffer(self, length: int) -> int:
        self.buffers.append(length)
        return len(self.buffers) - 1

    def _dim(self, shape: tuple[int, ...]) -> int:
        """A dimension; not that of the batch where it has several sizes."""
        return self.draw.randrange(1 if self.batches else 0, len(shape))

    # ---- Kinds of operators, each of what was made at a place, of a shape

    def _input(self, at: int, shape: tuple[int, ...]) -> Reading | None:
        if not self.inputs:
            return None
        self.inputs -= 1
        function = self.draw.choice(OF_INPUT)
        return lambda v: function(v.made[at], v.given.reshape(v.made[at].shape))

    def _checkpoint(self, at: int, shape: tuple[int, ...]) -> Reading | None:
        """Some operators in a row, which the user wants to be run again in the backward pass."""
        kinds = [self._unary, self._unary, self._linear]
        kinds += [self._attention] if len(shape) == 3 else []
        if shape[-1] > 256:
            kinds = kinds[:2]
        calls = [self.draw.choice(kinds)(0, shape) for _ in range(self.draw.randrange(2, 6))]

        def part(v: Values) -> Tensor:
            def run(x: Tensor) -> Tensor:
                for call in calls:
                    x = call(Values([x], v.given, v.parameters, v.buffers))
                return x

            return checkpoint(run, v.made[at], use_reentrant=False)

        return part

    def _unary(self, at: int, shape: tuple[int, ...]) -> Reading:
        function = self.draw.choice(UNARY)
        return lambda v: function(v.made[at])

    def _binary(self, at: int, shape: tuple[int, ...]) -> Reading:
        function = self.draw.choice(BINARY)
        other = self.draw.choice([k for k, other in enumerate(self.shapes) if other == shape])
        return lambda v: function(v.made[at], v.made[other])

    def _layout(self, at: int, shape: tuple[int, ...]) -> Reading:
        order = self.draw.sample(range(len(shape)), len(shape))
        if self.batches:
            order = [0, *(dim for dim in order if dim)]
            return lambda v: v.made[at].permute(order)
        wanted = self.draw.choice((*SHAPES, (SIZE,), (32, 8, 16), (2, 2048), (4, 64, 16)))
        return self.draw.choice(
            (
                lambda v: v.made[at].permute(order),
                lambda v: v.made[at].permute(order),
                lambda v: v.made[at].permute(order).contiguous(),
                lambda v: v.made[at].reshape(wanted),
            )
        )

    def _part(self, at: int, shape: tuple[int, ...]) -> Reading:
        dim = self._dim(shape)
        places = torch.tensor([self.draw.randrange(shape[dim]) for _ in range(shape[dim])])

        def halves(v: Values) -> Tensor:
            a, b = v.made[at].chunk(2, dim)
            return torch.cat([a * b.sigmoid(), a + b], dim)

        def every_other(v: Values) -> Tensor:
            rows = v.made[at].transpose(0, dim)
            return torch.cat([rows[::2] * 2, rows[1::2].tanh()], 0).transpose(0, dim)

        def overwritten(v: Values) -> Tensor:
            value = v.made[at] * 1.5
            value.transpose(0, dim)[::2] = v.made[at].transpose(0, dim)[::2] * 0.5
            return value

        return self.draw.choice(
            (
                halves,
                every_other,
                overwritten,
                lambda v: v.made[at].index_select(dim, places),
                lambda v: v.made[at].roll(1, dim).flip(dim),
                lambda v: torch.gather(v.made[at], dim, v.made[at].argsort(dim)),
                lambda v: v.made[at].cumsum(dim) * 0.05,
            )
        )

    def _reduced(self, at: int, shape: tuple[int, ...]) -> Reading:
        dim = self._dim(shape)
        length = self._buffer(shape[-1])

        def averaged(v: Values) -> Tensor:
            kept = v.buffers[length]
            kept.mul_(0.9).add_(v.made[at].detach().reshape(-1, shape[-1]).mean(0) * 0.1)
            return v.made[at] - kept

        return self.draw.choice(
            (
                averaged,
                lambda v: v.made[at] - v.made[at].mean(dim, True),
                lambda v: v.made[at] - v.made[at].amax(dim, True),
                lambda v: v.made[at] - v.made[at].logsumexp(dim, True),
                lambda v: v.made[at] / (v.made[at].var(dim, keepdim=True, unbiased=False) + 1).sqrt(),
                lambda v: F.softmax(v.made[at], dim) * 4,
                lambda v: F.softmax(v.made[at].masked_fill(v.made[at] > 1, -1e9), dim) * 4,
                lambda v: F.log_softmax(v.made[at], dim),
            )
        )

    def _layer(self, at: int, shape: tuple[int, ...]) -> Reading | None:
        last, dims = shape[-1], len(shape)
        makers = {
            2: (self._norm, self._linear),
            3: (self._norm, self._linear, self._attention, self._convolution),
            4: (self._norm, self._linear, self._convolution, self._pool),
        }.get(dims, ())
        return self.draw.choice(makers)(at, shape) if makers and last <= 256 else None

    def _norm(self, at: int, shape: tuple[int, ...]) -> Reading:
        w, b = self._parameter(shape[-1]), self._parameter(shape[-1])
        scale, shift = self._parameter(shape[1]), self._parameter(shape[1])
        mean, variance = self._buffer(shape[1]), self._buffer(shape[1])

        def batch(v: Values) -> Tensor:
            statistics = v.buffers[mean], v.buffers[variance]
            return F.batch_norm(v.made[at], *statistics, v.parameters[scale], v.parameters[shift], True)

        return self.draw.choice(
            (
                batch,
                lambda v: F.layer_norm(v.made[at], shape[-1:], v.parameters[w], v.parameters[b]),
                lambda v: F.rms_norm(v.made[at], shape[-1:], v.parameters[w]),
                lambda v: F.group_norm(v.made[at], 2),
            )
        )

    def _linear(self, at: int, shape: tuple[int, ...]) -> Reading:
        w, b = self._parameter(shape[-1], shape[-1]), self._parameter(shape[-1])
        table = self._parameter(16, shape[-1])

        def looked_up(v: Values) -> Tensor:
            rows = (v.made[at][..., 0].abs() * 10).long().clamp(0, 15)
            return v.made[at] + F.embedding(rows, v.parameters[table])

        def mapped(v: Values) -> Tensor:
            return F.linear(v.made[at], v.parameters[w] * 0.2, v.parameters[b])

        return self.draw.choice((mapped, mapped, looked_up))

    def _attention(self, at: int, shape: tuple[int, ...]) -> Reading:
        def heads(x: Tensor) -> Tensor:
            return x.unflatten(2, (2, -1))

        def fused(v: Values) -> Tensor:
            q = heads(v.made[at]).transpose(1, 2)
            return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)

        def crossed(v: Values) -> Tensor:  # as Longformer has it: the weights lie across the heads
            q = heads(v.made[at])
            weights = F.softmax(torch.einsum("bqhd,bkhd->bqhk", q, q) * 0.2, -1)
            weights = weights.masked_fill(weights > 0.9, 0.0)
            product = F.dropout(weights, 0.1).transpose(1, 2) @ q.transpose(1, 2)
            return product.transpose(1, 2).flatten(2)

        def plain(v: Values) -> Tensor:
            weights = v.made[at] @ v.made[at].transpose(1, 2) * 0.1
            future = torch.ones(shape[1], shape[1], dtype=torch.bool).triu(1)
            return F.dropout(F.softmax(weights.masked_fill(future, -1e9), -1), 0.1) @ v.made[at]

        return self.draw.choice((fused, crossed, plain))

    def _convolution(self, at: int, shape: tuple[int, ...]) -> Reading | None:
        channels, kernel = shape[1], (3,) * (len(shape) - 2)
        if channels > 64:
            return None
        w = self._parameter(channels, channels, *kernel)
        if len(shape) == 3:
            return lambda v: F.conv1d(v.made[at], v.parameters[w] * 0.1, padding=1)
        last = self.draw.choice((torch.channels_last, torch.contiguous_format))
        return lambda v: F.conv2d(v.made[at].contiguous(memory_format=last), v.parameters[w] * 0.1, padding=1)

    def _pool(self, at: int, shape: tuple[int, ...]) -> Reading:
        return self.draw.choice(
            (
                lambda v: F.interpolate(F.max_pool2d(v.made[at], 2), scale_factor=2),
                lambda v: F.interpolate(F.avg_pool2d(v.made[at], 2), scale_factor=2, mode="bilinear"),
                lambda v: F.max_pool2d(v.made[at], 3, 1, 1),
            )
        )


class Module(nn.Module):
    """A program with its parameters and buffers. It gives the loss, and perhaps what it made on the
    way.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        torch.manual_seed(program.seed + 1)
        self.program = program
        self.scale = nn.Parameter(torch.randn(program.shape[1:]))
        self.own = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in program.parameters])
        self.kept = nn.Module()
        for k, length in enumerate(program.buffers):
            self.kept.register_buffer(str(k), torch.ones(length))

    def forward(self, x: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        values = Values([x, x * self.scale], given, list(self.own), list(self.kept.buffers()))
        for call in self.program.calls:
            values.made.append(call(values))
        loss = sum(values.made[k].square().mean() for k in self.program.read)
        returned = values.made[self.program.read[0]]
        if self.program.written == "result":
            returned = returned * 1.5  # one that no gradient needs
        return (loss, returned) if self.program.returns_more else (loss,)
