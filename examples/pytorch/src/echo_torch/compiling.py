"""The backends of `torch.compile`: objects that can be pickled and copied with the model that they compiled."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import fx, nn

from echo_torch import _distrust, fused, hooks, outside, say
from echo_torch.fused import divided
from echo_torch.options import Options, options_of
from echo_torch.partition import partition, reports
from echo_torch.report import Report
from echo_torch.where import function_of, names_of


@dataclass(unsafe_hash=True)
class Backend:
    """The backend `echo`: Inductor compiles each graph, in the halves that Echo chooses. Two of the same options are
    equal.

    ImportError: this PyTorch lacks what even its own partition is made by.
    """

    is_echo = True  # for `outside`
    fuses = True  # by Inductor

    options: Options
    distrust: str | None = field(default=None, compare=False)  # see `echo_torch._distrust`

    def __post_init__(self) -> None:
        hooks.require("aot_autograd", "boxed_nop", *hooks.TO_PARTITION)
        self.distrust = self.distrust or _distrust()
        outside.listen()

    @property
    def __name__(self) -> str:
        return "echo"

    def __reduce__(self) -> tuple[Callable[..., Backend], tuple[type[Backend], dict[str, Any]]]:
        return _made_of, (type(self), asdict(self.options))

    def __call__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Callable[..., Any]:
        """Compiles a graph of TorchDynamo's. `mode` and `options` are those of `torch.compile`; options that are not
        Echo's are Inductor's.
        """
        own, others = divided(options or {}) if self.fuses else (dict(options or {}), {})
        chosen = options_of(asdict(self.options) | own) if own else self.options
        say.show_on_terminal()
        if mode is not None and not self.fuses:
            say.warn_once(f"echo_eager runs operators one by one, and mode={mode!r} changes nothing: leave it out")
        made, before, taken_within = None, len(reports), _gradients_within(graph)
        if self.fuses and not chosen.offload:  # Inductor carries no moves out
            made = fused.compiled(chosen, self.distrust, mode, others, graph, inputs)
        made = made or compile_by(functools.partial(partition, options=chosen, distrust=self.distrust), graph, inputs)
        if taken_within is not None and len(reports) == before:
            reports.add(taken_within)
            say.warn_once(f"Echo leaves a graph to PyTorch: {taken_within.reason}")
        return made

    def reset(self) -> None:
        """For `torch._dynamo.reset`: lets go of what Inductor has recorded on a GPU."""
        if trees := sys.modules.get("torch._inductor.cudagraph_trees"):
            trees.reset_cudagraph_trees()


class EagerBackend(Backend):
    """The backend `echo_eager`: each graph runs as its plan says, operator by operator."""

    fuses = False

    @property
    def __name__(self) -> str:
        return "echo_eager"


def _made_of(kind: type[Backend], options: dict[str, Any]) -> Backend:
    return kind(options_of(options))


def _gradients_within(graph: fx.GraphModule) -> Report | None:
    """What to report where a graph takes gradients itself, as by `torch.func.grad`, and none is left to plan."""
    if not any(getattr(node.target, "__name__", "") == "_autograd_grad" for node in graph.graph.nodes):
        return None
    reason = "its gradients are taken within the compiled function (torch.func): only backward passes are planned"
    return Report(where=function_of(graph.graph.nodes), reason=reason)


def compile_by(divide: Callable[..., Any], graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles a graph of TorchDynamo's with the two halves that `divide` makes of it."""
    watched = outside.graph_of(graph)
    compile_it: Callable[..., Callable[..., Any]] = hooks.aot_autograd(
        fw_compiler=watched.forward,
        bw_compiler=watched.backward,
        inference_compiler=hooks.boxed_nop,
        partition_fn=watched.divide(functools.partial(divide, names=names_of(graph))),
        keep_inference_input_mutations=True,
    )
    with outside.traceable(graph, inputs):
        return compile_it(graph, inputs)


def trains_alike() -> bool:
    """Whether a small model trains the same with Echo as without, with this PyTorch: it is tried on the CPU, and no
    trace of it is left in the generator or among the reports.
    """

    def gradients(backend: Any) -> list[Any]:
        torch.default_generator.manual_seed(0)  # the weights of both trials are the same
        kind = torch.float32
        layers = [nn.Linear(32, 32, dtype=kind), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(32, dtype=kind)]
        module = nn.Sequential(*layers * 2)
        x = torch.randn(256, 32, dtype=kind)
        torch.compile(module, backend=backend)(x).square().sum().backward()
        return [p.grad for p in module.parameters()]

    before = len(reports)
    try:
        # On the CPU, whatever the user's default device is: its generator would be drawn from.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            divide = functools.partial(partition, options=Options(budget=0.7, measure=False))
            expected, found = gradients("aot_eager"), gradients(functools.partial(compile_by, divide))
            same = all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
            return same and reports[-1].reason is None
    except Exception:
        return False
    finally:
        say.forget()
        del reports[before:]
