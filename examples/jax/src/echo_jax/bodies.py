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
    traced = joined(traced) or traced
    while not traced.backward:
        found = [(at, body) for at, each in enumerate(traced.equations) for body in _bodies(each) if _is_late(body)]
        if not found:
            break
        at, body = max(found, key=lambda pair: operations(traced.equations[pair[0]]))
        traced = _inside(traced, at, body)
    return traced


def joined(traced: Traced) -> Traced | None:
    """The body of shard_map where gradients are taken of it as a whole, which makes a second shard_map that reads what
    the first one keeps: both as one, whose body has the backward pass. None: there is no such pair.
    """
    equations = traced.equations
    maker = {value: at for at, each in enumerate(equations) for value in each.outvars}
    pairs = []
    for late in traced.backward:
        makers = {maker[value] for value in equations[late].invars if not is_literal(value) and value in maker}
        pairs += [(first, late) for first in makers if _can_join(traced, first, late)]
    if not pairs:
        return None
    first, late = max(pairs, key=lambda pair: operations(equations[pair[0]]))
    whole = dataclasses.replace(traced, closed=traced.remade(_as_one(traced, first, late)))
    for at, each in enumerate(whole.equations):
        for body in _bodies(each) if each.primitive.name == "shard_map" else ():
            if _is_late(body):
                return _inside(whole, at, body)
    return None


SAME = ("mesh", "check_vma", "newly_manual_axes")  # of two regions that can be one


def _can_join(traced: Traced, first: int, late: int) -> bool:
    """Whether the second reads nothing else that depends on the first."""
    a, b = traced.equations[first], traced.equations[late]
    if first in traced.backward or {a.primitive.name, b.primitive.name} != {"shard_map"}:
        return False
    if any(a.params[key] != b.params[key] for key in SAME):
        return False
    specs = dict(zip(a.outvars, a.params["out_specs"]))
    behind = {value for at in _behind(traced, first) for value in traced.equations[at].outvars}
    return all(
        is_literal(value) or (specs[value] == spec if value in specs else value not in behind)
        for value, spec in zip(b.invars, b.params["in_specs"])
    )


def _behind(traced: Traced, first: int) -> set[int]:
    """Equations that depend on that one."""
    found, values = set[int](), set(traced.equations[first].outvars)
    for at, each in enumerate(traced.equations):
        if any(not is_literal(value) and value in values for value in each.invars):
            found.add(at)
            values.update(each.outvars)
    return found


def _as_one(traced: Traced, first: int, late: int) -> Evaluate:
    """The step in which both regions are one."""
    jaxpr, equations, behind = traced.closed.jaxpr, traced.equations, _behind(traced, first)
    a, b = equations[first], equations[late]
    read = {value for at, each in enumerate(equations) if at != late for value in each.invars if not is_literal(value)}
    read |= {value for value in jaxpr.outvars if not is_literal(value)}
    told = [at for at, value in enumerate(a.outvars) if value in read]
    own = [at for at, value in enumerate(b.invars) if is_literal(value) or value not in a.outvars]
    params = {
        **a.params,
        "in_specs": (*a.params["in_specs"], *(b.params["in_specs"][at] for at in own)),
        "out_specs": (*(a.params["out_specs"][at] for at in told), *b.params["out_specs"]),
    }

    def body(*args: Any) -> list[Any]:
        with tracing.named(a):
            made = evaluate(a.params["jaxpr"], (), args[: len(a.invars)])
        values = dict(zip(a.outvars, made))
        given = dict(zip(own, args[len(a.invars) :]))
        with tracing.named(b):
            reads = [given[at] if at in given else values[value] for at, value in enumerate(b.invars)]
            return [made[at] for at in told] + evaluate(b.params["jaxpr"], (), reads)

    def flat(*args: Any) -> list[Any]:
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*traced.closed.consts, *args)))

        def read_of(value: Any) -> Any:
            return value.val if is_literal(value) else values[value]

        def run(numbers: Sequence[int]) -> None:
            for at in numbers:
                reads = [read_of(value) for value in equations[at].invars]
                values.update(zip(equations[at].outvars, tracing.run(equations[at], reads)))

        run([at for at in range(len(equations)) if at not in behind and at != first])
        reads = [read_of(value) for value in (*a.invars, *(b.invars[at] for at in own))]
        values.update(zip([*(a.outvars[at] for at in told), *b.outvars], _shard_map(params, reads, 0, body)))
        run([at for at in sorted(behind) if at != late])
        return [read_of(value) for value in jaxpr.outvars]

    return flat


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
        def each(number: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
            return _around(equation, reads, which, run) if number == at else tracing.run(equation, reads)

        return traced.enclose(lambda *args: tracing.walk(jaxpr, consts, args, each))

    times = traced.times * traced.equations[at].params.get("length", 1)
    found = dataclasses.replace(traced, enclose=enclose, around=traced, times=times, under=None)
    closed = tracing.in_order(found.remade(lambda *args: evaluate(inner.jaxpr, inner.consts, args, {})))
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
