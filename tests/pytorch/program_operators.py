"""Operators that the random programs of `programs.py` draw from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("echo_programs::smoothed", mutates_args=())
def smoothed(x: Tensor) -> Tensor:
    """A user's operator: tanh, by way of eight times its memory."""
    return x.flatten().repeat(8).tanh().view(8, -1)[3].reshape(x.shape).clone()


@torch.library.custom_op("echo_programs::smoothed_backward", mutates_args=())
def smoothed_backward(gradient: Tensor, x: Tensor) -> Tensor:
    wide = 1 - x.flatten().repeat(8).tanh().square()
    return gradient.contiguous() * wide.view(8, -1)[5].reshape(x.shape)


@torch.library.custom_op("echo_programs::halve_", mutates_args=("x",))
def halve_(x: Tensor) -> None:
    """A user's operator that writes into its argument."""
    x.mul_(0.5)


def _empty(*args: Tensor) -> Tensor:
    return args[-1].new_empty(args[-1].shape)


def _keep(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
    return smoothed_backward(gradient, x)


smoothed.register_fake(_empty)
smoothed_backward.register_fake(_empty)
smoothed.register_autograd(_backward, setup_context=_keep)


def _halved(x: Tensor) -> Tensor:
    value = x.detach() * 1.5
    halve_(value)
    return x + value


UNARY = (
    torch.tanh, torch.sigmoid, torch.sin, torch.abs, torch.neg, torch.clone, torch.atan, torch.erf,
    F.relu, F.gelu, F.silu, F.softplus, F.leaky_relu, F.hardswish, F.hardsigmoid, F.hardtanh, F.elu,
    F.mish, F.logsigmoid, F.relu6, F.selu, F.softsign,
    lambda x: x.clamp(-2, 2).exp(),
    lambda x: x.clamp(-3, 3).square(),
    lambda x: (x.abs() + 1).rsqrt(),
    lambda x: x.double().sin().float(),
    lambda x: x.bfloat16().tanh().float(),
    lambda x: x * 0.5 + 1.0,
    lambda x: F.threshold(x, 0.1, 0.0),
    lambda x: x.detach() * 0.5 + x,
    lambda x: x + x[:1].expand_as(x).tanh(),
    lambda x: F.dropout(x, 0.2),
    lambda x: F.dropout1d(x, 0.3) if x.dim() == 3 else F.dropout(x, 0.5),
    lambda x: x * torch.rand_like(x),
    lambda x: x + torch.randn(x.shape),
    lambda x: x * torch.bernoulli(torch.full_like(x, 0.7)),
    lambda x: x * (torch.rand(x.shape[:1] + (1,) * (x.dim() - 1)) > 0.2),
    smoothed, smoothed, _halved,
)  # fmt: skip

BINARY = (
    torch.add, torch.sub, torch.maximum, torch.minimum, torch.logaddexp,
    lambda a, b: a * b.tanh(),
    lambda a, b: torch.where(a > b, a, b * 0.5),
    lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.addcmul(a, a, b.tanh(), value=0.5),
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: torch.sqrt(a * a + b * b + 1),
    lambda a, b: a.masked_fill(b > 0.5, 0.0),
    lambda a, b: (a * 1.5).add_(b),
    lambda a, b: (a * b.sigmoid() * 1.5).relu_(),
    lambda a, b: F.dropout(a * b.sigmoid(), 0.2, inplace=True),
)  # fmt: skip

# Of a value and of an input of the whole program, which no gradient needs but as something that was made of it.
OF_INPUT = (
    lambda a, i: a + i,
    lambda a, i: a + i.tanh(),
    lambda a, i: a.masked_fill(i > 0.3, 0.0),
    lambda a, i: torch.where(i > 0, a, a * 0.5),
    lambda a, i: a * i.sigmoid(),
    lambda a, i: a * (i.square() + i.cos()).tanh(),
    lambda a, i: a + i.flip(0).abs().sqrt(),
    lambda a, i: torch.maximum(a, i),
)  # fmt: skip
