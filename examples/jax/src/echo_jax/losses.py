"""A loss that is differentiated: its gradients are planned, and come by a derivative of its own.

The forward pass of that derivative runs the planned step, which gives value and gradients at once; its backward pass
multiplies them by the cotangent of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from echo_jax import calls
from echo_jax.calls import Call, Results
from echo_jax.tracing import Evaluate, Traced, is_inside

Gradients = Callable[..., Any]  # of flat arrays: (value, further results), gradients


def is_loss(traced: Traced, results: Results) -> bool:
    """Whether its first result is a real number, and it has no backward pass yet."""
    if traced.backward or results.changed or is_inside(traced) or not traced.closed.out_avals:
        return False
    first = traced.closed.out_avals[0]
    return first.shape == () and jax.dtypes.issubdtype(first.dtype, jax.numpy.floating)


def apart(step: Callable[..., Any], call: Call) -> Evaluate:
    """The loss as a function of arrays: its value, and its further results."""
    flat = calls.flat(step, call, Results(None, {}, ()))

    def told(*arrays: Any) -> Any:
        first, *rest = flat(*arrays)
        return first, rest

    told.__name__ = calls.name_of(step)
    return told


def differentiable(loss: Evaluate, gradients: Callable[[tuple[int, ...]], Gradients]) -> Evaluate:
    """The flat results of the loss, of which `gradients` are taken by these numbers of arguments where it is
    differentiated. Forward mode (jax.jvp) is not possible.
    """

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return loss(*arrays)

    def forward(*arrays: Any) -> Any:
        values = [each.value for each in arrays]
        numbers = tuple(at for at, each in enumerate(arrays) if each.perturbed and calls.is_real(each.value))
        results, found = gradients(numbers)(*values)
        return results, (values, dict(zip(numbers, found)))

    def backward(kept: Any, cotangents: Any) -> Any:
        values, found = kept
        first, rest = cotangents
        if any(not _is_zero(each) for each in rest):  # further results are differentiated as well
            whole = jax.tree.map(_instantiated, cotangents, is_leaf=_is_zero)
            numbers = sorted(found)
            some = _of_some(loss, values, numbers)
            told = jax.vjp(some, *(values[at] for at in numbers))[1](whole)
            return _spread(len(values), dict(zip(numbers, told)))
        if _is_zero(first):
            return _spread(len(values), {})
        return _spread(len(values), {at: each * first.astype(each.dtype) for at, each in found.items()})

    run.defvjp(forward, backward, symbolic_zeros=True)

    def flat(*arrays: Any) -> list[Any]:
        first, rest = run(*arrays)
        return [first, *rest]

    return flat


def _spread(count: int, found: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(found.get(at) for at in range(count))


def _of_some(loss: Evaluate, values: Sequence[Any], numbers: Sequence[int]) -> Evaluate:
    def some(*changed: Any) -> Any:
        told = dict(zip(numbers, changed))
        return loss(*(told.get(at, value) for at, value in enumerate(values)))

    return some


def _is_zero(cotangent: Any) -> bool:
    return isinstance(cotangent, jax.custom_derivatives.SymbolicZero)


def _instantiated(cotangent: Any) -> Any:
    return jax.numpy.zeros(cotangent.shape, cotangent.dtype) if _is_zero(cotangent) else cotangent
