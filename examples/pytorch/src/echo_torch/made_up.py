"""Tensors that are made up so that an operator can be measured on them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from echo_torch.graph import number

NOISE = 4099  # numbers, after which they come again


class Data(NamedTuple):
    """What made-up tensors hold: noise or zeros, integers of this value, and for booleans this one."""

    noise: bool
    integer: int
    boolean: bool


# A mask of ones selects most, and noise takes a series further than zeros.
MOST, LEAST = Data(True, 0, True), Data(False, 0, False)
# In this order until one is understood: an integer may be an index, a place counted from 1, or the length of nothing.
USUAL = (MOST, Data(True, 1, True), Data(True, 0, False))


class Like:
    """A tensor by all that its cost depends on."""

    def __init__(self, value: torch.Tensor) -> None:
        shape, stride = tuple(map(number, value.shape)), tuple(map(number, value.stride()))
        self.facts = shape, stride, value.dtype, str(value.device), value.is_conj(), value.is_neg()

    def __repr__(self) -> str:
        return repr(self.facts)

    def make(self, data: Data) -> torch.Tensor:
        shape, stride, dtype, device, is_conj, is_neg = self.facts
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if 0 not in shape else 0
        if dtype.is_floating_point or dtype.is_complex:
            made = _noisy(extent, dtype, device) if data.noise else torch.zeros(extent, dtype=dtype, device=device)
        else:
            value = data.boolean if dtype == torch.bool else data.integer
            made = torch.full((extent,), value, dtype=dtype, device=device)
        made = made.as_strided(shape, stride)
        is_matrix = made.is_floating_point() or made.is_complex()
        if data.noise and is_matrix and len(shape) > 1 and shape[-1] == shape[-2] and 0 not in (*stride, *shape):
            # A matrix that is no constant, positive definite and far from the unit matrix: every factorization exists.
            made.diagonal(dim1=-2, dim2=-1).fill_(shape[-1])
        made = made.conj() if is_conj else made
        return made._neg_view() if is_neg else made


def _noisy(extent: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Numbers between 0 and 1 that differ from their neighbours, on a storage of their own."""
    made, noise = torch.empty(extent, dtype=dtype, device=device), _noise(dtype, device)
    whole = extent - extent % NOISE
    made[:whole].view(-1, NOISE).copy_(noise)
    made[whole:].copy_(noise[: extent - whole])
    return made


@functools.cache
def _noise(dtype: torch.dtype, device: str) -> torch.Tensor:
    drawn = torch.rand(NOISE, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu")
    return (0.1 + 0.8 * drawn).to(device=device, dtype=dtype)
