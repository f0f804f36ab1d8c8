"""Runs the steps of a plan: a step of JAX in which some kernels run again, and others late."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax

from echo_jax.kernels import Kernel, Kernels
from echo_jax.tracing import Evaluate, bytes_of, is_heavy, is_literal, run

Copy = tuple[int, Any]  # a value with a number of its own
AGAIN = "echo_again"


def rewritten(kernels: Kernels, steps: Sequence[Any], platform: str, waits_for_all: bool = False) -> Evaluate:
    """The step as a function of flat arguments that runs as `steps` say: (node, again, copies that it reads).

    What runs again waits for the gradients that its reader reads with it and for what the backward pass made last; or
    for all that the plan runs before it, such as gradients of weights that keep activations alive, which leaves the
    compiler less choice.
    """

    def flat(*args: Any) -> list[Any]:
        return _Run(kernels, args, platform == "cpu", waits_for_all).all(steps)

    return flat


class _Run:
    def __init__(self, kernels: Kernels, args: Sequence[Any], loses_barriers: bool, waits_for_all: bool) -> None:
        self.loses_barriers, self.waits_for_all = loses_barriers, waits_for_all
        self.kernels = kernels
        self.arguments = [*kernels.traced.closed.consts, *args]
        self.made: list[list[Copy]] = []  # by step
        self.latest: dict[int, int] = {}  # the step that last ran each node
        self.known: dict[tuple[int, ...], list[Copy]] = {}  # by equation and the copies that it reads
        self.numbers = itertools.count()
        self.ties: list[Any] = []  # what the backward pass has made since a kernel was last held back
        self.held: dict[int, Copy] = {}  # behind a barrier since the backward pass last made something, by number
        self.from_forward: set[int] = set()  # steps of the forward pass, and arguments

    def all(self, steps: Sequence[Any]) -> list[Any]:
        behind, waits = -1, self._waits(steps)  # the last node of a backward pass that has run
        for at, (number, again, reads) in enumerate(steps):
            node = self.kernels.nodes[number]
            self.latest[number] = at
            if node.root < 0:
                self.from_forward.add(at)
                self.made.append([self._copy(self.arguments[number])])
                continue
            copies = [self.made[step][output] for step, output in reads]
            if node.is_late:
                behind = max(behind, number)
            elif number > behind:
                self.from_forward.add(at)
            elif not self._is_tied(node, reads):
                copies = self._held_back(copies, reads, waits.get(at, ()))
            self.made.append(self._kernel(node, copies, AGAIN if again else ""))
            if node.is_late:
                self.ties.append(self.made[-1][0][1])
                self.held.clear()
        return [value.val if is_literal(value) else self._result(value) for value in self._outputs()]

    def _waits(self, steps: Sequence[Any]) -> dict[int, Sequence[Any]]:
        """What each step waits for that runs again, or late: gradients that its first reader in the backward pass reads
        as well, as far as the backward pass has made them before that step.
        """
        nodes, first, found = self.kernels.nodes, dict[int, int](), dict[int, Sequence[Any]]()
        for at in range(len(steps) - 1, -1, -1):
            number, _, reads = steps[at]
            if nodes[number].is_late:
                reader = at
            elif at in first:
                reader = first[at]
                found[at] = [each for each in steps[reader][2] if each[0] < at and nodes[steps[each[0]][0]].is_late]
            else:
                continue
            for step, _ in reads:
                first[step] = min(reader, first.get(step, reader))
        return found

    def _copy(self, value: Any) -> Copy:
        return next(self.numbers), value

    def _outputs(self) -> Sequence[Any]:
        outputs: Sequence[Any] = self.kernels.traced.closed.jaxpr.outvars
        return outputs

    def _result(self, value: Any) -> Any:
        node, output = self.kernels.place[value]
        if self.kernels.nodes[node].root < 0:  # an argument that is a result need not be read before
            return self.arguments[node]
        return self.made[self.latest[node]][output][1]

    def _is_tied(self, node: Kernel, reads: Sequence[Any]) -> bool:
        """Whether it reads what runs again, and no expensive operator within depends on the forward pass alone."""
        equations = self.kernels.traced.equations
        behind = {value for (value, _), (step, _) in zip(node.inputs, reads) if step not in self.from_forward}
        if not behind:
            return False
        for member in node.members:
            if any(not is_literal(value) and value in behind for value in equations[member].invars):
                behind.update(equations[member].outvars)
            elif is_heavy(equations[member]):
                return False
        return True

    def _held_back(self, copies: list[Copy], reads: Sequence[Any], waits: Sequence[Any]) -> list[Copy]:
        """The same values, behind a barrier where the forward pass made them: so the compiler neither runs the kernel
        before the backward pass has come here, nor takes the result of its first run. Kernels that run again in a row
        share what is behind one, and may be fused.
        """
        held = [k for k, (step, _) in enumerate(reads) if step in self.from_forward and copies[k][0] not in self.held]
        numbers = [number for number, _ in copies]
        copies = [self.held.get(number, (number, value)) for number, value in copies]
        if not held:
            return copies
        ties = self.ties
        if not self.waits_for_all:
            told = [*(self.made[step][output][1] for step, output in waits), *self.ties[-1:]]
            ties = list({id(value): value for value in told}.values())
        self.ties = self.ties[-1:]
        for axes in dict.fromkeys(_varying(copies[k][1]) for k in held):  # a barrier makes all that is behind it vary
            group = [k for k in held if _varying(copies[k][1]) == axes]
            bound = [tie for tie in ties if _varying(tie) <= axes]
            for k, value in zip(group, jax.lax.optimization_barrier((*(copies[k][1] for k in group), *bound))):
                copies[k] = self._copy(value)
        if self.loses_barriers:
            among = [k for k in held if all(_varying(tie) <= _varying(copies[k][1]) for tie in ties)]
            least = min(among or held, key=lambda k: bytes_of(copies[k][1].aval) or math.inf)
            copies[least] = self._copy(guarded(copies[least][1], ties if ties and among else [copies[least][1]]))
        else:
            self.held.update((numbers[k], copies[k]) for k in held)
        return copies

    def _kernel(self, node: Kernel, copies: list[Copy], scope: str) -> list[Copy]:
        """Runs what lies within; an equation that ran with the very same copies is not traced again."""
        equations = self.kernels.traced.equations
        values = {value: copy for (value, _), copy in zip(node.inputs, copies)}
        for member in node.members:
            equation = equations[member]
            reads = [(-1, value.val) if is_literal(value) else values[value] for value in equation.invars]
            key = (member, *(number for number, _ in reads))
            if key not in self.known:
                made = run(equation, [value for _, value in reads], scope)
                self.known[key] = [self._copy(value) for value in made]
            values.update(zip(equation.outvars, self.known[key]))
        return [values[value] for value in equations[node.root].outvars]


def _varying(value: Any) -> frozenset[str]:
    """The axes of a mesh along which a value may differ, within shard_map: what is computed from it differs as well."""
    aval = jax.typeof(value)
    found = getattr(aval, "vma", None)
    return frozenset(getattr(getattr(aval, "mat", None), "varying", ()) if found is None else found)


def guarded(value: Any, ties: Sequence[Any]) -> Any:
    """The same value, bit by bit, by a choice that depends on all `ties` and that the compiler cannot foresee. XLA for
    CPUs removes barriers before it looks for equal instructions, and a copy of a kernel behind a barrier alone is gone.
    """
    usable = [each for each in ties if each.size and not jax.dtypes.issubdtype(each.dtype, jax.dtypes.extended)]
    if not usable or not value.size or jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    bits = functools.reduce(jax.lax.bitwise_or, map(_first_bits, usable))
    is_so = (bits & 1) >> 1 == 0
    return jax.lax.select_n(is_so, jax.numpy.zeros_like(value), value)


def _first_bits(value: Any) -> Any:
    is_split = any(axis is not None for axis in getattr(jax.typeof(value).sharding, "spec", ()))
    first = value.max() if is_split else jax.lax.slice(value.reshape(-1), (0,), (1,)).reshape(())
    if jax.numpy.issubdtype(first.dtype, jax.numpy.complexfloating):
        first = first.real
    if jax.numpy.issubdtype(first.dtype, jax.numpy.floating):
        first = jax.lax.bitcast_convert_type(first, f"uint{8 * first.dtype.itemsize}")
    return first.astype("uint32")
