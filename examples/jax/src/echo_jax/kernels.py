"""The equations of a step as the compiler groups them into kernels, as a graph for the planner.

A value that stays inside a kernel takes no bytes. So a node of the graph is an equation whose result the compiler
writes to memory, with all equations between it and the next such values before it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from echo_jax.assignment import Value
from echo_jax.compiling import Compiled
from echo_jax.flops import extents
from echo_jax.hlo import Program, path_of
from echo_jax.tracing import SCOPE, Traced, bytes_of, is_heavy, is_literal, operations

VIEWS = ("reshape", "squeeze", "expand_dims", "name", "copy", "bitcast_convert_type", "stop_gradient")
ELEMENTWISE = frozenset(
    "add sub mul div max min neg exp log tanh logistic rsqrt sqrt sin cos erf pow integer_pow select_n"
    " convert_element_type add_any abs sign exp2 log1p expm1 square and or xor not gt lt ge le eq ne clamp cbrt"
    " is_finite".split()
)
FLOPS_PER_BYTE = 0.5  # what moving one byte counts as, beside operations: these are what a plan is judged by
Place = tuple[int, int]


@dataclass
class Kernel:
    """A node: the equation `root`, and those before it that run with it, in order."""

    root: int  # -1 for an argument
    value: Any = None  # of an argument
    members: list[int] = field(default_factory=list)  # root last
    inputs: list[tuple[Any, Place]] = field(default_factory=list)  # values read from memory, and where they are made
    is_late: bool = False
    bytes: int = 0  # of its largest result, as the compiler stores it; 0 where that is not known
    of_step: frozenset[int] = frozenset()  # its results that are the step's: they lie in no temporary memory

    def sizes(self, equation: Any) -> list[int]:
        """Bytes of each result in temporary memory."""
        sizes = [0 if _is_dropped(value) else bytes_of(value.aval) for value in equation.outvars]
        if self.bytes and max(sizes):
            sizes[sizes.index(max(sizes))] = self.bytes
        return [0 if k in self.of_step else size for k, size in enumerate(sizes)]


@dataclass
class Kernels:
    """The nodes in an order in which they can run, and where each value is made."""

    traced: Traced
    nodes: list[Kernel]
    place: dict[Any, Place]
    stored: dict[int, int]  # bytes by equation, which make the nodes

    def again(self, steps: Iterable[Any]) -> int:
        """How many kernels run more than once in these steps of a plan."""
        return len({node for node, is_again, _ in steps if is_again and self.nodes[node].root >= 0})

    def core(self) -> Any:
        """The graph as the planner takes it."""
        from echo_jax import _core  # type: ignore[attr-defined, unused-ignore]

        graph = _core.Graph()
        for at, node in enumerate(self.nodes):
            graph.add(**(self._argument(node) if node.root < 0 else self._told(at, node)))
        results = [value for value in self.traced.closed.jaxpr.outvars if not is_literal(value)]
        for place in dict.fromkeys(self.place[value] for value in results):
            if self.nodes[place[0]].root >= 0:
                graph.result(*place)
        return graph

    def _argument(self, node: Kernel) -> dict[str, Any]:
        outputs = [(bytes_of(node.value.aval), None, None)]
        return _node(name="argument", op="argument", phase="input", kind="light", outputs=outputs)

    def _told(self, at: int, node: Kernel) -> dict[str, Any]:
        equations = self.traced.equations
        root = equations[node.root]
        flops = sum(operations(equations[member]) for member in node.members)
        outputs = node.sizes(root)
        read = sum(bytes_of(value.aval) for value, _ in node.inputs)
        is_heavy_node = any(is_heavy(equations[member]) for member in node.members)
        inplace = None if is_heavy_node else self._taken_over(node, bytes_of(root.outvars[0].aval))
        path = list(path_of(str(root.source_info.name_stack)))
        return _node(
            name=f"{root.primitive.name}.{at}",
            op=root.primitive.name,
            layer="/".join(path),
            phase="backward" if node.is_late else "forward",
            kind="heavy" if is_heavy_node else "light",
            inputs=[place for _, place in node.inputs],
            outputs=[(size, None, inplace if k == 0 else None) for k, size in enumerate(outputs)],
            flops=flops,
            time_us=(flops + FLOPS_PER_BYTE * (read + sum(outputs))) / 1e6,
        )

    def _taken_over(self, node: Kernel, size: int) -> int | None:
        """The input that an elementwise kernel may be written over."""
        equations = self.traced.equations
        if all(equations[member].primitive.name in ELEMENTWISE | set(VIEWS) for member in node.members):
            for k, (value, place) in enumerate(node.inputs):
                if bytes_of(value.aval) == size and self.nodes[place[0]].root >= 0:
                    return k
        return None


def _node(**told: Any) -> dict[str, Any]:
    common = dict(layer="", rerun="pure", inputs=[], control=[], flops=0.0, workspace=0, time_us=0.0, keep=False)
    return {**common, "writes": [], "over": None, **told}


def _is_dropped(value: Any) -> bool:
    return type(value).__name__ == "DropVar"


def read(traced: Traced, compiled: Compiled) -> Kernels:
    """`compiled`: the step whose equations stand in scopes with their numbers."""
    return grouped(traced, _stored(traced, compiled))


def grouped(traced: Traced, stored: dict[int, int]) -> Kernels:
    """`stored`: the equations whose results lie in memory, and their bytes."""
    jaxpr, nodes, place = traced.closed.jaxpr, list[Kernel](), dict[Any, Place]()
    for value in (*jaxpr.constvars, *jaxpr.invars):
        place[value] = (len(nodes), 0)
        nodes.append(Kernel(-1, value))
    maker = {value: at for at, equation in enumerate(jaxpr.eqns) for value in equation.outvars}
    results = {value for value in jaxpr.outvars if not is_literal(value)}
    for at, equation in enumerate(jaxpr.eqns):
        if at in stored:
            nodes.append(_kernel(jaxpr.eqns, at, maker, place, traced.backward))
            nodes[-1].bytes = stored[at]
            nodes[-1].of_step = frozenset(k for k, value in enumerate(equation.outvars) if value in results)
            place.update((value, (len(nodes) - 1, k)) for k, value in enumerate(equation.outvars))
    return Kernels(traced, nodes, place, stored)


def _kernel(equations: Sequence[Any], at: int, maker: Any, place: Any, backward: Iterable[int]) -> Kernel:
    node, members, inputs = Kernel(at, is_late=at in backward), {at}, dict[Any, Place]()
    waiting = [at]
    while waiting:
        for value in equations[waiting.pop()].invars:
            if is_literal(value):
                continue
            if value in place:
                inputs[value] = place[value]
            elif maker[value] not in members:
                members.add(maker[value])
                waiting.append(maker[value])
    node.members = sorted(members)
    node.inputs = sorted(inputs.items(), key=lambda item: item[1])
    return node


def _stored(traced: Traced, compiled: Compiled) -> dict[int, int]:
    """Equations whose results lie in memory, and the bytes of the largest one there, with padding and on one device:
    those that the compiler gives a buffer, and those that must; 0 where it is not known.
    """
    equations, jaxpr = traced.equations, traced.closed.jaxpr
    maker = {value: at for at, equation in enumerate(equations) for value in equation.outvars}
    stored: dict[int, int] = {}
    assert compiled.program is not None and compiled.memory is not None
    for allocation in compiled.memory.allocations:
        if allocation.kind not in ("temp", "output"):
            continue
        for value in allocation.values:
            for at in _named(compiled.program, value):
                if any(_may_be(value.shape, made.aval, compiled.program.partitions) for made in equations[at].outvars):
                    below = _below_views(equations, maker, at)
                    stored[below] = max(value.bytes, stored.get(below, 0))
                    break
    for value in jaxpr.outvars:
        if not is_literal(value) and value in maker:
            stored.setdefault(maker[value], 0)
    return dict(sorted((dict.fromkeys(_needed(equations, maker, stored), 0) | stored).items()))


KINDS = {"f": "float", "b": "float", "s": "int", "u": "int", "p": "bool", "c": "complex"}


def _may_be(shape: str, aval: Any, partitions: int) -> bool:
    """Whether a buffer of that shape may hold a value or, where it is sharded, the part of it on one device."""
    elements, dtype = math.prod(extents(shape)), getattr(aval, "dtype", None)
    if dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended) or not elements:
        return False
    kind = next(name for name in ("bool", "uint", "int", "complex", "float") if name in dtype.name)
    whole = math.prod(aval.shape)
    is_part = whole % elements == 0 and partitions % (whole // elements) == 0
    return is_part and KINDS.get(shape[:1]) == kind.removeprefix("u")


def _named(program: Program, value: Value) -> Iterator[int]:
    """Equations that may have made a value, the likeliest first: a kernel is named by any of those within."""
    yield from map(int, SCOPE.findall(program.op_name(value.instruction, value.index)))
    made = program.instructions.get(value.instruction)
    within = [] if made is None else [each for each in program.instructions.values() if each.computation == made.calls]
    for each in reversed(within):
        yield from map(int, SCOPE.findall(each.op_name))


def _below_views(equations: Sequence[Any], maker: Any, at: int) -> int:
    """The equation whose result a view of it lies on."""
    while equations[at].primitive.name in VIEWS:
        source = equations[at].invars[0]
        if is_literal(source) or source not in maker:
            return at
        at = maker[source]
    return at


def _needed(equations: Sequence[Any], maker: Any, stored: Collection[int]) -> set[int]:
    """Heavy equations that several nodes would run: the compiler runs none of these twice."""
    runs: dict[int, int] = {}  # how many nodes have the equation within
    more: set[int] = set()
    for at in range(len(equations) - 1, -1, -1):
        own = 1 if at in stored else runs.get(at, 0)
        if at not in stored and own > 1 and is_heavy(equations[at]):
            more.add(at)
            own = 1
        for value in {v for v in equations[at].invars if not is_literal(v)}:
            if value in maker:
                runs[maker[value]] = runs.get(maker[value], 0) + own
    return more
