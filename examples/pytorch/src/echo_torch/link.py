"""The link to the host's memory that a graph is planned with: as the user says, or as it is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from echo_torch import costs, moves
from echo_torch.graph import device_of
from echo_torch.host import Host
from echo_torch.options import OptionError, Options, rate_of

Link = tuple[float, float, int | None]  # bytes that leave and that come back in a microsecond; the most on the host


def link_of(
    host: Host, options: Options, share: Callable[..., Any], only_plans: bool = False
) -> tuple[Link | None, list[str]]:
    """The link on which values of this graph may move, and what the user should know if none may. `share` gives every
    rank the first one's; `only_plans`: nothing of it will be carried out. OptionError: there is no such link at all.
    """
    if not options.offload:
        return None, []
    device = next((device_of(call.node) for call in host.calls if call.phase != "input"), torch.device("cpu"))
    if moves.ways_of(device) is None and options.offload is True and only_plans:
        raise OptionError(
            f"offload=True measures copies between the device and the host, and this step's device is {device}: give "
            "a rate such as '25GB/s'"
        )
    why = None if only_plans else _why_not(host, options, device)
    if why is None:
        rates = _rates(options, device, share)
        if not isinstance(rates, str):
            return (*rates, options.most_on_host), []
        why = rates
    return None, [f"no value of this graph waits in the host's memory: {why}"]


def _why_not(host: Host, options: Options, device: torch.device) -> str | None:
    """Why nothing is moved while this graph trains."""
    if moves.ways_of(device) is None:
        moves.require_device(options)
        return f"it runs on the device {device}, from which nothing is moved"
    return "compiled autograd traces it once more, without streams" if host.traced else None


def _rates(options: Options, device: torch.device, share: Callable[..., Any]) -> tuple[float, float] | str:
    """Out and back. A text: why they are not known."""
    if options.offload is not True:
        return (rate_of("offload", options.offload),) * 2
    measured: Any = share(lambda: costs.copying_on(device), "link")
    return measured if isinstance(measured, str) else (measured[0], measured[1])
