"""Will it fit? What a training step needs, before anything is allocated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import fx, nn

from echo_torch import card as cards
from echo_torch import costs, drawing, inductor, optimizers
from echo_torch.agree import Agreement
from echo_torch.capture import joint_graph, tensors_of, unwrapped
from echo_torch.card import Card
from echo_torch.defaults import lent_inputs
from echo_torch.faults import StepError
from echo_torch.graph import Unknown
from echo_torch.host import Host
from echo_torch.optimizers import bytes_of
from echo_torch.options import Amount, BudgetError, OptionError, Options
from echo_torch.partition import _replaces, default_partition, plan_for, said, static_inputs
from echo_torch.report import Report, Watch

SHEET = "by the card's data sheet: bytes and arithmetic, launches not counted"
ROUNDED = "Peaks count tensors as PyTorch's allocator rounds them, to 512 bytes, and no blocks that it leaves unsplit."
MODELLED = "by a model of a device; measure=True measures"
UNITS = (("GB", 10**9, 2), ("MB", 10**6, 1), ("kB", 10**3, 1))  # with the decimals that they are shown by


@dataclass
class Estimate:
    """Bytes, and times as parts of a step's. A peak counts all that a step holds above parameters, inputs and the
    optimizer's state, its gradients included. PyTorch's column is `torch.compile(backend="aot_eager")`,
    or Inductor's where the step is `compiled`.
    """

    parameters: int  # and buffers, and other tensors that the model and the loss hold
    inputs: int  # and labels
    optimizer: int  # its state
    gradients: int  # of parameters
    default_peak: int  # by PyTorch's default partition, with the checkpoints of the model
    echo_peak: int
    bound: int  # no plan of this kind needs less
    overhead: float  # how much longer Echo's step takes than PyTorch's, as a part of it, by the costs planned with
    default_overhead: float = 0.0  # what PyTorch's recomputation adds to a step without any
    front: list[tuple[int, float]] = field(default_factory=list)  # peak and overhead, from plan to plan
    at_peak: dict[str, int] = field(default_factory=dict)  # by module, of Echo's plan
    optimizer_name: str = ""
    measured: bool = False  # costs are those of this device; else those of a model
    reads_data: bool = False  # the graph is that of these inputs; training compiles it in several
    reason: str | None = None  # why the default partition would stay
    compiled: bool = False  # PyTorch's column is Inductor's own partition, and Echo's is under Inductor
    offloaded: int = 0  # bytes that leave for the host's memory in a step of Echo's, and come back
    on_host: int = 0  # the most of them there at a time
    lowered_for: str = ""  # the card that is not here, such as "sm_90 (H100 SXM)"; times are by its data sheet
    libraries: list[str] = field(default_factory=list)  # operators of the compiled step that run by themselves

    @property
    def default_total(self) -> int:
        return self.parameters + self.inputs + self.optimizer + self.default_peak

    @property
    def echo_total(self) -> int:
        return self.parameters + self.inputs + self.optimizer + self.echo_peak

    def json(self) -> str:
        totals = {"default_total": self.default_total, "echo_total": self.echo_total}
        return json.dumps(asdict(self) | totals, indent=1)

    def __str__(self) -> str:
        largest = max(self.default_total, self.echo_total)
        unit, size, digits = next((u for u in UNITS if largest >= 10 * u[1]), UNITS[-1])

        def amount(number: int) -> str:
            return f"{number / size:,.{digits}f}"

        def row(name: str, *numbers: int) -> str:
            return f"{name:36}" + "".join(f"{amount(number):>14}" for number in numbers)

        name, costs = "PyTorch", "measured on this device" if self.measured else MODELLED
        if self.compiled:
            name, costs = "Inductor", SHEET if self.lowered_for else "judged by the code that it generates"
        rows = [
            f"{unit + ' of one training step':36}{name:>14}{'Echo':>14}",
            row("parameters and buffers", self.parameters, self.parameters),
            row("inputs and labels", self.inputs, self.inputs),
            row(f"optimizer state ({self.optimizer_name or 'none'})", self.optimizer, self.optimizer),
            row("peak of activations and gradients", self.default_peak, self.echo_peak),
            row("  gradients of parameters", self.gradients, self.gradients),
            row("whole step", self.default_total, self.echo_total),
            *([row("in the host's memory, at most", 0, self.on_host)] if self.offloaded else ()),
            "",
            f"Echo's step takes {_longer(self.overhead)} {name}'s ({costs}).",
        ]
        if self.bound:
            rows.append(f"No plan has a peak of activations and gradients below {amount(self.bound)} {unit}.")
        if self.front:
            rows += ["", f"peak of activations and gradients, and the time of a step against {name}'s"]
        rows += [f"{amount(peak):>14} {unit} {100 * part:+8.1f} %" for peak, part in self.front]
        if self.at_peak:
            rows += ["", f"{unit} at Echo's peak, by the module that made them"]
        rows += [row("  " + (name or "(inputs, loss and gradients)"), held) for name, held in self.at_peak.items()]
        if self.reads_data:
            rows += ["", "The step reads its data: these figures are for the inputs given, as if it were one graph."]
        if self.lowered_for:
            rows += ["", f"Lowered for {self.lowered_for}, not run. {ROUNDED}"]
            rows += [f"The scratch memory of libraries is in no figure: {', '.join(self.libraries) or 'none'}."]
        return "\n".join([*rows, "", f"{name}'s own partition would stay: {self.reason}"] if self.reason else rows)


def _longer(part: float) -> str:
    return f"{100 * abs(part):.1f} % {'less' if part < 0 else 'longer'} than"


def estimate(
    module: nn.Module,
    inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any],
    loss_fn: Callable[..., Any] | None = None,
    labels: Any = (),
    *,
    optimizer: optimizers.Asked = "adamw",
    points: int = 0,
    report: str | Path | None = None,
    budget: Amount | None = None,
    max_overhead: float | str = Options.max_overhead,
    checkpoints: Literal["replace", "keep"] = Options.checkpoints,
    keep: str | Sequence[str] = (),
    strict: bool = Options.strict,
    measure: bool = False,
    seconds: float = Options.seconds,
    strategy: str = Options.strategy,
    offload: Amount | bool | None = None,
    host_budget: Amount | None = None,
    compiled: bool | str = False,
) -> Estimate:
    """What a step `loss_fn(module(*inputs), *labels)` needs under PyTorch's default partition and under Echo.

    Nothing is allocated: tensors may be on the device "meta". Only a step that reads data is run forward once on them.

    Args:
        module: the model, also one that `torch.compile` has wrapped; call `.train()` first.
        inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments.
        loss_fn: makes the loss of what the model returns and of the labels; without it the model returns its loss: one
            number, `.loss`, ["loss"], a dict of losses, which are added, or the first of a tuple.
        labels: a tensor, or a sequence of arguments for `loss_fn`.
        optimizer: a `torch.optim.Optimizer`, its class or its name; None: none.
        points: how many points of the front of peak against time to find.
        report: a folder for a page that shows the plan in a browser, REPORT/index.html.
        budget: the most that a step may take above parameters and inputs: bytes ("8GB"), or a part of PyTorch's (0.5).
        max_overhead: without a budget, the most time that recomputation may add to PyTorch's step ("7%", 0.07).
        checkpoints: "replace" plans regions of `torch.utils.checkpoint` like all else; "keep" leaves them as marked.
        keep: patterns of module paths whose activations are not recomputed.
        strict: a budget that cannot be met is a BudgetError.
        measure: time every operator on this device, instead of by a model.
        seconds: the most time that planning may take.
        strategy: how to search; see `echo_torch.options.STRATEGIES`.
        offload: values may also wait in the host's memory: how fast copies travel each way ("25GB/s"), whatever the
            device of the tensors, since nothing runs; True measures it on that device.
        host_budget: with `offload`: the most bytes of the host's memory to take.
        compiled: under Inductor, whose default is then PyTorch's column: the step is lowered, not compiled. Operators
            are timed on this device, and the front is that of the plans that were judged. "sm_80" or "sm_90": for such
            a card, which need not be here; times are then by its data sheet.

    StepError (a ValueError): the step cannot be traced or planned; it says where, why, and what to do.
    """
    if report is not None:
        drawing.require()  # said at once where it cannot be drawn
    card = cards.asked_for(compiled, measure)
    measure = measure or (bool(compiled) and card is None)
    settings = Options(
        budget, max_overhead, checkpoints, keep, strict, measure, seconds, strategy, offload, host_budget
    )
    if compiled:
        settings.refuse_offload("under Inductor")
    asked, module = _arguments(module, inputs, labels), unwrapped(module)
    trained = _trained(module, loss_fn)
    state = optimizers.state_bytes(optimizer, trained)
    step: _Planned | _Judged
    if compiled:
        step = _judged(*inductor.joint_graph(module, loss_fn, asked, card), settings, points, card)
    else:
        step = _planned(*joint_graph(module, loss_fn, *asked), settings)
    if report is not None:
        drawing.write(step.page(type(module).__name__), report)
    return Estimate(
        parameters=bytes_of([tensors_of(module), tensors_of(loss_fn), _captured(step.joint)]),
        inputs=bytes_of(asked),
        optimizer=state,
        gradients=sum(p.numel() * p.element_size() for p in trained),
        front=step.front(points, seconds) if points else [],
        optimizer_name=optimizers.name_of(optimizer),
        **step.figures(),
    )


def _arguments(module: Any, inputs: Any, labels: Any) -> tuple[Any, tuple[Any, ...]]:
    """The arguments of the model, and those of the loss after what the model returned. ValueError: they are none."""
    if not isinstance(module, nn.Module):
        raise ValueError(f"estimate takes a torch.nn.Module first, not {type(module).__name__}")
    if not isinstance(inputs, torch.Tensor | Mapping | list | tuple):
        raise ValueError(f"inputs= takes a tensor, a sequence or a mapping, not {type(inputs).__name__}")
    given = dict(inputs) if isinstance(inputs, Mapping) else (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    return given, tuple(labels) if isinstance(labels, list | tuple) else (labels,)


def _captured(joint: fx.GraphModule) -> list[torch.Tensor]:
    """Tensors that are no attributes of the model or the loss, such as those that a function has in its closure."""
    return [getattr(joint, str(node.target)) for node in joint.graph.find_nodes(op="get_attr")]


def _trained(*parts: Any) -> list[nn.Parameter]:
    """The parameters of modules that require a gradient, each once."""
    every = (p for part in parts if isinstance(part, nn.Module) for p in part.parameters())
    return list(dict.fromkeys(p for p in every if p.requires_grad))


@dataclass
class _Planned:
    """A step as Echo reads it, and what came of planning it."""

    host: Host
    graph: Any
    plan: Any  # None: PyTorch's own partition stays
    default: list[int]  # the order in which PyTorch's own partition runs the nodes
    report: Report
    measures: bool  # costs are those of this device

    def figures(self) -> dict[str, Any]:
        """What an estimate takes from it as it stands."""
        found = self.report
        return {
            "default_peak": found.default_peak or 0,
            "echo_peak": found.best_peak or 0,
            "bound": found.bound or 0,
            "overhead": found.slowdown - 1,
            "default_overhead": found.default_overhead,
            "at_peak": self.at_peak(),
            "measured": self.measures,
            "reads_data": self.host.joint.meta.get("reads_data", False),
            "reason": found.reason,
            "offloaded": found.offloaded_bytes if found.reason is None else 0,
            "on_host": found.host_bytes if found.reason is None else 0,
        }

    @property
    def joint(self) -> fx.GraphModule:
        return self.host.joint

    def page(self, name: str) -> str:
        """PyTorch's own partition beside the plan."""
        made: str = self.graph.page(name, self.default, self.plan)
        return made

    def front(self, points: int, seconds: float) -> list[tuple[int, float]]:
        """Peaks, each with how much longer a step takes than PyTorch's, whose own recomputation is in its time."""
        own = 1 + self.report.default_overhead
        return [(peak, (1 + part) / own - 1) for peak, part in self.graph.front(points, seconds, self.report.link)]

    def at_peak(self) -> dict[str, int]:
        """The bytes at the peak by module, the ten largest."""
        by_module: Counter[str] = Counter()
        replayed = self.graph.replay(self.plan) if self.plan else self.graph.replay(self.default, writes_over=False)
        for node, _, size in replayed[2]:
            by_module[self.host.calls[node].layer] += size
        return dict(by_module.most_common(10))


def _planned(joint: fx.GraphModule, _: Any, count: int, settings: Options) -> _Planned:
    """StepError: the graph cannot be read, or PyTorch's own partition does what cannot be replayed."""
    found, plan = Report(), None
    try:
        with inductor.mode_of(joint):  # states of random numbers, too, are only described
            default = default_partition(joint, (), num_fwd_outputs=count)
        lent = lent_inputs(joint, default[1], static_inputs(joint, (), joint.meta))
        host = Host(joint, count, keep=settings.keep, replaces=settings.checkpoints == "replace", lent=lent)
        order = host.order_of(default)
        try:
            _replaces(joint, settings)
            plan, _ = plan_for(host, default, settings, found, Watch(found), Agreement(alone=True), only_plans=True)
        except Unknown as unknown:
            found.reason = str(unknown)
        graph = host.core(host.facts(costs.alignment_of(host)))
        if found.default_peak is None:
            found.default_peak, found.default_overhead, _ = graph.replay(order, writes_over=False)
        return _Planned(host, graph, plan, order, found, settings.measure)
    except (BudgetError, OptionError):
        raise
    except Exception as fault:
        raise StepError(f"the step is traced, but cannot be planned: {said(fault)}") from fault


@dataclass
class _Judged:
    """A step as Inductor lowers it."""

    joint: fx.GraphModule
    found: Report
    others: list[Report]  # of other prices
    card: Card | None  # that it is lowered for, where it is not here

    def figures(self) -> dict[str, Any]:
        """What an estimate takes from it as it stands."""
        found = self.found
        return {
            "default_peak": found.default_peak,
            "echo_peak": found.best_peak,
            "bound": 0,
            "overhead": found.slowdown - 1,
            "at_peak": self.at_peak(),
            "measured": self.card is None,
            "reads_data": self.joint.meta.get("reads_data", False),
            "reason": found.reason,
            "compiled": True,
            "lowered_for": str(self.card or ""),
            "libraries": found.libraries,
        }

    def page(self, name: str) -> str:
        """The kernels of Inductor's default beside those of the plan."""
        default, *plan = map(drawing.graph_of, self.found.ran)
        made: str = default.program_page(name + " by Inductor", *plan, *[name + " by Echo" for _ in plan])
        return made

    def front(self, *_: Any) -> list[tuple[int, float]]:
        """Of all plans that were judged, those that no other beats, and the default."""
        best: list[tuple[int, float]] = []
        every = [self.found, *self.others]
        tried = {(each.default_peak or 0, 0.0) for each in every}.union(*(each.tried for each in every))
        for peak, part in sorted(tried, key=lambda one: (one[1], one[0])):
            if not best or peak < best[-1][0]:
                best.append((peak, part))
        return best

    def at_peak(self) -> dict[str, int]:
        """The bytes at the peak by module, the ten largest."""
        by_module: Counter[str] = Counter()
        for live in self.found.live:
            by_module[live.module] += live.bytes
        return dict(by_module.most_common(10))


def _judged(joint: fx.GraphModule, _: Any, count: int, settings: Options, points: int, card: Card | None) -> _Judged:
    """As many other prices as `points` are asked for too, each twice the last. StepError: it cannot be judged."""
    more = [
        replace(settings, budget=None, max_overhead=settings.most_overhead * 2.0 ** (at - 2)) for at in range(points)
    ]
    try:
        found, *others = inductor.judged(joint, count, [settings, *more], card)
    except BudgetError:
        raise
    except Exception as fault:
        raise StepError(f"the step is traced, but Inductor cannot lower it: {said(fault)}") from fault
    if found.default_peak is None:
        raise StepError(f"the step is traced, but cannot be judged under Inductor: {found.reason}")
    return _Judged(joint, found, others, card)
