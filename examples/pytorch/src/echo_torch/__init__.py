"""Trains PyTorch models in less memory: activations that are cheap to compute are computed again, exactly.

    model = torch.compile(model, backend="echo")
    model = torch.compile(model, backend=echo_torch.backend(budget="8GiB"))

Options of `backend`, `eager_backend`, `partition_fn`, `partitioner` and `estimate`: see `echo_torch.options.Options`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from echo_torch.compiling import Backend
    from echo_torch.estimation import Estimate as Estimate
    from echo_torch.estimation import estimate as estimate
    from echo_torch.faults import StepError as StepError
    from echo_torch.inductor import Partitioner
    from echo_torch.options import Asked
    from echo_torch.report import Reports

__all__ = ["Estimate", "StepError", "backend", "eager_backend", "estimate", "partition_fn", "partitioner", "reports"]
TESTED = ("2.11", "2.13")  # other versions are tried first: see `_distrust`


def partition_fn(**asked: Unpack[Asked]) -> Callable[..., Any]:
    """A `partition_fn` for users of AOTAutograd. ValueError, TypeError: an option makes no sense, or is none.
    ImportError: this PyTorch lacks what even its own partition is made by.
    """
    from echo_torch import hooks, moves
    from echo_torch.options import options_of
    from echo_torch.partition import partition

    hooks.require(*hooks.TO_PARTITION)
    moves.require_device(options := options_of(asked))
    return functools.partial(partition, options=options, distrust=_distrust())


def backend(**asked: Unpack[Asked]) -> Backend:
    """A backend for `torch.compile`, on top of Inductor; with `offload=` as `eager_backend`, since Inductor moves
    nothing. Errors as those of `partition_fn`.
    """
    return _backend("Backend", asked)


def eager_backend(**asked: Unpack[Asked]) -> Backend:
    """A backend for `torch.compile` without Inductor: operators run one by one, and every result has the bits of
    `aot_eager`. Errors as those of `partition_fn`.
    """
    return _backend("EagerBackend", asked)


def _backend(kind: str, asked: Any) -> Backend:
    from echo_torch import compiling, moves
    from echo_torch.options import options_of

    moves.require_device(options := options_of(asked))
    made: Backend = getattr(compiling, kind)(options)
    return made


@functools.cache
def _distrust() -> str | None:
    """Why graphs are left to this PyTorch: it lacks what Echo needs, or it is of no version that is tested, and by it a
    small model trains otherwise with Echo than without.
    """
    import torch

    from echo_torch import hooks

    tested = any(torch.__version__.startswith(version + ".") for version in TESTED)
    if hooks.missing or tested:
        return hooks.fault()
    from echo_torch.compiling import trains_alike

    if trains_alike():
        return None
    return f"with PyTorch {torch.__version__} a small model trains otherwise than without Echo"


def __getattr__(name: str) -> Any:
    """`echo` and `echo_eager`, the backends of `torch.compile` of these names: made when they are looked up, which is
    before anything is traced, so that `_distrust` may compile its model. And `estimate`, with what it returns and
    raises.
    """
    if name == "echo":
        return backend()
    if name == "echo_eager":
        return eager_backend()
    if name in ("estimate", "Estimate", "StepError"):
        from echo_torch import estimation

        return getattr(estimation, name)
    raise AttributeError(f"module 'echo_torch' has no attribute '{name}'")


def partitioner(**asked: Unpack[Asked]) -> Partitioner:
    """A partitioner for Inductor: `options={"custom_partitioner_fn": echo_torch.partitioner()}`.

    Several plans are lowered as Inductor would, and the one that takes least in the code which that generates is used.
    """
    from echo_torch.inductor import Partitioner

    return Partitioner(**asked)


def reports() -> Reports:
    """What became of every graph that was compiled in this process: see `echo_torch.report.Report`. `print` it."""
    from echo_torch.partition import reports as all_reports

    return all_reports
