"""Why TorchDynamo ends a graph or skips a function: reason, the user's source line, and a cure where one is known."""

from __future__ import annotations

import gc
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

TORCH = str(Path(torch.__file__).parent)
INSTALLED = tuple({str(Path(path)) for path in (TORCH, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))})
RECURRENT = "TorchDynamo does not trace nn.LSTM, nn.GRU and nn.RNN"
RECURRENT_CURE = (
    "set torch._dynamo.config.allow_rnn = True before compiling: less memory, but its steps run one by one and take "
    "longer. Or call it in a function under torch.compiler.disable, so that the modules around it are compiled"
)
# What TorchDynamo's first line or the source line says; the reason; the cure. The first that fits counts.
KNOWN = (
    (
        r"_detect_is_causal_mask",
        "PyTorch reads the values of the attention mask, to see whether it is causal",
        "pass is_causal=True if the mask is causal, is_causal=False if it is not",
    ),
    (r"wrap RNN, GRU, or LSTM", RECURRENT, RECURRENT_CURE),
    (
        r"Tensor\.item\(\)",
        "a number is read from a tensor (.item(), float(), int() or bool())",
        "keep the value a tensor, or read it outside of the compiled function",
    ),
    (
        r"[Dd]ata-dependent branching|generic_jump",
        "a branch depends on a tensor's value",
        "write it with torch.where, or with torch.cond",
    ),
    (
        r"Dynamic shape operator|dynamic output shape",
        "a size depends on a tensor's values, as with a boolean index or nonzero()",
        "multiply by the mask or use torch.where, or set torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    ),
    (r"builtin `print`|operator `print`", "print() is called", "print outside of the compiled function"),
    (
        r"sparse Tensor",
        "TorchDynamo does not trace sparse tensors",
        "call what uses them in a function of its own under torch.compiler.disable: the rest is then traced",
    ),
    (
        r"torch\.compiler\.disable|torch\._dynamo\.disable",
        "a function is marked by torch.compiler.disable",
        "remove the mark where the function can be traced",
    ),
    (
        r"is_param_in_hook_signature|lightning.* log",
        "TorchDynamo cannot trace Lightning's self.log",
        "define it in the module as `log = torch.compiler.disable(LightningModule.log)`, or compile the network in the "
        "module instead",
    ),
    (r"^step_unsupported", "TorchDynamo ends the graph there, and does not say why", None),
    (r"[Ll]ogger", "a logger is called", "log outside of the compiled function"),
)


@dataclass(frozen=True)
class Break:
    """One place at which a graph ends, or one function that TorchDynamo skips."""

    reason: str
    where: str = ""  # file and line of the user's code
    cure: str | None = None
    frames: tuple[tuple[str, int], ...] = ()  # all files and lines on the way, outermost first
    skipped: str = ""  # the function that is skipped; empty: what follows is traced again
    trains: bool = False  # a module whose parameters are trained is among its arguments

    def __str__(self) -> str:
        head = f"{self.skipped} is in no graph: " if self.skipped else ""
        place = f" ({self.where})" if self.where else ""
        return f"{head}{self.reason}{place}" + (f"; {self.cure}" if self.cure else "")


def read(text: str, stack: Iterable[traceback.FrameSummary]) -> Break:
    """What a reason of TorchDynamo's with its stack says to a user."""
    frames = list(stack)
    own = [frame for frame in frames if not frame.filename.startswith(INSTALLED)]
    own = own or [frame for frame in frames if not frame.filename.startswith(TORCH)]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    lines = text.strip().splitlines() or ["TorchDynamo gives no reason"]
    inner = [f"{frame.name} {frame.line or ''}" for frame in frames[-2:]]
    inner += [f"lightning: {frame.name}" for frame in frames if "lightning" in Path(frame.filename).parts]
    said = "\n".join([*inner, lines[0], *(line for line in lines[1:] if "Explanation:" in line)])
    way = tuple((frame.filename, frame.lineno or 0) for frame in frames)
    for pattern, reason, cure in KNOWN:
        if re.search(pattern, said):
            return Break(reason, where, cure, way)
    hints = [line.partition("Hint:")[2].strip() for line in lines if "Hint:" in line]
    useful = [hint for hint in hints if "report an issue" not in hint and "fundamental" not in hint]
    return Break(lines[0].rstrip("."), where, useful[0].rstrip(".") if useful else None, way)


def skipped(fault: BaseException) -> Break | None:
    """The function that TorchDynamo gives up on with this exception; None: it is not of that kind. To be called while
    the compilation is on the stack.
    """
    stack = getattr(fault, "real_stack", None)
    if stack is None:
        return None
    cause = fault.__cause__  # a skipped loop has the break in it as its cause
    first = cause if cause is not None and getattr(cause, "real_stack", None) is not None else fault
    found = read(str(getattr(first, "msg", first)), first.real_stack)  # type: ignore[attr-defined]
    frame = _of_conversion("frame", "f_code")
    code = getattr(frame, "f_code", None)
    given = [value for value in getattr(frame, "f_locals", {}).values() if isinstance(value, nn.Module)]
    trains = any(p.requires_grad for module in given for p in module.parameters())
    name = getattr(code, "co_qualname", "") or getattr(code, "co_name", "") or "a function"
    where = found.where or (f"{code.co_filename}:{code.co_firstlineno}" if code else "")
    return Break(found.reason, where, found.cure, found.frames, name, trains)


def _of_conversion(name: str, attribute: str) -> Any:
    """A local value, with that attribute, of the innermost call of TorchDynamo's that converts a frame; None: none."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "__call__" and hasattr(found := frame.f_locals.get(name), attribute):
            return found
        frame = frame.f_back
    return None


def compiles_for_echo() -> bool:
    """Whether the backend for which TorchDynamo compiles now is one of Echo's: it has the mark `is_echo`."""
    backend = _of_conversion("self", "_torchdynamo_orig_backend")
    while backend is not None and not getattr(backend, "is_echo", False):
        backend = getattr(backend, "_torchdynamo_orig_backend", None) or getattr(backend, "compiler_fn", None)
    return backend is not None


def every_module() -> list[nn.Module]:
    """The modules of this process."""
    return [each for each in gc.get_objects() if issubclass(type(each), nn.Module) and "_modules" in each.__dict__]


def count_alike() -> int:
    """How many modules of one list are compiled each by itself as the one is whose call TorchDynamo converts; 1 where
    that is no call of such a module.
    """
    frame = _of_conversion("frame", "f_code")
    first = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame is not None and frame.f_code.co_argcount else None
    if not isinstance(first, nn.Module):
        return 1
    for module in every_module():
        if isinstance(module, OptimizedModule):
            continue
        beside = [child for child in module._modules.values() if child is not None]
        own = next((child for child in beside if getattr(child, "_orig_mod", child) is first), None)
        if own is not None and _compiled_as(own) is not None:
            return sum(_compiled_as(child) == _compiled_as(own) for child in beside)
    return 1


def _compiled_as(module: nn.Module) -> tuple[type, bool, bool] | None:
    """The class of a module that is compiled by itself, and how it was asked for; None: it is not."""
    called, forward = module._compiled_call_impl is not None, "forward" in module.__dict__
    if isinstance(module, OptimizedModule):
        return type(module._orig_mod), False, False
    return (type(module), called, forward) if called or forward else None


def explains(found: Break, module: nn.Module) -> bool:
    """Whether the way to the break leads through the module's own `forward`, or is one of its kind."""
    if found.reason == RECURRENT:
        return isinstance(module, nn.RNNBase)
    code = getattr(type(module).forward, "__code__", None)
    if code is None:
        return False
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return any(file == code.co_filename and code.co_firstlineno <= line <= last for file, line in found.frames)
