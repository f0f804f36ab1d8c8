"""What a user may ask of Echo, and how a mistake is told."""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from echo_torch import hooks

STRATEGIES = ("budget", "min_cut", "echo", "echo_printed", "mirror", "baseline")
CHECKPOINTS = ("replace", "keep")
MOST_PERCENT = 10_000  # as the commands have it: what is more is a slip
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

Amount = int | float | str


class _Passes(hooks.ShortenTraceback or RuntimeError):  # type: ignore[misc]
    """An error that TorchDynamo hands on as it is, although it is raised while a graph is compiled."""

    def __init__(self, text: str) -> None:
        super().__init__(text, **({"first_useful_frame": None} if hooks.ShortenTraceback else {}))


class BudgetError(_Passes):
    """With `strict=True`: the budget cannot be met."""


class OptionError(_Passes, ValueError):
    """An option has a value that makes no sense."""


class UnknownOption(_Passes, TypeError):
    """There is no option of that name."""


class Asked(TypedDict, total=False):
    """The options of `backend`, `partition_fn`, `partitioner` and `estimate`: see `Options`."""

    budget: Amount | None
    max_overhead: float | str
    checkpoints: Literal["replace", "keep"]
    keep: str | Sequence[str]
    strict: bool
    measure: bool
    seconds: float
    strategy: str
    offload: Amount | bool | None
    host_budget: Amount | None


@dataclass(frozen=True)
class Options:
    """What a user may ask for; every default is the recommended choice.

    budget        the most memory that a step may take above parameters and inputs: bytes ("8GiB", 8e9), or a part of
                  what PyTorch's default partition takes (0.5, "50%"). The plan that takes the least time is used. Of
                  a block that is compiled by itself: a part of what it keeps for the backward pass.
    max_overhead  without a budget: the most time that recomputation may add to a step ("7%", 0.07), beyond what the
                  default partition recomputes. The plan that takes the least memory is used.
    checkpoints   regions that the model marks by `torch.utils.checkpoint`: "replace" plans them like all else, with at
                  most the memory that the marks would lead to; "keep" leaves a graph that has any as it is marked.
    keep          patterns of module paths ("encoder.layers.0.*") whose activations are not recomputed.
    strict        a budget that cannot be met raises BudgetError instead of a warning.
    measure       time every operator on this device, once; else a model of a GPU gives their times.
    seconds       the most time that planning one graph may take.
    strategy      how to search: "budget", or one of the library's simpler strategies.
    offload       values may wait in the host's memory too, planned together with recomputation: how fast copies travel
                  each way ("25GB/s"), or True, which measures that on the device, once. What a step waits for copies
                  counts as recomputation does.
    host_budget   with `offload`: the most bytes of the host's memory to take.
    """

    budget: Amount | None = None
    max_overhead: float | str = 0.07
    checkpoints: Literal["replace", "keep"] = "replace"
    keep: str | Sequence[str] = ()
    strict: bool = False
    measure: bool = True
    seconds: float = 120.0
    strategy: str = "budget"
    offload: Amount | bool | None = None
    host_budget: Amount | None = None

    def __post_init__(self) -> None:
        keep = (self.keep,) if isinstance(self.keep, str) else self.keep
        if not isinstance(keep, Collection) or not all(isinstance(each, str) for each in keep):
            raise OptionError(f"keep={self.keep!r} is no pattern of module paths, nor a list of them: try 'layers.0.*'")
        object.__setattr__(self, "keep", tuple(keep))
        for name in ("strict", "measure"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r} is neither True nor False")
        part_of("max_overhead", self.max_overhead)
        self.bytes_of(1)
        if not _is_number(self.seconds) or not self.seconds > 0:
            raise OptionError(f"seconds={self.seconds!r} is no time to plan in: try 120")
        for name, known in (("strategy", STRATEGIES), ("checkpoints", CHECKPOINTS)):
            if (value := getattr(self, name)) not in known:
                raise OptionError(f"{name}={value!r} is none of {', '.join(map(repr, known))}")
        self._check_offload()

    def _check_offload(self) -> None:
        if self.offload is not None and not isinstance(self.offload, bool):
            rate_of("offload", self.offload)
        if self.host_budget is not None and not self.offload:
            raise OptionError("host_budget= is a limit on what offload= moves: give offload='25GB/s' or True too")
        if self.host_budget is not None and _amount("host_budget", self.host_budget)[1]:
            raise OptionError(f"host_budget={self.host_budget!r} is no size: give bytes with a unit, such as '64GB'")
        if self.offload and self.strategy != "budget":
            raise OptionError(f"offload= is planned by strategy='budget', not by {self.strategy!r}: leave one out")

    def refuse_offload(self, where: str) -> None:
        """OptionError: values would have to be moved to the host's memory where that cannot be carried out."""
        if self.offload:
            raise OptionError(f"offload= is carried out by echo_torch.backend, not {where}: leave it out")

    @property
    def most_on_host(self) -> int | None:
        """The most bytes of the host's memory to take; None: there is no limit."""
        return None if self.host_budget is None else int(_amount("host_budget", self.host_budget)[0])

    @property
    def most_overhead(self) -> float:
        """The most time that recomputation may add, as a part of a step."""
        return part_of("max_overhead", self.max_overhead)

    @property
    def is_in_bytes(self) -> bool:
        """Whether there is a budget that is the same for all sizes of a step."""
        return self.budget is not None and not _amount("budget", self.budget)[1]

    def bytes_of(self, default_peak: int) -> int | None:
        """The budget in bytes, of a step that takes `default_peak` bytes by default; None: there is no budget.
        OptionError: it is neither a size nor a part.
        """
        if self.budget is None:
            return None
        amount, is_part = _amount("budget", self.budget)
        return int(amount * default_peak) if is_part else int(amount)


def options_of(asked: Mapping[str, Any]) -> Options:
    """The options of a call. UnknownOption: there is none of that name. OptionError: a value makes no sense."""
    known = [each.name for each in fields(Options)]
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{near[0]}'? The" if near else "the"
            raise UnknownOption(f"there is no option '{name}': {hint} options are {', '.join(known)}")
    return Options(**asked)


def part_of(name: str, value: Any) -> float:
    """A part of a whole: "5%" or 0.05. OptionError: it is none, such as a bare 5, which could mean either."""
    given, found = value, None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(%?)\s*", value, re.IGNORECASE)
        value = _number_of(found[1]) if found else None
    in_percent = found is not None and found[2] == "%"
    if not _is_number(value) or not 0 <= value <= MOST_PERCENT or (value >= 1 and not in_percent):
        raise OptionError(f"{name}={given!r} is no part of a step: give '5%' or 0.05")
    return float(value) / 100 if in_percent else float(value)


def rate_of(name: str, value: Any) -> float:
    """Bytes in a microsecond of a rate: "25GB/s", or bytes in a second. OptionError: it is none of at least 1 kB/s."""
    with contextlib.suppress(OptionError):
        found = re.fullmatch(r"(.*[a-z]\s*)/\s*s\s*", value, re.IGNORECASE) if isinstance(value, str) else None
        rate, is_part = _amount(name, found[1] if found else value)
        if not is_part and (found or not isinstance(value, str)) and 1e3 <= rate < 1e18:
            return rate / 1e6
    raise OptionError(
        f"{name}={value!r} is no rate of a kilobyte a second and more: give one such as '25GB/s', or True"
    )


def _amount(name: str, value: Any) -> tuple[float, bool]:
    """A number, and whether it is a part of the default's peak rather than bytes.

    With a unit, or from 2 on, it is bytes; with a per cent sign, or with a point and at most 1, a part.
    """
    number, unit, has_point = value, None, isinstance(value, float)
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(%|[kmgt]i?b?|b)?\s*", value, re.IGNORECASE)
        number, unit, has_point = (_number_of(found[1]), found[2], "." in found[1]) if found else (None, None, False)
    if _is_number(number) and 0 < number < math.inf:
        if unit == "%" and number <= 100:
            return number / 100, True
        if unit is not None and unit != "%" and (size := number * UNITS[unit.lower().rstrip("b")]) >= 1:
            return size, False
        if unit is None and number >= 2:
            return number, False
        if unit is None and number <= 1 and has_point:
            return number, True
    raise OptionError(
        f"{name}={value!r} is neither a size nor a part: give bytes with a unit, such as '8GB', "
        "or a part of what the step needs by default, such as 0.5 or '50%'"
    )


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
