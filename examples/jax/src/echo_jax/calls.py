"""A call of a step as a function of arrays alone.

What else the step is given is fixed: static arguments of jax.jit, and leaves that are no arrays, such as the activation
functions of an equinox module. Python's numbers are arrays, as they are to jax.jit; where that did not make the step,
booleans are fixed, and so are all numbers that equinox fixes. What the step changes in place, such as a module and an
optimizer of flax.nnx, comes back as results and is written there after each run.

Numbers are fixed as well where a step does not trace otherwise, such as one that calls `range` of an argument.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import jax
from jax._src.config import trace_context

JITTED = type(jax.jit(lambda: None))
NUMBERS = (bool, int, float, complex)
Place = Callable[[Any], Any]  # of the sharding that an argument states, or None, makes the one that it gets


class Declined(Exception):
    """Echo cannot do what was asked; the message says why, in a sentence."""


@dataclass(frozen=True)
class Fixed:
    """A leaf that is no array."""

    value: Any


@dataclass(frozen=True)
class Call:
    """Arguments of a step as leaves: arrays, or their shapes, and what is fixed."""

    own: tuple[Sequence[Any], Mapping[str, Any]]  # arguments and keywords as they were given
    tree: Any  # of these; a static argument is one leaf
    leaves: list[Any]
    has_fixed_numbers: bool = False

    @property
    def arrays(self) -> list[Any]:
        return [leaf for leaf in self.leaves if not isinstance(leaf, Fixed)]

    def key(self) -> Any:
        """Equal for calls that are traced alike under the same settings of JAX. Errors: TypeError, where a fixed leaf
        cannot be hashed.
        """
        leaves = ((type(leaf.value), leaf) if isinstance(leaf, Fixed) else _type_of(leaf) for leaf in self.leaves)
        key = self.tree, tuple(leaves), trace_context()
        hash(key)
        return key

    def numbers_within(self, count: int) -> list[int]:
        """The numbers of the arrays, of those among the first `count` leaves, that are real or complex."""
        arrays = sum(not isinstance(leaf, Fixed) for leaf in self.leaves[:count])
        return [at for at, each in enumerate(self.arrays[:arrays]) if is_real(each)]

    def given(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keywords with these arrays in place of its own."""
        waiting = iter(arrays)
        leaves = [leaf.value if isinstance(leaf, Fixed) else next(waiting) for leaf in self.leaves]
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return tuple(each.value if isinstance(each, Fixed) else each for each in args), {
            name: each.value if isinstance(each, Fixed) else each for name, each in kwargs.items()
        }

    def shaped(self, place: Place = lambda sharding: sharding) -> Call:
        """The same for shapes and dtypes, on devices that `place` makes of what an argument states."""
        leaves = [leaf if isinstance(leaf, Fixed) else shaped(leaf, place) for leaf in self.leaves]
        return dataclasses.replace(self, leaves=leaves)


@dataclass
class Results:
    """How flat results of a traced call become those of the step."""

    tree: Any
    fixed: Mapping[int, Any]  # leaves that are no arrays
    changed: Sequence[int]  # arrays of the call that the step has changed in place; the last results

    def of(self, call: Call, flat: Sequence[Any]) -> Any:
        """Writes back what was changed in place."""
        count = len(flat) - len(self.changed)
        if self.changed:
            arrays = call.arrays
            for at, value in zip(self.changed, flat[count:]):
                arrays[at] = value
            _write_back(call.own, call.given(arrays))
        waiting = iter(flat[:count])
        leaves = [self.fixed[at] if at in self.fixed else next(waiting) for at in range(self.tree.num_leaves)]
        return jax.tree.unflatten(self.tree, leaves)


def of(
    step: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], has_fixed_numbers: bool = False
) -> Call:
    step = _origin(step)
    step, args = unbound(step), (*_bound_to(step), *args)
    info = getattr(step, "_jit_info", None)
    numbers = {number % len(args) for number in getattr(info, "static_argnums", ()) if number < len(args)}
    names = set(getattr(info, "static_argnames", ()))
    told = tuple(Fixed(each) if at in numbers else each for at, each in enumerate(args))
    named = {name: Fixed(each) if name in names else each for name, each in kwargs.items()}
    leaves, tree = jax.tree.flatten((told, named))
    fixed = set[int]() if info is not None else _fixed_numbers(step, (told, named), leaves)
    if has_fixed_numbers:
        fixed |= {at for at, leaf in enumerate(leaves) if type(leaf) in NUMBERS}
    is_given = [isinstance(leaf, Fixed) or (at not in fixed and is_array(leaf)) for at, leaf in enumerate(leaves)]
    leaves = [leaf if given else Fixed(leaf) for given, leaf in zip(is_given, leaves)]
    return Call((args, kwargs), tree, leaves, has_fixed_numbers)


def needs_fixed_numbers(step: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether it does not trace where Python's numbers are arrays, and does where they are fixed."""
    step = _origin(step)
    call = of(step, args, kwargs)
    if isinstance(unbound(step), JITTED) or not any(type(each) in NUMBERS for each in call.arrays):
        return False
    try:
        traced(step, call.shaped())
    except Declined:
        with contextlib.suppress(Declined):
            traced(step, of(step, args, kwargs, True).shaped())
            return True
    return False


def _origin(step: Callable[..., Any]) -> Callable[..., Any]:
    """Of a step that was rewritten, the one that it was."""
    return step.step if hasattr(step, "traced") else step  # type: ignore[attr-defined]


def unbound(step: Callable[..., Any]) -> Callable[..., Any]:
    """Of a bound method that is jitted, the function."""
    return step.__func__ if _bound_to(step) else step  # type: ignore[attr-defined]


def _bound_to(step: Callable[..., Any]) -> tuple[Any, ...]:
    return (step.__self__,) if isinstance(step, MethodType) and isinstance(step.__func__, JITTED) else ()


def _fixed_numbers(step: Callable[..., Any], given: Any, leaves: Sequence[Any]) -> set[int]:
    """Leaves that are Python's numbers and stay what they are: a boolean chooses what a step does, and equinox has all
    numbers of its modules, and of its own functions, so.
    """
    numbers = {at for at, leaf in enumerate(leaves) if type(leaf) in NUMBERS}
    fixed = {at for at in numbers if type(leaves[at]) is bool}
    equinox = sys.modules.get("equinox")
    if equinox is None or not numbers:
        return fixed
    if type(step).__module__.partition(".")[0] == "equinox":
        return numbers
    begin = 0
    for each in jax.tree.leaves(given, is_leaf=lambda each: isinstance(each, equinox.Module)):
        count = len(jax.tree.leaves(each))
        if isinstance(each, equinox.Module):
            fixed |= numbers & {*range(begin, begin + count)}
        begin += count
    return fixed


def unseen(call: Call) -> str:
    """The type of a fixed leaf whose content may change without its being another one; empty where there is none."""
    for leaf in call.leaves:
        value = leaf.value if isinstance(leaf, Fixed) else None
        is_equal_to_itself = getattr(type(value), "__hash__", None) is object.__hash__ and not callable(value)
        if is_equal_to_itself and getattr(value, "__dict__", None):
            return type(value).__name__
    return ""


def traced(step: Callable[..., Any], call: Call) -> tuple[Any, Results]:
    """What jax.jit(step).trace gives for this call, and what its results mean. Declined: it does not trace."""
    if hasattr(step, "traced"):  # a step of Echo, as it was rewritten
        told, found = step.traced(call)
        return told, found
    found = Results(None, {}, ())
    args, kwargs = call.given(call.arrays)
    try:
        if isinstance(unbound(step), JITTED):
            made: Any = unbound(step)
            told = made.trace(*args, **kwargs)
            found.tree = told.out_tree
        else:
            pure = flat(step, call, found)
            told = jax.jit(pure).trace(*call.arrays)
            if donated := _donated(told.jaxpr.jaxpr):
                told = jax.jit(pure, donate_argnums=donated).trace(*call.arrays)
    except Declined:
        raise
    except Exception as fault:
        told = first_line(fault)
        if "`compiler_options` can only be passed to top-level" in told:
            told = (
                "it calls a function that jax.jit made with compiler_options: give these to jax.jit of the whole step"
            )
        raise Declined(f"the step cannot be traced: {told}") from fault
    return told, found


def flat(step: Callable[..., Any], call: Call, found: Results) -> Callable[..., Any]:
    """The step as a function of arrays, which fills `found` when it is traced."""
    run = unbound(step)
    if getattr(getattr(run, "_jit_info", None), "compiler_options_kvs", ()) and isinstance(run, JITTED):
        run = run.__wrapped__  # options are for the outermost function alone

    def pure(*arrays: Any) -> list[Any]:
        args, kwargs = call.given(arrays)
        leaves, found.tree = jax.tree.flatten(run(*args, **kwargs))
        found.fixed = {at: leaf for at, leaf in enumerate(leaves) if type(leaf) in NUMBERS or not is_array(leaf)}
        after = of(step, args, kwargs, call.has_fixed_numbers)
        changed = [at for at, (a, b) in enumerate(zip(arrays, after.arrays)) if a is not b]
        is_alike = after.tree == call.tree and len(after.arrays) == len(arrays)
        if not is_alike or {*changed} - {*_writable(call, args, kwargs)}:
            raise Declined("the step changes its arguments in place: let it return what is new")
        if any(len(_places(call.arrays, call.arrays[at])) > 1 for at in changed):
            raise Declined("the step changes in place what two of its arguments share: give it once")
        found.changed = changed
        results = [leaf for at, leaf in enumerate(leaves) if at not in found.fixed]
        return results + [after.arrays[at] for at in changed]

    pure.__name__ = name_of(step)
    return pure


def _donated(jaxpr: Any) -> tuple[int, ...]:
    """Arguments that a jitted function within donates, such as that of flax.nnx.jit, and that nothing else reads."""
    reads = [value for equation in jaxpr.eqns for value in equation.invars] + list(jaxpr.outvars)
    given = {
        value
        for equation in jaxpr.eqns
        for value, is_donated in zip(equation.invars, equation.params.get("donated_invars", ()))
        if is_donated
    }
    return tuple(at for at, value in enumerate(jaxpr.invars) if value in given and reads.count(value) == 1)


def name_of(step: Callable[..., Any]) -> str:
    return str(getattr(step, "__name__", "step"))


def is_array(leaf: Any) -> bool:
    """Whether it is one, or a number, a tracer, or shape and dtype of an array."""
    try:
        jax.typeof(leaf)
    except (TypeError, OverflowError):
        return False
    return True


def is_real(value: Any) -> bool:
    return bool(jax.dtypes.issubdtype(jax.typeof(value).dtype, jax.numpy.inexact))


def _type_of(leaf: Any) -> Any:
    aval, shape = jax.typeof(leaf), shaped(leaf)
    return aval.shape, aval.dtype, bool(getattr(aval, "weak_type", False)), getattr(shape, "sharding", None)


def _places(arrays: Sequence[Any], value: Any) -> list[int]:
    return [at for at, each in enumerate(arrays) if each is value and isinstance(each, jax.Array)]


# ---- What is changed in place: objects of flax.nnx, where that is in use


def _is_object(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, nnx.Pytree)


def _writable(call: Call, args: Any, kwargs: Any) -> Iterator[int]:
    """Arrays within objects that can be changed from outside."""
    leaf = begin = 0
    for each in jax.tree.leaves((args, kwargs), is_leaf=_is_object):
        after = leaf + len(jax.tree.leaves(each))
        count = sum(not isinstance(given, Fixed) for given in call.leaves[leaf:after])
        if _is_object(each):
            yield from range(begin, begin + count)
        leaf, begin = after, begin + count


def _write_back(own: Any, changed: Any) -> None:
    nnx = sys.modules["flax.nnx"]
    for mine, other in zip(jax.tree.leaves(own, is_leaf=_is_object), jax.tree.leaves(changed, is_leaf=_is_object)):
        if _is_object(mine):
            nnx.update(mine, nnx.state(other))


# ---- Shapes and faults


def first_line(fault: Exception) -> str:
    text = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {text[0][:200]}" if text else type(fault).__name__


def shaped(leaf: Any, place: Place = lambda sharding: sharding) -> Any:
    """Shape and dtype of an argument, on devices that `place` makes of those that it states. What is no array, such as
    a Python number, stays as it is.
    """
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        return leaf
    weak = bool(getattr(leaf, "weak_type", False))
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place(stated(leaf)), weak_type=weak)


def stated(leaf: Any) -> Any:
    """The sharding that an argument states; None where it may lie anywhere."""
    if isinstance(leaf, jax.core.Tracer):
        return None
    is_stated = isinstance(leaf, jax.ShapeDtypeStruct) or getattr(leaf, "committed", False)
    return getattr(leaf, "sharding", None) if is_stated else None
