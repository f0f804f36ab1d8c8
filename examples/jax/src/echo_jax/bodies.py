"""A step whose backward pass lies within a loop, a conditional or shard_map: the body there is planned as a step.

So are gradients that a loop accumulates, and several steps in one loop. The compiler judges the step as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from echo_jax import tracing
from echo_jax.tracing import Evaluate, Traced, evaluate, has_backward, is_literal, operations


def innermost(traced: Traced) -> Traced:
    """The body that has the backward pass; the step itself where that has it, or where it cannot be looked into."""
    while not traced.backward:
        found = [(at, body) for at, each in enumerate(traced.equations) for body in _bodies(each) if _is_late(body)]
        if not found:
            break
        at, body = max(found, key=lambda pair: operations(traced.equations[pair[0]]))
        traced = _inside(traced, at, body)
    return traced


Inside = tuple[int, Any]  # which one of the bodies, and its ClosedJaxpr


def _bodies(equation: Any) -> list[Inside]:
    params = equation.params
    told = {"scan": "jaxpr", "while": "body_jaxpr", "shard_map": "jaxpr"}.get(equation.primitive.name)
    if told is not None:
        inner = params[told]
        return [(0, inner if hasattr(inner, "consts") else jax.extend.core.ClosedJaxpr(inner, ()))]
    return list(enumerate(params["branches"])) if equation.primitive.name == "cond" else []


def _is_late(body: Inside) -> bool:
    return has_backward(body[1].jaxpr)


def _inside(traced: Traced, at: int, body: Inside) -> Traced:
    """That body of the equation `at`."""
    which, inner = body
    jaxpr, consts = traced.closed.jaxpr, traced.closed.consts

    def enclose(run: Evaluate) -> Evaluate:
        def outer(*args: Any) -> list[Any]:
            values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))
            for number, equation in enumerate(jaxpr.eqns):
                reads = [value.val if is_literal(value) else values[value] for value in equation.invars]
                made = _around(equation, reads, which, run) if number == at else tracing.run(equation, reads)
                values.update(zip(equation.outvars, made))
            return [value.val if is_literal(value) else values[value] for value in jaxpr.outvars]

        return traced.enclose(outer)

    times = traced.times * traced.equations[at].params.get("length", 1)
    found = dataclasses.replace(traced, enclose=enclose, around=traced, times=times)
    closed = tracing.in_order(found.remade(lambda *args: evaluate(inner.jaxpr, inner.consts, args)))
    return dataclasses.replace(found, closed=closed, backward=tracing.backward_of(closed))


def _around(equation: Any, reads: Sequence[Any], which: int, run: Evaluate) -> Sequence[Any]:
    """The equation with `run` in place of one of its bodies."""
    with tracing.context(equation):
        return AROUND[equation.primitive.name](equation.params, reads, which, run)


def _scan(params: Any, reads: Sequence[Any], _: int, run: Evaluate) -> Sequence[Any]:
    constants, carry = params["num_consts"], params["num_carry"]

    def body(state: Any, slices: Any) -> Any:
        made = run(*reads[:constants], *state, *slices)
        return list(made[:carry]), list(made[carry:])

    begin, slices = list(reads[constants : constants + carry]), list(reads[constants + carry :])
    told = {key: params[key] for key in ("length", "reverse", "unroll")}
    state, stacked = jax.lax.scan(body, begin, slices, **told)
    return [*state, *stacked]


def _while(params: Any, reads: Sequence[Any], _: int, run: Evaluate) -> Sequence[Any]:
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    ends = params["cond_jaxpr"]

    def goes_on(state: Any) -> Any:
        return evaluate(ends.jaxpr, ends.consts, [*reads[:first], *state])[0]

    state = jax.lax.while_loop(goes_on, lambda state: list(run(*reads[first:second], *state)), list(reads[second:]))
    return list(state)


def _cond(params: Any, reads: Sequence[Any], which: int, run: Evaluate) -> Sequence[Any]:
    def plain(branch: Any) -> Evaluate:
        return lambda *args: evaluate(branch.jaxpr, branch.consts, args)

    branches = [run if at == which else plain(branch) for at, branch in enumerate(params["branches"])]
    return list(jax.lax.switch(reads[0], [lambda *args, run=each: list(run(*args)) for each in branches], *reads[1:]))


def _shard_map(params: Any, reads: Sequence[Any], _: int, run: Evaluate) -> Sequence[Any]:
    mapped = jax.shard_map(
        lambda *args: list(run(*args)),
        mesh=params["mesh"],
        in_specs=tuple(params["in_specs"]),
        out_specs=list(params["out_specs"]),
        check_vma=params["check_vma"],
        axis_names=params["newly_manual_axes"],
    )
    return list(mapped(*reads))


AROUND: dict[str, Callable[..., Sequence[Any]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": _shard_map,
}
