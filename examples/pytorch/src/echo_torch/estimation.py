"""Will it fit? What a training step needs, before anything is allocated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from echo_torch import drawing
from echo_torch.agree import Agreement
from echo_torch.capture import joint_graph
from echo_torch.graph import Unknown
from echo_torch.host import Host
from echo_torch.partition import Options, Report, Watch, default_partition, plan_for

# Tensors of a parameter's size that an optimiser keeps for each parameter.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}


@dataclass
class Estimate:
    """Bytes. A peak counts all that a step holds above parameters and inputs, its gradients included."""

    parameters: int
    inputs: int
    optimizer: int
    gradients: int
    default_peak: int  # by PyTorch's default partition
    echo_peak: int
    bound: int  # no plan of this kind needs less
    overhead: float  # part of a step's time, by the model of a device that the plan counted with
    front: list[tuple[int, float]] = field(default_factory=list)  # peak and overhead, from plan to plan
    at_peak: dict[str, int] = field(default_factory=dict)  # by module, of Echo's plan
    reason: str | None = None  # why the default partition would stay

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
        def row(name: str, *amounts: int) -> str:
            return f"{name:28}" + "".join(f"{amount / 1e6:14,.1f}" for amount in amounts)

        rows = [
            f"{'MB':28}{'PyTorch':>14}{'Echo':>14}",
            row("parameters", self.parameters, self.parameters),
            row("inputs", self.inputs, self.inputs),
            row("optimiser", self.optimizer, self.optimizer),
            row("peak above these", self.default_peak, self.echo_peak),
            row("  of it gradients", self.gradients, self.gradients),
            row("whole step", self.default_total, self.echo_total),
            f"Echo's step takes {100 * self.overhead:.1f} % longer; no plan lies below {self.bound / 1e6:,.1f}",
        ]
        rows += [f"  {peak / 1e6:12,.1f} MB at {100 * part:5.1f} % more time" for peak, part in self.front]
        rows += [row("at Echo's peak: " + (name or "-"), amount) for name, amount in self.at_peak.items()]
        return "\n".join([*rows, self.reason] if self.reason else rows)


def estimate(
    module: torch.nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    loss_fn: Callable[..., torch.Tensor],
    labels: Sequence[torch.Tensor] = (),
    *,
    optimizer: str = "adamw",
    points: int = 0,
    report: str | Path | None = None,
    **options: Any,
) -> Estimate:
    """What a step `loss_fn(module(*inputs), *labels)` needs under PyTorch's default partition and under Echo.

    Nothing is allocated and no data read: tensors may be on the device "meta". `optimizer` is a name of OPTIMIZERS;
    `points` asks for that many points of the front of peak against time; `report` names a folder for a report of the
    plan, for a browser (`echo_torch.drawing`). Other options are those of `backend`; costs are modelled, not measured,
    unless `measure=True`. Unknown: PyTorch's own partition does what Echo cannot replay.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer '{optimizer}' is not known: give one of {', '.join(OPTIMIZERS)}")
    if report is not None:
        drawing.program()  # said at once where there is none
    settings = Options(**({"measure": False} | options))
    joint, _, count = joint_graph(module, loss_fn, inputs, labels)
    default = default_partition(joint, (), num_fwd_outputs=count)
    host, found = Host(joint, count, keep=settings.keep), Report()
    plan = None
    try:
        plan, _ = plan_for(host, default, settings, found, Watch(found), Agreement(alone=True))
    except Unknown as unknown:
        found.reason = str(unknown)
    graph = host.core(host.facts())
    order = [node for node, *_ in plan.steps] if plan else host.order_of(default)
    if report is not None:
        drawing.draw(host, plan, order, type(module).__name__, report)
    by_module: Counter[str] = Counter()
    for node, _, size in graph.replay(order, writes_over=plan is not None)[2]:
        by_module[host.calls[node].layer] += size
    trained = [p for p in module.parameters() if p.requires_grad]
    return Estimate(
        parameters=sum(_bytes(t) for t in (*module.parameters(), *module.buffers())),
        inputs=sum(_bytes(t) for t in torch.utils._pytree.tree_leaves((inputs, labels))),
        optimizer=OPTIMIZERS[optimizer] * sum(_bytes(p) for p in trained),
        gradients=sum(_bytes(p) for p in trained),
        default_peak=found.default_peak or 0,
        echo_peak=(found.peak if plan else found.default_peak) or 0,
        bound=found.bound or 0,
        overhead=found.overhead if plan else 0.0,
        front=graph.front(points, settings.seconds) if points else [],
        at_peak=dict(by_module.most_common(10)),
        reason=found.reason,
    )


def _bytes(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
