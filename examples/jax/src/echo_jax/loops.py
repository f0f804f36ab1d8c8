"""Loops of the forward pass that keep less of each iteration: the loop of the backward pass computes it again.

The gradient of jax.lax.scan is a loop that stacks values of each iteration, and a second one that reads them. Here the
first stacks only its carry and results of expensive operators, and the second computes the others from these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from echo_jax import tracing
from echo_jax.cuts import cheapest
from echo_jax.rewriting import AGAIN
from echo_jax.tracing import Evaluate, Traced, bytes_of, evaluate, is_heavy, is_literal, operations, run

MOST_CHOICES = 500  # of a front; a longer one is thinned


@dataclass(frozen=True)
class Body:
    """One iteration: values by what they are. Calls within are inlined."""

    jaxpr: Any
    consts: Sequence[Any]
    constants: list[Any]
    carry: list[Any]
    slices: list[Any]
    carry_out: list[Any]
    stacked: list[Any]


@dataclass(frozen=True)
class Pair:
    """A loop, of the forward pass or computed again, the one of the backward pass that reads what it stacks, and what
    may be dropped.
    """

    forward: int  # equations
    backward: int
    first: Body
    second: Body
    dropped: dict[int, int]  # the stacked result of the first that only the second reads, to its slice there
    flops: float = 0.0  # that loops within the second compute again in each iteration


@dataclass(frozen=True)
class Variant:
    """A pair in which these values of the first body are stacked, in place of what is dropped."""

    pair: Pair
    kept: list[Any]
    bytes: int  # stacked, of all iterations
    flops: float  # computed again, of all iterations
    before: int  # bytes stacked as it is


Chosen = tuple[tuple[int, int], ...]  # pairs by number, and the variant of each; others are as they are


@dataclass(frozen=True, order=True)
class Choice:
    """Variants of several pairs."""

    bytes: int  # stacked by all pairs
    flops: float  # computed again
    chosen: Chosen


def body_of(traced: Traced, equation: Any) -> Body:
    params = equation.params
    inner = params["jaxpr"]
    once: Evaluate = lambda *args: evaluate(inner.jaxpr, inner.consts, args, {})  # noqa: E731
    flat = traced.within(lambda *_: jax.make_jaxpr(once)(*inner.in_avals))
    return _body(flat, params["num_consts"], params["num_carry"])


def _body(flat: Any, constants: int, carry: int) -> Body:
    values, results = list(flat.jaxpr.invars), list(flat.jaxpr.outvars)
    return Body(
        flat.jaxpr,
        flat.consts,
        values[:constants],
        values[constants : constants + carry],
        values[constants + carry :],
        results[:carry],
        results[carry:],
    )


def pairs(traced: Traced) -> list[Pair]:
    """Pairs in which something may be dropped. A loop is in one pair, that in which the most may be."""
    found = sorted(_pairs(traced), key=lambda pair: (-_droppable(traced, pair), pair.forward, pair.backward))
    taken, apart = set[int](), list[Pair]()
    for pair in found:
        if not taken & {pair.forward, pair.backward}:
            taken |= {pair.forward, pair.backward}
            apart.append(pair)
    return sorted(apart, key=lambda pair: pair.forward)


def _droppable(traced: Traced, pair: Pair) -> int:
    """Bytes of all iterations."""
    length: int = traced.equations[pair.forward].params["length"]
    return length * sum(bytes_of(pair.first.stacked[k].aval) for k in pair.dropped)


def _pairs(traced: Traced) -> Iterator[Pair]:
    equations, jaxpr = traced.equations, traced.closed.jaxpr
    readers: dict[Any, list[int]] = {}
    for at, equation in enumerate(equations):
        for value in equation.invars:
            if not is_literal(value):
                readers.setdefault(value, []).append(at)
    results = {value for value in jaxpr.outvars if not is_literal(value)}
    for at, equation in enumerate(equations):
        if equation.primitive.name != "scan":
            continue
        stacked = equation.outvars[equation.params["num_carry"] :]
        only = [{*readers.get(value, [])} for value in stacked]
        behind = {next(iter(each)) for each in only if len(each) == 1}
        for late in sorted(behind & traced.backward):
            pair = _pair(traced, at, late, [k for k, each in enumerate(only) if each == {late}], results)
            if pair is not None:
                yield pair


def _pair(traced: Traced, at: int, late: int, own: list[int], results: Collection[Any]) -> Pair | None:
    forward, backward = traced.equations[at], traced.equations[late]
    if backward.primitive.name != "scan" or backward.params["length"] != forward.params["length"]:
        return None
    carry = forward.params["num_carry"]
    begin = backward.params["num_consts"] + backward.params["num_carry"]
    slices = [None if is_literal(value) else value for value in backward.invars[begin:]]
    dropped = {}
    for k in own:
        value = forward.outvars[carry + k]
        if value not in results and slices.count(value) == 1 and value not in backward.invars[:begin]:
            dropped[k] = slices.index(value)
    first = body_of(traced, forward) if dropped else None
    if first is None or first.jaxpr.effects:
        return None
    return Pair(at, late, first, body_of(traced, backward), dropped)


def variants(traced: Traced, pair: Pair) -> list[Variant]:
    """From the one that computes most again to the one that computes no expensive operator again; then the same for the
    pair with loops within its bodies that keep less themselves.
    """
    length, before = traced.equations[pair.forward].params["length"], _droppable(traced, pair)
    return [
        found
        for each in (pair, *_narrower(traced, pair))
        for found in _variants(each, length, before)
        if found.bytes < before
    ]


def front(traced: Traced) -> list[Choice]:
    """Choices than which none has fewer bytes for the same operations: from the least bytes to the step as it is."""
    found = [Choice(0, 0.0, ())]
    for number, pair in enumerate(pairs(traced)):
        each = variants(traced, pair)
        if not each:
            continue
        told = [(each[0].before, 0.0, ())] + [(v.bytes, v.flops, ((number, at),)) for at, v in enumerate(each)]
        sums = sorted(Choice(a.bytes + b, a.flops + f, (*a.chosen, *c)) for a in found for b, f, c in told)
        found = []
        for choice in sums:
            if not found or choice.flops < found[-1].flops:
                found.append(choice)
        step = -(-len(found) // MOST_CHOICES)
        found = found[::-1][::step][::-1]  # the last is the step as it is
    return found


def _variants(pair: Pair, length: int, before: int) -> list[Variant]:
    first = pair.first
    heavy = [each for each in first.jaxpr.eqns if is_heavy(each)]
    heavy.sort(key=lambda each: operations(each) / max(1, sum(bytes_of(value.aval) for value in each.outvars)))
    wanted = [first.stacked[k] for k in pair.dropped]
    found: list[Variant] = []
    for cut in range(len(heavy), -1, -1):
        kept = _kept(first, wanted, {value for each in heavy[cut:] for value in each.outvars})
        size = length * sum(bytes_of(value.aval) for value in kept)
        flops = length * (pair.flops + sum(operations(each) for each in _again(first, wanted, kept)))
        if all(each.kept != kept for each in found):
            found.append(Variant(pair, kept, size, flops, before))
    return found


def _narrower(traced: Traced, pair: Pair) -> Iterator[Pair]:
    """The pair with loops within its bodies that keep less of each of their iterations."""
    whole = _joint(traced, pair)
    choices = [found for each in pairs(whole) if (found := variants(whole, each))]
    for rank in range(max(map(len, choices), default=0)):
        yield _with(traced, pair, [each[min(rank, len(each) - 1)] for each in choices])


def _joint(traced: Traced, pair: Pair) -> Traced:
    """One iteration of the first loop and of the second as one step, of which the second is the backward pass."""
    first, second = pair.first.jaxpr, pair.second.jaxpr
    told = {pair.second.slices[slot]: pair.first.stacked[k] for k, slot in pair.dropped.items()}
    rest = [
        each.replace(invars=[value if is_literal(value) else told.get(value, value) for value in each.invars])
        for each in second.eqns
    ]
    stacked = [value for k, value in enumerate(pair.first.stacked) if k not in pair.dropped]
    results = [value if is_literal(value) else told.get(value, value) for value in second.outvars]
    jaxpr = first.replace(
        constvars=[*first.constvars, *second.constvars],
        invars=[*first.invars, *(value for value in second.invars if value not in told)],
        outvars=[*pair.first.carry_out, *stacked, *results],
        eqns=[*first.eqns, *rest],
        debug_info=None,
    )
    closed = jax.extend.core.ClosedJaxpr(jaxpr, [*pair.first.consts, *pair.second.consts])
    late = range(len(first.eqns), len(jaxpr.eqns))
    return dataclasses.replace(traced, closed=closed, backward=frozenset(late))


def _with(traced: Traced, pair: Pair, chosen: Sequence[Variant]) -> Pair:
    """The pair with these loops within its bodies. What they read and keep in the first are further results of it."""
    first, second = pair.first, pair.second
    by_forward = {each.pair.forward: each for each in chosen}
    by_backward = {each.pair.backward - len(first.jaxpr.eqns): each for each in chosen}
    places: dict[int, tuple[int, int, int]] = {}  # of what each loop reads, and keeps, among the further results

    def forward(*args: Any) -> list[Any]:
        more: list[Any] = []

        def each(at: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
            if at not in by_forward:
                return run(equation, reads)
            made, kept = _forward(equation, by_forward[at], reads)
            places[at] = len(more), len(more) + len(reads), len(more) + len(reads) + len(kept)
            more.extend([*reads, *kept])
            return made

        results = tracing.walk(first.jaxpr, first.consts, args, each)
        return [*(0 if value is None else value for value in results), *more]  # None: dropped by a loop within

    def backward(*args: Any) -> list[Any]:
        more = args[len(second.jaxpr.invars) :]

        def each(at: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
            if at not in by_backward:
                return run(equation, reads)
            start = by_backward[at].pair.forward
            begin, middle, end = places[start]
            given, kept = more[begin:middle], more[middle:end]
            return _backward(equation, first.jaxpr.eqns[start], by_backward[at], reads, given, kept)

        return tracing.walk(second.jaxpr, second.consts, args[: len(second.jaxpr.invars)], each)

    def traced_anew(run: Evaluate, values: Sequence[Any], body: Body) -> Body:
        flat = traced.within(lambda *_: jax.make_jaxpr(run)(*(value.aval for value in values)))
        return _body(flat, len(body.constants), len(body.carry))

    ours = traced_anew(forward, first.jaxpr.invars, first)
    further = ours.stacked[len(first.stacked) :]
    theirs = traced_anew(backward, [*second.jaxpr.invars, *further], second)
    slots = {len(first.stacked) + k: len(second.slices) + k for k in range(len(further))}
    flops = pair.flops + sum(each.flops for each in chosen)
    return Pair(pair.forward, pair.backward, ours, theirs, {**pair.dropped, **slots}, flops)


def _kept(body: Body, wanted: Sequence[Any], stops: Collection[Any]) -> list[Any]:
    """The fewest bytes from which the wanted values can be computed without computing `stops` again."""
    given = {*body.constants, *body.slices, *body.jaxpr.constvars}
    prices = {value: bytes_of(value.aval) for value in body.carry}
    made_from: dict[Any, list[Any]] = {}
    for each in body.jaxpr.eqns:
        reads = [value for value in each.invars if not is_literal(value) and value not in given]
        for value in each.outvars:
            prices[value] = bytes_of(value.aval)
            made_from[value] = reads
    asked = {value for value in wanted if not is_literal(value) and value in prices}
    return cheapest(prices, made_from, asked, {*body.carry, *stops})


def _again(body: Body, wanted: Sequence[Any], kept: Collection[Any]) -> list[Any]:
    """The equations that compute the wanted values from what is kept, in order."""
    maker = {value: at for at, each in enumerate(body.jaxpr.eqns) for value in each.outvars}
    again, waiting, stops = set[int](), list(wanted), set(kept)
    while waiting:
        value = waiting.pop()
        if not is_literal(value) and value not in stops and value in maker and maker[value] not in again:
            again.add(maker[value])
            waiting += body.jaxpr.eqns[maker[value]].invars
    return [body.jaxpr.eqns[at] for at in sorted(again)]


def replaced(traced: Traced, chosen: Sequence[Variant]) -> Traced:
    """The step with these loops in place of its own."""
    by_forward = {each.pair.forward: each for each in chosen}
    by_backward = {each.pair.backward: each for each in chosen}
    jaxpr = traced.closed.jaxpr

    def flat(*args: Any) -> list[Any]:
        more: dict[int, tuple[Sequence[Any], Sequence[Any]]] = {}

        def each(at: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
            if at in by_forward:
                made, kept = _forward(equation, by_forward[at], reads)
                more[at] = reads, kept
                return made
            if at in by_backward:
                start = by_backward[at].pair.forward
                return _backward(equation, jaxpr.eqns[start], by_backward[at], reads, *more[start])
            return run(equation, reads)

        return tracing.walk(jaxpr, traced.closed.consts, args, each)

    closed = traced.remade(flat)
    return dataclasses.replace(traced, closed=closed, backward=tracing.backward_of(closed))


def _forward(equation: Any, variant: Variant, reads: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
    """Results of the loop, none where they are dropped, and what it stacks instead."""
    first, params = variant.pair.first, equation.params
    constants, carry = params["num_consts"], params["num_carry"]
    rest = [k for k in range(len(first.stacked)) if k not in variant.pair.dropped]

    def body(state: Any, slices: Any) -> Any:
        values = _started(first, reads[:constants], state, slices)
        for each in first.jaxpr.eqns:
            _step(each, values)
        stacked = [_read(values, first.stacked[k]) for k in rest]
        return [_read(values, value) for value in first.carry_out], (stacked, [values[value] for value in variant.kept])

    with tracing.context(equation):
        state, (stacked, kept) = jax.lax.scan(
            body,
            list(reads[constants : constants + carry]),
            list(reads[constants + carry :]),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
    told = dict(zip(rest, stacked))
    return [*state, *(told.get(k) for k in range(len(first.stacked)))], kept


def _backward(
    equation: Any, start: Any, variant: Variant, reads: Sequence[Any], given: Sequence[Any], kept: Sequence[Any]
) -> list[Any]:
    """The loop of the backward pass, whose body computes again what is dropped. `given`: what the first loop read."""
    first, second, params = variant.pair.first, variant.pair.second, equation.params
    constants, carry = params["num_consts"], params["num_carry"]
    ours = given[: len(first.constants)]
    again = _again(first, [first.stacked[k] for k in variant.pair.dropped], variant.kept)
    dropped = {slot: first.stacked[k] for k, slot in variant.pair.dropped.items()}
    own = {k: value for k, value in enumerate(reads[constants + carry :]) if k not in dropped}

    def body(state: Any, slices: Any) -> Any:
        theirs, before, saved = slices
        values = _started(first, ours, [None] * len(first.carry), before)
        values.update(zip(variant.kept, saved))
        for each in again:
            _step(each, values, AGAIN)
        all_slices = [theirs[k] if k in theirs else _read(values, dropped[k]) for k in range(len(second.slices))]
        inner = _started(second, reads[:constants], state, all_slices)
        for each in second.jaxpr.eqns:
            _step(each, inner)
        return [_read(inner, value) for value in second.carry_out], [_read(inner, value) for value in second.stacked]

    slices = list(given[len(first.constants) + len(first.carry) :])
    with tracing.context(equation):
        state, stacked = jax.lax.scan(
            body,
            list(reads[constants : constants + carry]),
            (own, slices, list(kept)),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
    return [*state, *stacked]


def _started(body: Body, constants: Sequence[Any], state: Sequence[Any], slices: Sequence[Any]) -> dict[Any, Any]:
    values = dict(zip(body.jaxpr.constvars, body.consts))
    values.update(zip((*body.constants, *body.carry, *body.slices), (*constants, *state, *slices)))
    return values


def _read(values: dict[Any, Any], value: Any) -> Any:
    return value.val if is_literal(value) else values[value]


def _step(equation: Any, values: dict[Any, Any], scope: str = "") -> None:
    values.update(zip(equation.outvars, run(equation, [_read(values, value) for value in equation.invars], scope)))
