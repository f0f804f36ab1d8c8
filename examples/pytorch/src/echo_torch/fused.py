"""Compiles a graph of TorchDynamo's under Inductor, in the halves that Echo chooses; and without Echo where Inductor
does not compile those.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import fx

from echo_torch import hooks, outside, remembered, say
from echo_torch.lowered import told_apart
from echo_torch.options import BudgetError, OptionError, Options, UnknownOption
from echo_torch.partition import reports
from echo_torch.say import log
from echo_torch.where import names_of


def divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the options of `torch.compile` those of Echo, and those of Inductor. UnknownOption: one is of neither."""
    own = {each.name for each in fields(Options)}
    others = {name: value for name, value in options.items() if name not in own}
    if others:
        from torch._inductor import config  # not before it is needed: it takes a second

        known = config.get_config_copy()
        for name in others:
            if name == "custom_partitioner_fn":
                raise OptionError(
                    'custom_partitioner_fn= would take Echo\'s place: leave it out, or compile with backend="inductor"'
                )
            if name.replace("-", "_") not in known:
                near = difflib.get_close_matches(name, [*own, *known], 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                raise UnknownOption(
                    f"there is no option '{name}': {hint}Echo's are {', '.join(sorted(own))}; "
                    "Inductor's are in torch._inductor.config"
                )
    return {name: value for name, value in options.items() if name in own}, others


def compiled(
    options: Options,
    distrust: str | None,
    mode: str | None,
    others: Mapping[str, Any],
    graph: Any,
    inputs: Sequence[Any],
) -> Callable[..., Any] | None:
    """The graph as Inductor compiles it, with this mode and these options of its own; None: it cannot compile it, and a
    warning says why. BudgetError, OptionError: as by `partition.halves_of_joint`.
    """
    from echo_torch.inductor import OfBackend

    _check_mode(mode)
    watched, before = outside.graph_of(graph), len(reports)
    partitioner = OfBackend(options, distrust, watched, names_of(graph))
    name = remembered.name_of(graph, inputs, lambda: (partitioner.uuid(), mode, sorted(others.items())))
    fault: Exception | None = None
    for tried in (partitioner, None):
        try:
            hooks.require("InductorWrapper")
            settings = hooks.InductorWrapper(mode, {**others, "custom_partitioner_fn": tried}, None).config
            with outside.traceable(graph, inputs):
                made = _compile(graph, inputs, settings, watched)
        except (BudgetError, OptionError, UnknownOption):
            raise
        except Exception as found:
            if not _is_inductors(found):
                raise
            log.debug("echo: Inductor fails", exc_info=found)
            fault = fault or found
            continue
        if fault is not None:
            _left(before, "its own halves run", fault)
        elif len(reports) > before:
            remembered.keep(name, reports[-1])
        elif watched.infers:
            remembered.keep(name, None)
        elif _trains(inputs):
            remembered.recall(name)
            say.tell()  # no half of it is lowered
        return made
    if fault is not None:
        _left(before, "Echo runs its operators one by one", fault)
    return None


def _check_mode(mode: str | None) -> None:
    """OptionError: Inductor has no mode of that name."""
    if mode is not None and hooks.InductorWrapper is not None:
        try:
            hooks.InductorWrapper(mode, {}, None)
        except RuntimeError as fault:
            raise OptionError(str(fault)) from fault


def _compile(graph: Any, inputs: Sequence[Any], settings: Mapping[str, Any], watched: outside.Graph) -> Any:
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    lower = _backward_runs_anyhow(watched.lowering(told_apart(compile_fx_inner)))
    return compile_fx(graph, inputs, inner_compile=lower, config_patches=settings)


def _backward_runs_anyhow(lower: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor's compiler of one half. AOTAutograd compiles a backward half when its forward half has run, too late for
    another one: where Inductor fails on it, its operators run one by one.
    """

    def lowered(graph: fx.GraphModule, inputs: Any, **told: Any) -> Any:
        if not told.get("is_backward"):
            return lower(graph, inputs, **told)
        kept = copy.deepcopy(graph.graph)  # lowering changes it
        try:
            return lower(graph, inputs, **told)
        except Exception as fault:
            if not _is_inductors(fault):
                raise
            log.debug("echo: Inductor fails on a backward half", exc_info=fault)
            say.warn_once(f"Echo: {_failure(fault, 'a backward pass', 'its operators run one by one')}")
            return hooks.boxed_nop(fx.GraphModule(graph, kept), inputs)

    return lowered


def _is_inductors(fault: Exception) -> bool:
    """Whether it says that Inductor cannot compile a graph, rather than that TorchDynamo has to try once more."""
    from torch._dynamo import exc
    from torch._inductor import exc as inductor

    kinds = (exc.BackendCompilerFailed, inductor.TritonMissing, inductor.GPUTooOldForTriton)
    return isinstance(fault, kinds) or not isinstance(fault, exc.TorchDynamoException)


def _left(before: int, instead: str, fault: Exception) -> None:
    """Says that Inductor fails, in a warning and in the reports of the graph."""
    text = _failure(fault, "a graph", instead)
    for report in reports[before:]:
        report.reason, report.is_needless = text, False
    say.forget()
    say.warn_once("Echo: " + text)


def _failure(fault: Exception, what: str, instead: str) -> str:
    first = (str(fault).strip().splitlines() or [""])[0]
    kind = type(fault).__name__
    return f"Inductor cannot compile {what}, and {instead}: {first if kind == 'InductorError' else f'{kind}: {first}'}"


def _trains(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs)
