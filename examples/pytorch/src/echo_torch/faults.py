"""Why a step could not be traced, in one sentence: where in the user's program, what is wrong, what to do."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import torch
from torch import nn

# What PyTorch calls the parts of its tracers: no user's program holds them.
PRIVATE = re.compile(
    r"[Ff]ake|Functional|Sym(Int|Node|Bool|Float)|meta tensor|subclass|primals_|tangents_|\b[us]\d+\b|[Pp]roxy|dispatch"
)
UNDESCRIBED = re.compile(r"no fake impl registered for \D*?([\w.:]+)\)?>?\.")
DATA = {"DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode"}
ELSEWHERE = tuple(os.path.join(os.path.dirname(file), "") for file in (torch.__file__, __file__))


class StepError(ValueError):
    """The step cannot be traced or planned; the text says where, why, and what to do."""

    on_data = False  # the step reads values, which a trace does not have


def explained(fault: Exception, paths: Mapping[nn.Module, str]) -> StepError:
    """What was raised while a step was traced, as a user can read it; with its cause where that is the user's code."""
    where, kinds = _place(fault, paths), {kind.__name__ for kind in type(fault).__mro__}
    lines = str(fault).strip().splitlines()
    text = f": {lines[0]}" if lines else ""
    operator = getattr(fault, "func", None) if "UnsupportedOperatorException" in kinds else None
    if undescribed := UNDESCRIBED.search(text):
        operator = undescribed[1].replace("::", ".")
    if operator is not None:
        made = StepError(
            f"{where}: the operator {operator} cannot be traced, since nobody has said what it returns: "
            "register that with torch.library.register_fake"
        )
    elif kinds & DATA or PRIVATE.search(text):
        made = StepError(
            f"{where}: the step depends on the values of a tensor, and an estimate knows shapes alone. Use operators "
            "whose results have fixed shapes there (torch.where, masks), estimate the part of the model that reads no "
            'values (its backbone), or train a step with backend="echo" and read echo_torch.reports()'
        )
        made.on_data = True
    else:
        made = StepError(f"{where}: the step raised {type(fault).__name__}{text}")
        made.__cause__ = fault
    made.__suppress_context__ = True
    return made


def _place(fault: Exception, paths: Mapping[nn.Module, str]) -> str:
    """The last line of the user's code that was running, and the innermost module."""
    line, module = "", None
    for frame, number in traceback.walk_tb(fault.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith(ELSEWHERE) and not file.startswith("<"):
            code = linecache.getline(file, number).strip()
            line = f"{_short(file)}:{number}" + (f" ({code[:60]})" if code else "")
        module = _module_of(frame, paths) or module
    if module is None:
        return line or "loss_fn"
    name = f"'{paths[module]}' ({type(module).__name__})" if paths[module] else type(module).__name__
    return f"{line}, in {name}" if line else f"in {name}"


def _module_of(frame: FrameType, paths: Mapping[nn.Module, str]) -> nn.Module | None:
    own = frame.f_locals.get("self")
    return own if isinstance(own, nn.Module) and own in paths else None


def _short(file: str) -> str:
    """The path from the current folder or from the installed packages on."""
    for start in (Path.cwd(), Path(torch.__file__).parents[1]):
        if Path(file).is_relative_to(start):
            return str(Path(file).relative_to(start))
    return file
