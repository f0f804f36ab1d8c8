"""How Inductor lowers two halves, up to the code that it generates: nothing is compiled, and Inductor's own cache keeps
what was lowered, so that the halves which are chosen are not lowered twice.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException

from echo_torch import costs, hooks
from echo_torch.card import Card
from echo_torch.graph import Unknown, holds_memory, is_dense, leaves, number
from echo_torch.halves import Halves
from echo_torch.judge import Code, Judged, judge
from echo_torch.where import layer_of


@dataclass(frozen=True)
class Step:
    """What both halves of a graph are compiled with, whichever they are."""

    inputs: Sequence[Any]  # of the forward half, without memory
    own: int  # outputs of the forward half that are the user's
    kinds: Sequence[str]  # what each of those is, by AOTAutograd's description
    static: Sequence[int]  # places of inputs that lie where they lay before
    card: Card | None = None  # that the halves are lowered for, where it is not here

    @property
    def prices(self) -> costs.Prices:
        """What operators and copies take."""
        return costs if self.card is None else self.card

    def judge(self, halves: Halves) -> Judged:
        """What the halves take when Inductor compiles them. Unknown: they are not to be judged, and why."""
        forward, backward = halves
        saved = forward.graph.output_node().args[0][self.own :]
        if any(not isinstance(node.meta["val"], torch.Tensor | torch.SymInt | int) for node in saved):
            raise Unknown("the forward pass hands on what is neither a tensor nor a size")
        tensors = [node for node in saved if holds_memory(node)]
        sizes = len(saved) - len(tensors)
        described = self._described(forward, backward, tensors, sizes)
        with _told_to_inductor(described) as strides:
            first = self._lower(forward, self.inputs, described.outputs)
        values = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
        for at, stride in enumerate(strides[self.own : self.own + len(tensors)], sizes):
            if stride is not None and [*map(number, values[at].stride())] != [*map(number, stride)]:
                values[at] = values[at].as_strided(values[at].size(), stride)
        with _told_to_inductor(described):
            second = self._lower(backward, values)
        try:
            return judge(first, second, self.inputs, values[len(saved) :], self.own, self.prices)
        except DataDependentOutputException as fault:
            raise Unknown(
                "what runs depends on the values of tensors, as with torch.cond, so its memory is not known ahead"
            ) from fault

    def _described(self, forward: Any, backward: Any, tensors: Sequence[fx.Node], sizes: int) -> SimpleNamespace:
        """What Inductor reads of AOTAutograd's description of the step."""
        outputs = forward.graph.output_node()
        values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in outputs.args[0]]
        gradients = backward.graph.output_node().args[0]
        given = [node.meta.get("val") for node in forward.graph.find_nodes(op="placeholder")]
        kept = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in gradients]
        lent = {_storage(value) for value in (*given, *values[: self.own], *kept) if is_dense(value)}
        donated = [
            sizes + at
            for at, node in enumerate(tensors)
            if is_dense(value := node.meta["val"]) and _storage(value) not in lent
        ]
        added = sum(kind.startswith(("InputMutation", "IntermediateBase")) for kind in self.kinds)
        return SimpleNamespace(
            static_input_indices=list(self.static),
            num_mutated_inp_runtime_indices=self.kinds.count("InputMutationAOTOutput"),
            bw_donated_idxs=donated if hooks.functorch_config.donated_buffer else None,
            outputs=self.own - added,
        )

    def _lower(self, half: Any, inputs: Sequence[Any], outputs: int | None = None) -> Code:
        from torch._inductor import compile_fx as inductor  # not before it is needed: it takes a second

        if inductor.config.cpp_wrapper:
            raise Unknown("with cpp_wrapper Inductor generates no Python, by which it is judged")
        extra = inductor.create_compiler_config_extra(half)
        inner = functools.partial(told_apart(inductor.compile_fx_inner), get_decomp_fn=inductor.select_decomp_table)
        with hooks.unset_fake():
            half = copy.deepcopy(half)  # lowering changes it
        modules: dict[str, str] = {}
        with _nothing_is_loaded(), _no_guards(inputs), _told_modules(modules):
            if outputs is None:
                made = inductor.compile_fx_backward(half, inputs, extra, inner)
            else:
                made = inductor.compile_fx_forward(half, inputs, outputs, len(inputs), extra, inner)
        if not hasattr(made, "source_code"):
            raise Unknown("Inductor generates no code for it")
        return Code(made.source_code, made.constants, modules)


def step_of(
    joint: fx.GraphModule, joint_inputs: Any, num_fwd_outputs: int, more: Mapping[str, Any], card: Card | None = None
) -> Step:
    """The step of a partition that AOTAutograd asks for."""
    static = more.get("static_lifetime_input_indices") or ()
    described = [*leaves(joint.graph.output_node().meta["desc"])][:num_fwd_outputs]
    return Step(joint_inputs[0], num_fwd_outputs, [type(of).__name__ for of in described], static, card)


def told_apart(lower: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor's compiler of one half, for a cache in which a backward half is told by what it may write over as well.
    Inductor's own keys do not hold that, and a half whose arguments are to be read once more has to leave them alone.
    """

    def lowered(graph: fx.GraphModule, inputs: Any, **told: Any) -> Any:
        if told.get("is_backward"):
            metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
            graph.meta["written_over"] = tuple(getattr(metadata, "bw_donated_idxs", None) or ())
        return lower(graph, inputs, **told)

    return lowered


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


@contextlib.contextmanager
def _told_to_inductor(described: SimpleNamespace) -> Iterator[list[Any]]:
    """Within it Inductor finds this description; gives the list of the outputs' strides that it fills."""
    context = torch._guards.TracingContext.get()
    before = context.fw_metadata
    context.fw_metadata = described
    try:
        with torch._guards.TracingContext.report_output_strides() as strides:
            yield strides
    finally:
        context.fw_metadata = before


@contextlib.contextmanager
def _nothing_is_loaded() -> Iterator[None]:
    """Within it generated code is kept and not loaded, for loading it compiles its kernels."""
    from torch._inductor.codecache import PyCodeCache

    def load(key: str, path: str, *_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(call=_never, __file__=path)

    with mock.patch.object(PyCodeCache, "load_by_key_path", load):
        yield


@contextlib.contextmanager
def _told_modules(found: dict[str, str]) -> Iterator[None]:
    """Within it `found` takes the module of each buffer that is lowered; not where Inductor's cache knows the graph."""
    from torch._inductor.graph import GraphLowering

    generate = GraphLowering.codegen

    def codegen(graph: Any) -> Any:
        made = generate(graph)
        for name, buffer in graph.name_to_buffer.items():
            first = getattr(buffer, "origin_node", None)
            nodes = [first] if first is not None else sorted(getattr(buffer, "origins", ()), key=str)
            found[name] = next(filter(None, map(layer_of, nodes)), "")
        return made

    with mock.patch.object(GraphLowering, "codegen", codegen):
        yield


@contextlib.contextmanager
def _no_guards(inputs: Sequence[Any]) -> Iterator[None]:
    """Within it a lowering asks nothing of symbolic sizes that the program would then have to keep; what was lowered so
    is not kept for a program that does.
    """
    from torch._inductor import config

    environments = [value.node.shape_env for value in inputs if isinstance(value, torch.SymInt)]
    if not environments:
        yield
        return
    with environments[0].suppress_guards(), config.patch(fx_graph_cache=False):
        yield


def _never(*_: Any) -> None:
    raise AssertionError("what was lowered to be judged does not run")
