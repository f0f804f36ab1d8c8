"""A step as a flat list of equations of JAX's primitives, and its evaluation."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.extend as jex
import numpy as np
from jax._src import source_info_util

from echo_jax import calls
from echo_jax.calls import Call, Declined, Results

INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
INLINED |= {"custom_vjp_call": "call_jaxpr"}
REGIONS = ("remat2", "checkpoint")  # of jax.checkpoint; of the backward pass they compute again what they need
HIDDEN = "rng_uniform"  # gives other numbers where it runs again
CALLBACK = "pure_callback"  # as expensive as the user's function, which no count tells
APART = "optimization_barrier"  # keeps equal equations apart
SCOPE = re.compile(r"echo_(\d+)_")
Evaluate = Callable[..., Sequence[Any]]


class _Done(Exception):
    """Ends a trace that is not needed further."""


@dataclass(frozen=True)
class Traced:
    """A traced step. `closed` has equations of primitives only; a loop or a checkpointed region is one equation."""

    name: str
    closed: Any  # ClosedJaxpr
    donated: tuple[int, ...]  # positions of flat arguments
    shardings: tuple[tuple[Any, ...], ...]  # of flat arguments and results that jax.jit got; none where it got none
    options: Mapping[str, Any]  # for the compiler
    backward: frozenset[int]  # equations of the backward pass, and those that need one of them
    # A body of an equation, planned as a step: the step that has the equation, how the whole is made of a body, and how
    # often that runs as far as is known.
    around: Traced | None = None
    enclose: Callable[[Evaluate], Evaluate] = lambda run: run
    times: int = 1
    # The same step with its loss under a policy of jax.checkpoint, by the policy's name; None where no loss is known.
    under: Callable[[str], Traced] | None = None

    @property
    def equations(self) -> list[Any]:
        return list(self.closed.jaxpr.eqns)

    def jitted(self, run: Evaluate, is_placed: bool = False, **options: Any) -> Any:
        """A function of flat arguments, with donation and shardings as the step has them. `is_placed`: the arguments
        say where they are.
        """
        keys = [] if is_placed else [(key, told) for key, told in zip(SHARDINGS, self.shardings) if any(told)]
        shardings = {key: told if key == "in_shardings" else list(told) for key, told in keys}
        return jax.jit(self.enclose(run), donate_argnums=self.donated, **shardings, **options)

    def remade(self, run: Evaluate) -> Any:
        """The ClosedJaxpr of a function of what `closed` takes."""
        return self.within(lambda *avals: jax.make_jaxpr(run)(*avals))

    def within(self, action: Callable[..., Any]) -> Any:
        """Runs `action` where `closed` is traced, within loops and meshes around it, for the types of its arguments."""
        if self.around is None:
            return action(*self.closed.in_avals)
        found = list[Any]()

        def told(*args: Any) -> Any:
            found.append(action(*map(jax.typeof, args)))
            raise _Done

        outermost = self.around
        while outermost.around is not None:
            outermost = outermost.around
        with contextlib.suppress(_Done):
            jax.make_jaxpr(self.enclose(told))(*outermost.closed.in_avals)
        return found[-1]


def trace(step: Callable[..., Any], call: Call) -> tuple[Traced, Results]:
    """The step as equations, and what its results mean. Declined: it does not trace, or has effects."""
    traced, results = calls.traced(step, call)
    infos = jax.tree.leaves(traced.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))
    if traced.jaxpr.effects:
        names = ", ".join(sorted({type(each).__name__ for each in traced.jaxpr.effects}))
        raise Declined(f"the step has effects ({names}), as of a callback, a mutable array or an axis with a name")
    flat, params = _flat(traced.jaxpr), traced._params
    if any(equation.primitive.name == CALLBACK for equation in all_of(flat.jaxpr)):
        raise Declined(f"the step calls back into Python (jax.{CALLBACK})")
    if any(equation.primitive.name == HIDDEN for equation in all_of(flat.jaxpr)):
        raise Declined(f"the step draws random numbers from a hidden state (jax.lax.{HIDDEN}): use jax.random")
    return Traced(
        traced.fun_name,
        flat,
        tuple(at for at, info in enumerate(infos) if info.donated),
        tuple(tuple(map(_stated, params.get(key, ()))) for key in SHARDINGS),
        dict(params.get("compiler_options_kvs", ())),
        backward_of(flat),
    ), results


SHARDINGS = ("in_shardings", "out_shardings")


def _stated(sharding: Any) -> Any:
    return None if "Unspecified" in type(sharding).__name__ else sharding


def _flat(closed: Any) -> Any:
    """The same with nested calls inlined and equal equations as one, the forward pass before all that needs the
    backward pass.
    """
    once: Evaluate = lambda *args: evaluate(closed.jaxpr, closed.consts, args, {})  # noqa: E731
    return in_order(jax.make_jaxpr(once)(*closed.in_avals))


def in_order(flat: Any) -> Any:
    """The forward pass, then the backward pass. What leads to results alone, as gradients of weights and an optimizer's
    updates, stands where it can run first: a compiler runs it there, and what it reads is free.
    """
    equations, late = flat.eqns, _behind(flat)
    ends = _ending(flat, late)
    ready: dict[int, int] = {}  # by equation
    maker = {value: at for at in late for value in equations[at].outvars}
    for at in sorted(late):
        before = [ready[maker[value]] for value in equations[at].invars if not is_literal(value) and value in maker]
        ready[at] = max(before, default=at) if at in ends else at
    order = [at for at in range(len(equations)) if at not in late]
    order += sorted(late, key=lambda at: (ready[at], at))
    return flat.replace(jaxpr=flat.jaxpr.replace(eqns=[equations[at] for at in order]))


def _ending(flat: Any, late: Collection[int]) -> set[int]:
    """Equations of the backward pass behind which no expensive operator follows."""
    ends: set[int] = set()
    behind: set[Any] = set()  # values that an expensive operator, or what leads to one, reads
    for at in sorted(late, reverse=True):
        equation = flat.eqns[at]
        is_end = not any(value in behind for value in equation.outvars)
        if is_end:
            ends.add(at)
        if not is_end or is_heavy(equation):
            behind.update(value for value in equation.invars if not is_literal(value))
    return ends


def backward_of(closed: Any) -> frozenset[int]:
    """The backward pass, and what needs it; but not the forward pass of further gradients, as of a loss at weights that
    a first gradient has changed.
    """
    return frozenset(_behind(closed.jaxpr, lambda names: "jvp(" in names and "rematted_computation" not in names))


def _behind(jaxpr: Any, starts_anew: Callable[[str], bool] = lambda _: False) -> set[int]:
    late: set[int] = set()
    values: set[Any] = set()
    for at, equation in enumerate(jaxpr.eqns):
        names = str(equation.source_info.name_stack)
        needs = any(not is_literal(value) and value in values for value in equation.invars)
        if "transpose(" in names or (needs and not starts_anew(names)):
            late.add(at)
            values.update(equation.outvars)
    return late


def is_inside(traced: Traced) -> bool:
    """Whether the body of an equation has a backward pass."""
    return any(has_backward(body) for equation in traced.equations for body in _bodies(equation))


def has_backward(body: Any) -> bool:
    """Whether a jaxpr has a backward pass, or a body in it."""
    return any("transpose(" in str(equation.source_info.name_stack) for equation in all_of(body))


def all_of(jaxpr: Any) -> Iterator[Any]:
    """Its equations, and those of bodies within."""
    waiting = [jaxpr]
    while waiting:
        for equation in waiting.pop().eqns:
            yield equation
            waiting += _bodies(equation)


def is_literal(value: Any) -> bool:
    return isinstance(value, jex.core.Literal)


Known = dict[Any, tuple[Sequence[Any], Sequence[Any]]]  # reads and results of equations that were traced


def walk(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], each: Callable[..., Sequence[Any]]) -> list[Any]:
    """The results of a jaxpr whose equations `each(number, equation, reads)` runs or traces."""
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))
    for at, equation in enumerate(jaxpr.eqns):
        reads = [value.val if is_literal(value) else values[value] for value in equation.invars]
        values.update(zip(equation.outvars, each(at, equation, reads)))
    return [value.val if is_literal(value) else values[value] for value in jaxpr.outvars]


def evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], known: Known | None = None) -> list[Any]:
    """Runs or traces the equations, calls inlined. With `known`, an equation equal to one in it is not traced again: a
    compiler makes one of both.
    """
    return walk(jaxpr, consts, args, lambda _, equation, reads: run(equation, reads, known=known))


def run(equation: Any, reads: Sequence[Any], scope: str = "", known: Known | None = None) -> Sequence[Any]:
    """One equation, in the context and under the names that it was traced in, and under `scope`."""
    inner = _inlined(equation)
    key = None if known is None or inner is not None else _key(equation, reads)
    if known is not None and key in known:
        return known[key][1]
    with context(equation, scope):
        if inner is not None:
            before, after = (equation.params.get(key, ()) for key in SHARDINGS)
            return _constrained(evaluate(inner.jaxpr, inner.consts, _constrained(reads, before), known), after)
        told = equation.primitive.get_bind_params(equation.params)
        functions, params = ((), told) if isinstance(told, dict) else told  # a pair before JAX 0.10
        made = equation.primitive.bind(*functions, *reads, **params)
    results = made if equation.primitive.multiple_results else [made]
    if known is not None and key is not None:
        known[key] = reads, results
    return results


def _key(equation: Any, reads: Sequence[Any]) -> Any:
    """Equal for equations that compute the same; None for one that stands for itself."""
    if equation.primitive.name == APART:
        return None
    told = [
        (value.aval, np.asarray(read).tobytes() if is_literal(value) else id(read))
        for value, read in zip(equation.invars, reads)
    ]
    key = equation.primitive, equation.ctx, *sorted(equation.params.items()), *told
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _inlined(equation: Any) -> Any:
    """The body of a call that can be inlined."""
    key = INLINED.get(equation.primitive.name)
    inner = equation.params.get(key) if key else None
    return inner if inner is None or hasattr(inner, "consts") else jex.core.ClosedJaxpr(inner, ())


def _constrained(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """The values, sharded as an inlined call asks for."""
    told = [_stated(each) for each in shardings] or [None] * len(values)
    return [value if at is None else jax.lax.with_sharding_constraint(value, at) for value, at in zip(values, told)]


@contextmanager
def context(equation: Any, scope: str = "") -> Iterator[None]:
    stack = source_info_util.current_name_stack() + equation.source_info.name_stack
    if scope:
        stack = stack.extend(scope)
    traceback = equation.source_info.traceback
    with source_info_util.user_context(traceback, name_stack=stack), equation.ctx.manager:
        yield


@contextmanager
def named(equation: Any) -> Iterator[None]:
    """The names of an equation for those of its body, which have none of their own."""
    stack = source_info_util.current_name_stack() + equation.source_info.name_stack
    with source_info_util.user_context(None, name_stack=stack):
        yield


def plain(traced: Traced) -> Evaluate:
    """The step as a function of flat arguments."""
    return lambda *args: evaluate(traced.closed.jaxpr, traced.closed.consts, args)


def scoped(traced: Traced) -> Evaluate:
    """The step as a function of flat arguments in which each equation stands in a scope with its number."""

    closed = traced.closed

    def each(at: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
        return run(equation, reads, f"echo_{at}_")

    return lambda *args: walk(closed.jaxpr, closed.consts, args, each)


def opened(traced: Traced) -> Traced | None:
    """The step without regions of jax.checkpoint, which then keeps all that they compute again; None where it has none
    in its backward pass.
    """
    if not any(traced.equations[at].primitive.name in REGIONS for at in traced.backward):
        return None
    closed = traced.closed

    def flat(*args: Any) -> list[Any]:
        known = Known()

        def each(_: int, equation: Any, reads: Sequence[Any]) -> Sequence[Any]:
            if equation.primitive.name not in REGIONS:
                return run(equation, reads, known=known)
            with context(equation):
                return walk(equation.params["jaxpr"], (), reads, each)

        return walk(closed.jaxpr, closed.consts, args, each)

    made = in_order(traced.remade(flat))
    return replace(traced, closed=made, backward=backward_of(made))


# ---- What equations cost

HEAVY = frozenset(
    "dot_general conv_general_dilated scan while cond jit pjit checkpoint remat2 sort custom_call ragged_dot fft"
    " cholesky triangular_solve shard_map pallas_call".split()
)


MOVES = frozenset(  # data alone, as the compiler's count has it
    "broadcast_in_dim reshape squeeze expand_dims transpose convert_element_type copy iota slice dynamic_slice rev pad"
    " concatenate gather name stop_gradient dynamic_update_slice bitcast_convert_type reduce_precision".split()
)
COMBINE = ("scatter", "reduce", "select_and_scatter")  # how these names begin
RANDOM = ("random_bits", "threefry2x32")
RANDOM_OPERATIONS = 60.0  # for one number, by the generator that JAX takes by default


def is_heavy(equation: Any) -> bool:
    return equation.primitive.name in (*HEAVY, *RANDOM) or any(_bodies(equation))


def operations(equation: Any) -> float:
    """Floating-point operations of one run of an equation, bodies of loops as often as is known."""
    name, params = equation.primitive.name, equation.params
    if name in MOVES:
        return 0.0
    counted = equation.invars if name.startswith("reduce") else equation.outvars
    if name.startswith("scatter"):
        counted = equation.invars[2:]  # the updates
    elements = sum(_size(value.aval) for value in counted)
    if name == "dot_general":
        (left, _), _ = params["dimension_numbers"]
        return 2.0 * elements * _product(equation.invars[0].aval.shape[axis] for axis in left)
    if name == "conv_general_dilated":
        kernel, spec = equation.invars[1].aval.shape, params["dimension_numbers"].rhs_spec
        holes = _product(params["lhs_dilation"])
        return 2.0 * elements * _product(kernel) / kernel[spec[0]] / holes
    if name in RANDOM:
        return RANDOM_OPERATIONS * elements
    inner = [sum(operations(each) for each in body.eqns) for body in _bodies(equation)]
    if inner:
        return float(params.get("length", 1)) * (max(inner) if name == "cond" else sum(inner))
    return float(elements)


def _bodies(equation: Any) -> Iterator[Any]:
    """What it runs; not how a scatter or a reduction joins two numbers."""
    if equation.primitive.name.startswith(COMBINE):
        return
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if hasattr(each, "eqns"):
                yield each if not hasattr(each, "jaxpr") else each.jaxpr


def _size(aval: Any) -> int:
    return _product(getattr(aval, "shape", ()))


def _product(extents: Any) -> int:
    result = 1
    for extent in extents:
        result *= int(extent)
    return result


def bytes_of(aval: Any) -> int:
    """Bytes of a value; a key of random numbers takes those of its words."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None:
        return 0
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return 4 * _product(aval.shape) * _product(dtype._impl.key_shape)
    return _size(aval) * dtype.itemsize
